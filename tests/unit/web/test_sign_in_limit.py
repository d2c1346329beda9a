"""How often a password may be tried, and by whom: failures of one must not keep another out."""

from __future__ import annotations

import pytest

from tidegate.web.auth import FREE, FREE_OF_DEVICE, SignInLimit

ADA = ("ada", ("10.0.0.1",))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> SignInLimit:
    return SignInLimit(clock)


def failing(limit: SignInLimit, times: int, name: str = "ada", network: str = "10.0.0.1", device: str = "") -> None:
    for _ in range(times):
        attempt = limit.begin(name, (network,), device or None)
        assert attempt.wait == 0
        limit.failed(attempt)


def test_a_few_mistakes_cost_nothing_then_each_costs_twice_as_much(limit: SignInLimit, clock: Clock) -> None:
    failing(limit, FREE - 1)
    waits = []
    for _ in range(12):
        failing(limit, 1)
        waits.append(limit.begin(*ADA).wait)
        clock.now += waits[-1]
    assert waits[:4] == [2, 4, 8, 16]
    assert waits[-1] == 900


def test_failures_of_one_network_do_not_keep_the_user_out_of_another(limit: SignInLimit, clock: Clock) -> None:
    failures = 0
    while failures < 108:
        attempt = limit.begin(*ADA)
        clock.now += attempt.wait
        if not attempt.wait:
            limit.failed(attempt)
            failures += 1
    assert limit.begin(*ADA).wait > 0
    assert limit.begin("ada", ("10.0.0.2",)).wait == 0


def test_a_network_that_fails_for_many_users_waits_and_gets_its_tries_back(limit: SignInLimit, clock: Clock) -> None:
    for n in range(30):
        failing(limit, 1, name=f"user{n}")
    assert 0 < limit.begin("bob", ("10.0.0.1",)).wait <= 20
    assert limit.begin("bob", ("10.0.0.2",)).wait == 0
    clock.now += 20.001
    assert limit.begin("bob", ("10.0.0.1",)).wait == 0
    clock.now += 3600
    for n in range(30):
        failing(limit, 1, name=f"other{n}")


def test_many_networks_together_get_no_more_than_the_ceiling(limit: SignInLimit, clock: Clock) -> None:
    for n in range(100):
        failing(limit, 1, name=f"user{n}", network=f"10.1.0.{n}")
    assert 0 < limit.begin("bob", ("10.2.0.1",)).wait <= 1
    clock.now += 1.001
    assert limit.begin("bob", ("10.2.0.1",)).wait == 0


def spread(limit: SignInLimit, clock: Clock, widths: tuple[str, ...], seconds: float) -> int:
    """Failures that an attacker gets through within a time, who tries each user from a new smallest network."""
    failures, end = 0, clock.now + seconds
    while clock.now < end:
        attempt = limit.begin(f"user{failures}", (f"smallest{failures}", *widths))
        clock.now += attempt.wait
        if not attempt.wait:
            limit.failed(attempt)
            failures += 1
    return failures


@pytest.mark.parametrize(("widths", "most"), [(("/24",), 60 + 6 * 60), (("/56", "/48"), 60 + 6 * 60)])
def test_a_large_network_cannot_try_without_bound_from_new_small_ones(
    limit: SignInLimit, clock: Clock, widths: tuple[str, ...], most: int
) -> None:
    assert most - 2 <= spread(limit, clock, widths, 3600.0) <= most + 2
    assert limit.begin("bob", ("10.0.0.1", "10.0.0.0/24")).wait == 0  # the total is not used up


def test_a_large_network_of_many_smaller_ones_has_its_own_limit(limit: SignInLimit, clock: Clock) -> None:
    for n in range(90):
        attempt = limit.begin(f"user{n}", (f"{n}/64", f"{n // 2}/56", "/48"))
        assert attempt.wait == 0
        limit.failed(attempt)
    assert 0 < limit.begin("bob", ("new/64", "new/56", "/48")).wait <= 20 / 3
    assert limit.begin("bob", ("new/64", "new/56", "/48"), "device").wait == 0
    assert limit.begin("bob", ("other/64", "other/56", "other/48")).wait == 0


def test_a_known_device_is_not_affected_by_others(limit: SignInLimit, clock: Clock) -> None:
    failing(limit, FREE)
    for n in range(95):
        failing(limit, 1, name=f"user{n}", network=f"10.1.0.{n}")
    assert limit.begin(*ADA).wait > 0
    assert limit.begin(*ADA, "device").wait == 0


def test_a_known_device_that_keeps_failing_counts_as_a_stranger_for_a_day(limit: SignInLimit, clock: Clock) -> None:
    failing(limit, FREE_OF_DEVICE, device="stolen")
    failing(limit, FREE, device="stolen")
    assert limit.begin(*ADA, "stolen").wait > 0
    assert limit.begin(*ADA, "another").wait == 0
    clock.now += 86399
    assert limit.begin(*ADA, "stolen").device is None
    clock.now += 2
    assert limit.begin(*ADA, "stolen").device == "stolen"


def test_a_known_device_that_fails_makes_nobody_else_wait(limit: SignInLimit) -> None:
    for n in range(100):
        failing(limit, 1, device=f"device{n}")
    assert limit.begin(*ADA).wait == 0


def test_tries_at_the_same_time_are_counted_before_any_of_them_has_failed(limit: SignInLimit) -> None:
    assert [limit.begin(*ADA).wait > 0 for _ in range(FREE + 2)] == [False] * FREE + [True] * 2
    assert [limit.begin(*ADA, "d").device for _ in range(FREE_OF_DEVICE + 1)] == ["d"] * FREE_OF_DEVICE + [None]
    # Others in the same network who sign in at once have done nothing wrong.
    for n in range(40):
        assert limit.begin(f"user{n}", ("10.0.0.1",)).wait == 0


def test_a_try_that_was_not_made_does_not_count(limit: SignInLimit) -> None:
    for device in (None, "device"):
        for _ in range(50):
            attempt = limit.begin(*ADA, device)
            assert (attempt.wait, attempt.device) == (0, device)
            limit.release(attempt)


def test_the_right_password_and_an_hour_forget_all(limit: SignInLimit, clock: Clock) -> None:
    failing(limit, FREE - 1)
    limit.passed(limit.begin(*ADA))
    failing(limit, FREE)
    clock.now += 3601
    failing(limit, 1)
    assert limit.begin(*ADA).wait == 0


def test_many_names_do_not_fill_the_memory(limit: SignInLimit, clock: Clock) -> None:
    failing(limit, FREE)
    for n in range(10_001):
        limit.begin(f"user{n}", ("",))
    assert limit.begin(*ADA).wait == 0  # the oldest are forgotten
