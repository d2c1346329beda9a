"""Times that people give, on the clock of a breaker."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.durations import moment, offset_of


@pytest.mark.parametrize(
    "until", [datetime.fromtimestamp(1_800_000_060, UTC), 1_800_000_060, 160.0, "1m", timedelta(minutes=1)]
)
def test_a_time_that_people_read_is_moved_to_the_clock_of_the_breaker(until: object) -> None:
    assert moment(until, 100.0, lambda: 1_799_999_900.0) == 160.0


def test_the_monotonic_clock_is_as_far_from_the_other_as_it_is() -> None:
    assert offset_of(time.monotonic)() == pytest.approx(time.time() - time.monotonic(), abs=1)
    assert offset_of(lambda: 5.0)() == 0.0
