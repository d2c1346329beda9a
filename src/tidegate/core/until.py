"""Until when: "2h" from now, a date, or UNIX time."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidegate.core.duration import MAX_SECONDS, seconds

Until = float | str | timedelta | datetime


def ahead(until: Until, now: float, *, field: str = "until") -> float:
    """The UNIX time that *until* means; ValueError when it is not ahead of *now*, or no time at all."""
    if isinstance(until, (str, timedelta)):
        moment = now + seconds(until, field=field)
    elif isinstance(until, datetime):
        moment = until.timestamp()
    elif type(until) in (int, float):
        moment = float(until)
    else:
        raise TypeError(f"{field}: {until!r} is no time; give '2h', a timedelta, a datetime or UNIX time")
    if not now < moment <= now + MAX_SECONDS:
        raise ValueError(f"{field}: {until!r} is not allowed; give a time ahead of now, at most a hundred years")
    return moment
