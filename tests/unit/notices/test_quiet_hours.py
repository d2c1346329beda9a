"""Hours in which only errors are told."""

from __future__ import annotations

from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest

from tidegate.notices.policy import QuietHours

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


@pytest.mark.parametrize("text", ["22:30-07:05", " 22:30 - 07:05 "])
def test_hours_are_read_as_people_write_them(text: str) -> None:
    found = QuietHours.of(text, BERLIN)
    assert (found.begins, found.ends, found.zone) == (time(22, 30), time(7, 5), BERLIN)


@pytest.mark.parametrize("text", ["", "22-07", "24:00-07:00", "22:60-07:00", "22:00-07:00 and more", "٢٢:00-07:00"])
def test_what_are_no_hours_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'.*'.* 22:00-07:00"):
        QuietHours.of(text, BERLIN)


def test_hours_that_begin_when_they_end_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^'07:00-07:00'.*22:00-07:00"):
        QuietHours.of("07:00-07:00", BERLIN)


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        ("22:00-07:00", "2026-06-01T21:59:59", None),
        ("22:00-07:00", "2026-06-01T22:00", "2026-06-02T07:00"),
        ("22:00-07:00", "2026-06-01T23:59", "2026-06-02T07:00"),
        ("22:00-07:00", "2026-06-02T00:00", "2026-06-02T07:00"),
        ("22:00-07:00", "2026-06-02T06:59:59", "2026-06-02T07:00"),
        ("22:00-07:00", "2026-06-02T07:00", None),
        ("12:00-13:30", "2026-06-01T11:59", None),
        ("12:00-13:30", "2026-06-01T12:00", "2026-06-01T13:30"),
        ("12:00-13:30", "2026-06-01T13:29", "2026-06-01T13:30"),
        ("12:00-13:30", "2026-06-01T13:30", None),
    ],
)
def test_the_quiet_lasts_from_its_beginning_to_its_end_by_the_clocks_of_the_zone(
    hours: str, now: str, until: str | None
) -> None:
    assert QuietHours.of(hours, BERLIN).until(at(now)) == (None if until is None else at(until))


def test_an_end_that_the_clocks_pass_twice_is_asked_for_again_in_a_minute() -> None:
    # On this night 02:00 to 03:00 comes twice: at 02:10 for the second time, 02:30 for the first time has passed.
    now = at("2026-10-25T02:10", fold=1)
    assert QuietHours.of("01:00-02:30", BERLIN).until(now) == now + 60.0
