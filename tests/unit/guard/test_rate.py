"""Rates: evenly spaced calls, with a burst."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import Rate


def admitted(rate: Rate, moments: list[float]) -> list[float]:
    paid, through = -math.inf, []
    for now in moments:
        if not rate.wait(paid, now):
            paid = rate.pay(paid, now)
            through.append(now)
    return through


def test_a_burst_goes_at_once_and_the_rest_evenly() -> None:
    assert admitted(Rate(2, "1s", burst=3), [0, 0, 0, 0, 0.4, 0.5, 0.9, 1.0]) == [0, 0, 0, 0.5, 1.0]


@given(
    st.integers(1, 50), st.floats(0.1, 100), st.integers(1, 10), st.lists(st.floats(0, 1000), max_size=200).map(sorted)
)
def test_no_stretch_of_time_holds_more_than_the_rate_and_its_burst(
    count: int, per: float, burst: int, moments: list[float]
) -> None:
    rate = Rate(count, per, burst)
    through = admitted(rate, moments)

    for i, start in enumerate(through):
        in_stretch = sum(1 for at in through[i:] if at - start < per * 0.999)
        assert in_stretch <= count + burst


@pytest.mark.parametrize("count", [3, 7, 10, 30])
def test_a_call_that_comes_at_its_very_time_is_never_late_by_a_rounding(count: int) -> None:
    rate, now, moments = Rate(count), 0.0, []
    for _ in range(1000):
        moments.append(now)
        now += rate.spacing

    assert admitted(rate, moments) == moments


@pytest.mark.parametrize(
    ("kept", "used"),
    [(None, -math.inf), (900.0, 900.0), (1006.0, 1006.0), (1066.0, 1066.0), (1066.5, -math.inf), (9e9, -math.inf)],
)
def test_what_is_paid_far_beyond_a_burst_is_from_before_the_clock_was_set_back(kept: float | None, used: float) -> None:
    assert Rate(1, "2s", burst=3).used(kept, 1000.0) == used


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"count": 0}, "Rate.count"), ({"count": math.nan}, "Rate.count"), ({"count": 1, "per": 0}, "Rate.per"),
     ({"count": 1, "burst": 0}, "Rate.burst"), ({"count": 1, "burst": 1.5}, "Rate.burst")],
)  # fmt: skip
def test_wrong_rates_are_refused_by_the_name_of_the_field(fields: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        Rate(**fields)
