"""Times and numbers in the words of a page. Pure: the moment that counts as now is an argument."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo

_UNITS = ((86400.0, "day"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_FAR = 30 * 86400.0
_WEEK = 6 * 86400.0


def span(seconds: float, *, nearest: bool = False) -> str:
    """A length of time in its usual unit, whole ones or the nearest: 40 -> '40 s', 750 -> '12 min', 9e4 -> '1 day'."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    for size, unit in _UNITS:
        # 59.6 seconds are a minute to a person, and 119.5 minutes two hours are not yet.
        if seconds >= size:
            n = math.floor(seconds / size + 0.5 * nearest)
            return f"{n} {unit}{'s' if unit == 'day' and n != 1 else ''}"
    return "1 s"


def took(seconds: float) -> str:
    """A duration that was measured: '85 ms', '2.4 s', '3 min'."""
    if 1 <= seconds < 10:
        return f"{seconds:.1f} s"
    return span(seconds)


def relative(at: float, now: float) -> str:
    """'12 min ago', 'in 4 min', 'just now'; a date when it is more than a month away.

    What is ahead is nearly two days away, and not one; what lasted for nearly two days lasted for one.
    """
    away = at - now
    if abs(away) >= _FAR:
        return f"{_local(at):%Y-%m-%d}"
    if abs(away) < 1:
        return "just now"
    return f"in {span(math.ceil(away), nearest=True)}" if away > 0 else f"{span(-away)} ago"


def clock(at: float, now: float, zone: tzinfo | None = None) -> str:
    """The time of day, with the day where it is another one: '14:30', 'Thu 09:00', '2026-11-20 14:30'."""
    then, today = _local(at, zone), _local(now, zone)
    if then.date() == today.date():
        return f"{then:%H:%M}"
    return f"{then:%a %H:%M}" if abs(at - now) < _WEEK else f"{then:%Y-%m-%d %H:%M}"


def to_the_second(at: float, now: float, zone: tzinfo | None = None) -> str:
    """'14:02:11', with the date where it is another day."""
    then = _local(at, zone)
    return f"{then:%H:%M:%S}" if then.date() == _local(now, zone).date() else f"{then:%Y-%m-%d %H:%M:%S}"


def absolute(at: float, zone: tzinfo | None = None) -> str:
    """To the second, with its zone: '2026-11-15 14:02:11 UTC'."""
    return f"{_local(at, zone):%Y-%m-%d %H:%M:%S %Z}"


def machine(at: float) -> str:
    """As the attribute of a `time` wants it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def zone_name(now: float) -> str:
    return _local(now).tzname() or "UTC"


def number(n: float) -> str:
    """With a thin mark between thousands: 12345 -> '12,345'."""
    return f"{n:,}"


def many(n: int, thing: str, things: str = "") -> str:
    """'1 job', '12 jobs'."""
    return f"{number(n)} {thing if n == 1 else things or thing + 's'}"


def _local(at: float, zone: tzinfo | None = None) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(zone)
