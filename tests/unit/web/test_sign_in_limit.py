"""How often a password may be tried."""

from __future__ import annotations

import pytest

from tidegate.web.sign_in_limit import FREE, SignInLimit

ADA = ("name ada", "address 10.0.0.1")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def failing(limit: SignInLimit, times: int, keys: tuple[str, ...] = ADA) -> None:
    for _ in range(times):
        limit.failed(keys)


def test_a_few_mistakes_cost_nothing_then_each_costs_twice_as_much(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE - 1)
    assert limit.wait(ADA) == 0
    waits = []
    for _ in range(12):
        failing(limit, 1)
        waits.append(limit.wait(ADA))
        clock.now += limit.wait(ADA)
        assert limit.wait(ADA) == 0
    assert waits[:4] == [2, 4, 8, 16]
    assert waits[-1] == 900


def test_the_name_and_the_address_count_each_by_itself(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE)
    assert limit.wait(("name ada", "address 10.0.0.2")) > 0
    assert limit.wait(("name bob", "address 10.0.0.1")) > 0
    assert limit.wait(("name bob", "address 10.0.0.2")) == 0


def test_the_right_password_and_an_hour_forget_all(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE)
    limit.passed(ADA)
    assert limit.wait(ADA) == 0
    failing(limit, FREE)
    clock.now += 3601
    failing(limit, 1)
    assert limit.wait(ADA) == 0


def test_many_names_do_not_fill_the_memory(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE)
    for n in range(10_001):
        limit.failed((f"name {n}",))
    assert limit.wait(ADA) == 0  # the oldest are forgotten
    assert limit.wait(("name 10000",)) == 0
