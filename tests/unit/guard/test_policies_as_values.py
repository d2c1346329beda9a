"""Policies as values: what they are by default, what makes two of them equal, and how they show themselves."""

from __future__ import annotations

import math

import pytest

from tidegate import Backoff, Cooldown, Rate
from tidegate.faults import Confirm
from tidegate.guard.backoff import Add


def test_a_ladder_is_that_of_the_sync_loops_unless_something_else_is_said() -> None:
    assert Backoff() == Backoff.sync() == Backoff("30s", cap="30m", factor=2, jitter=0.25)
    assert (Backoff().base, Backoff().cap, Backoff().factor, Backoff().jitter) == (30.0, 1800.0, 2.0, 0.25)
    assert Backoff().steps == ()


@pytest.mark.parametrize(
    "other",
    [
        Backoff(31), Backoff(cap=1801), Backoff(factor=3), Backoff(jitter=0.3), Backoff(jitter=Add(0, 1)),
        Backoff.listed(30, 1800, jitter=0.25), "30s",
    ],
)  # fmt: skip
def test_ladders_of_other_numbers_are_others(other: object) -> None:
    assert Backoff() != other
    assert hash(Backoff()) != hash(other)


def test_equal_ladders_have_one_hash() -> None:
    assert len({Backoff(), Backoff("30s"), Backoff.sync()}) == 1


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (Backoff(), "Backoff(30, cap=1800, factor=2, jitter=0.25)"),
        (Backoff(1.5, cap=2, factor=1.5, jitter=0), "Backoff(1.5, cap=2, factor=1.5, jitter=0.0)"),
        (Backoff.listed(5, 1.5), "Backoff.listed(5, 1.5, jitter=0.0)"),
        (Backoff(1, jitter=Add(0, "1m")), "Backoff(1, cap=1800, factor=2, jitter=Add(lo=0.0, hi=60.0))"),
        (
            Cooldown({"gone": (1, "1h")}, same={"not_found": "gone"}),
            "Cooldown({'gone': (1, 3600.0)}, same={'not_found': 'gone'})",
        ),
    ],
)
def test_a_policy_shows_its_numbers(made: object, shown: str) -> None:
    assert repr(made) == shown


def test_the_profiles_are_these_ladders() -> None:
    assert Backoff.submission() == Backoff(60, cap=3600, factor=2, jitter=Add(0, 60))
    assert Backoff.conversion() == Backoff.listed(5, 15, 45, jitter=0.2)
    listed = Backoff.listed(5, 45, 15)
    assert (listed.base, listed.cap, listed.factor, listed.jitter) == (5.0, 45.0, 1.0, 0.0)


def test_jitter_spreads_around_a_step_and_what_is_added_stays_within_the_cap() -> None:
    spread = Backoff(10, cap=100, jitter=0.5)
    assert [spread.delay(1, roll) for roll in (0.0, 0.5, 1.0)] == [10.0, 20.0, 30.0]
    added = Backoff(10, cap=25, jitter=Add(2, 6))
    assert [added.delay(0, roll) for roll in (0.0, 0.5, 1.0)] == [12.0, 14.0, 16.0]
    assert added.delay(1, 1.0) == 25.0
    assert (spread.bound, added.bound) == (150.0, 25.0)


def test_without_a_roll_one_is_thrown() -> None:
    assert len({Backoff(10, jitter=1).delay(0) for _ in range(20)}) > 1


def test_a_ladder_that_does_not_climb_has_no_cap_to_reach() -> None:
    assert not Backoff(10, cap=10).at_cap(5)
    assert [Backoff(10, cap=40).at_cap(n) for n in (0, 1, 2, 3)] == [False, False, True, True]


def test_a_ladder_climbs_whatever_the_number_of_failures() -> None:
    assert Backoff(10, cap=1e6, jitter=0).delay(10**400) == 1e6
    assert Backoff(0, cap=1e6).delay(10**400, 0.5) == 0.0
    assert Backoff(1, cap=1e6, factor=1, jitter=0).delay(2**60) == 1.0


def test_added_jitter_runs_from_its_low_to_its_high() -> None:
    made = Add("1s", "1m")
    assert (made.lo, made.hi, made.at(0.0), made.at(0.5), made.at(1.0)) == (1.0, 60.0, 1.0, 30.5, 60.0)


def test_a_rate_is_per_second_and_without_a_burst_unless_something_else_is_said() -> None:
    rate = Rate(4)
    assert (rate.per, rate.burst, rate.spacing) == (1.0, 1, 0.25)
    assert Rate(120, "1m", burst=5).spacing == 0.5


def test_a_burst_is_paid_for_later() -> None:
    rate = Rate(1, "10s", burst=3)
    assert rate.pay(5.0, 100.0) == 110.0
    assert rate.pay(105.0, 100.0) == 115.0
    assert rate.wait(120.0, 100.0) == 0.0
    assert rate.wait(121.0, 100.0) == 1.0
    assert math.isclose(rate.wait(120.0 + 2e-5, 100.0), 2e-5, rel_tol=1e-6)
    assert rate.wait(120.0 + 5e-6, 100.0) == 0.0


def test_cooldowns_are_equal_by_their_rests_and_by_what_counts_as_the_same() -> None:
    one = Cooldown({"gone": (1, "1h"), "network": (2, "2h")}, same={"timeout": "network"})
    same = Cooldown({"network": (2, 7200), "gone": (1, 3600)}, same={"timeout": "network"})
    assert (one == same, hash(one) == hash(same)) == (True, True)
    for other in (
        Cooldown({"gone": (1, "1h"), "network": (2, "2h")}),
        Cooldown({"gone": (1, "1h"), "network": (3, "2h")}, same={"timeout": "network"}),
        "gone",
    ):
        assert one != other
        assert hash(one) != hash(other)
    assert (one.counted("timeout"), one.counted("gone"), one.counted("odd")) == ("network", "gone", "odd")
    assert [one.governs(code) for code in ("timeout", "gone", "odd")] == [True, True, False]


def test_a_doubtful_code_is_believed_the_second_time_half_a_minute_later() -> None:
    made = Confirm("gone")
    assert (made.times, made.apart, made.within, made.until_then) == (2, 30.0, 300.0, "upstream_failure")
    assert (made.probe, made.becomes, made.good, made.fewer_than) == (None, None, False, None)
    assert (made.unless_worked, made.only_worked) == (False, False)
    assert Confirm("gone", fewer_than=2, times=1).fewer_than == 2
