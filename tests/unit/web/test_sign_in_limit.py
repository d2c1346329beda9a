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


def failing(limit: SignInLimit, times: int, name: str = ADA[0], address: str = ADA[1]) -> None:
    for _ in range(times):
        assert limit.begin(name, address) == 0
        limit.failed(address)


def test_a_few_mistakes_cost_nothing_then_each_costs_twice_as_much(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE - 1)
    waits = []
    for _ in range(12):
        failing(limit, 1)
        waits.append(limit.begin(*ADA))
        clock.now += waits[-1]
    assert waits[:4] == [2, 4, 8, 16]
    assert waits[-1] == 900


def test_the_name_and_the_address_count_each_by_itself(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE)
    assert limit.begin("name ada", "address 10.0.0.2") > 0
    assert limit.begin("name bob", "address 10.0.0.1") > 0
    assert limit.begin("name bob", "address 10.0.0.2") == 0


def test_tries_at_the_same_time_are_counted_before_any_of_them_has_failed(clock: Clock) -> None:
    limit = SignInLimit(clock)
    assert [limit.begin(*ADA) > 0 for _ in range(FREE + 2)] == [False] * FREE + [True] * 2
    # Others behind the same address who sign in at once have done nothing wrong.
    for n in range(2 * FREE):
        assert limit.begin(f"name {n}", ADA[1]) == 0


def test_the_right_password_and_an_hour_forget_all(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE)
    limit.passed(*ADA)
    failing(limit, FREE)
    clock.now += 3601
    failing(limit, 1)
    assert limit.begin(*ADA) == 0


def test_many_names_do_not_fill_the_memory(clock: Clock) -> None:
    limit = SignInLimit(clock)
    failing(limit, FREE)
    for n in range(10_001):
        limit.begin(f"name {n}", "")
    assert limit.begin(*ADA) == 0  # the oldest are forgotten
    assert limit.begin("name 10000", "") == 0
