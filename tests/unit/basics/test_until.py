"""Until when, as people give it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.durations import MAX_SECONDS, Until, ahead

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("until", "moment"),
    [
        ("2h", NOW + 7200.0),
        (timedelta(minutes=5), NOW + 300.0),
        (datetime.fromtimestamp(NOW + 60, UTC), NOW + 60),
        (NOW + 0.5, NOW + 0.5),
        (int(NOW) + 1, NOW + 1.0),
        (NOW + MAX_SECONDS, NOW + MAX_SECONDS),
    ],
)
def test_a_duration_is_counted_from_now_and_a_time_is_itself(until: Until, moment: float) -> None:
    found = ahead(until, NOW)
    assert (found, type(found)) == (moment, float)


@pytest.mark.parametrize("until", [NOW, NOW - 1, 0, "0s", timedelta(0), datetime.fromtimestamp(NOW, UTC), NOW * 3])
def test_what_is_not_ahead_of_now_or_a_hundred_years_away_is_refused_by_name(until: Until) -> None:
    with pytest.raises(ValueError, match=r"^pause: "):
        ahead(until, NOW, field="pause")


@pytest.mark.parametrize("until", [None, True, [NOW]])
def test_what_is_no_time_is_refused_by_name(until: object) -> None:
    words = r"^until: .* is not a time; give '2h', a timedelta, a datetime or UNIX time$"
    with pytest.raises(TypeError, match=words):
        ahead(until, NOW)  # type: ignore[arg-type]


def test_what_is_no_duration_names_the_field_too() -> None:
    with pytest.raises(ValueError, match=r"^pause: 'soon' "):
        ahead("soon", NOW, field="pause")
