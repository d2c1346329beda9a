"""What is stored, as pages, answers and commands show it: how fresh it is, how the breaker is, and what was played."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from tidegate import DbTx
from tidegate_apps.tautulli.settings import Settings, next_time
from tidegate_apps.tautulli.storing import DAY, HOUR, State, month_of, state_of

TOP = 10
KINDS = ("person", "show", "platform")


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old what is stored is. *stale_since* is None while it is as new as it should be."""

    state: State
    breaker: str  # "closed", "open", "half-open": as it is now
    next_trial: float | None  # when the open breaker lets a call through
    stale_since: float | None


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of time that can be looked at: the last days, the last calendar months, or all of it.

    *grain* is what its lists are added up from.
    """

    name: str
    word: str
    grain: str
    length: int = 0

    def first(self, today: date) -> date | None:
        """The day on which it begins; None for all of it."""
        match self.grain:
            case "day":
                return today - timedelta(days=self.length - 1)
            case "month":
                month = today.year * 12 + today.month - self.length
                return date(month // 12, month % 12 + 1, 1)
            case _:
                return None


RANGES: Mapping[str, Range] = {
    each.name: each
    for each in (
        Range("7d", "7 days", "day", 7),
        Range("30d", "30 days", "day", 30),
        Range("90d", "90 days", "day", 90),
        Range("1y", "12 months", "month", 12),
        Range("all", "All", "all"),
    )
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One column of a chart."""

    label: str
    plays: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Leader:
    """One line of a list of the most played."""

    name: str
    plays: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """What was played in a stretch of time, in the time zone of this machine."""

    total: int
    seconds: int
    days: Sequence[Bar]  # or weeks, or months
    unit: str
    hours: Sequence[Bar]
    tops: Mapping[str, Sequence[Leader]]


def freshness(tx: DbTx, settings: Settings, now: float) -> Freshness:
    """Stale: the last attempt did not bring all, or two that were due since have not been made."""
    state = state_of(tx.one("state"))
    said, until = state.breaker.get("state", "closed"), state.breaker.get("until")
    # Nobody calls an open breaker, so nobody told that its time is over.
    now_it_is = "half-open" if said == "open" and until is not None and until <= now else said
    late = state.synced_at is not None and now > next_time(settings, state.synced_at, 2)
    stale = state.outcome != "synced" or now_it_is != "closed" or late
    return Freshness(state, now_it_is, until if said == "open" else None, state.synced_at if stale else None)


def charts(tx: DbTx, chosen: Range, now: float) -> Charts:
    """Reads rows that were added up before: as quick for a million plays as for a hundred."""
    today = datetime.fromtimestamp(now).astimezone().date()
    first = chosen.first(today)
    rows = tx.all("hours", first=0 if first is None else _midnight(first) // HOUR)
    moments = [(time.localtime(hour * HOUR), plays, seconds) for hour, plays, seconds in rows]
    by_hour = [[0, 0] for _ in range(24)]
    for then, plays, seconds in moments:
        by_hour[then.tm_hour][0] += plays
        by_hour[then.tm_hour][1] += seconds
    unit, days = _columns(moments, first, today)
    asked = {"grain": chosen.grain, "first": _first_tally(chosen, now), "n": TOP}
    tops = {
        kind: [Leader(*row) for row in tx.all("top", kind=kind, **asked)] for kind in ("person", "show", "platform")
    }
    return Charts(
        total=sum(plays for _, plays, _ in moments), seconds=sum(seconds for _, _, seconds in moments), days=days,
        unit=unit, hours=[Bar(f"{hour:02}:00", *found) for hour, found in enumerate(by_hour)], tops=tops,
    )  # fmt: skip


def _first_tally(chosen: Range, now: float) -> int:
    """From where on the tallies count; days and months are those of UTC there."""
    match chosen.grain:
        case "day":
            return int(now // DAY) - chosen.length + 1
        case "month":
            return month_of(now) - chosen.length + 1
        case _:
            return 0


def _midnight(day: date) -> int:
    """When a day began, in the time zone of this machine."""
    return int(datetime(day.year, day.month, day.day).astimezone().timestamp())


Moment = tuple[time.struct_time, int, int]


def _columns(moments: Sequence[Moment], since: date | None, today: date) -> tuple[str, list[Bar]]:
    """Days up to 92 of them, then weeks up to two years, then months. Those without a play are there too."""
    first = since or (date(*moments[0][0][:3]) if moments else today)
    unit, days = _days(first, today)
    found = {day.toordinal(): [0, 0] for day in days}
    for then, plays, seconds in moments:
        ordinal = date(then.tm_year, then.tm_mon, 1 if unit == "month" else then.tm_mday).toordinal()
        # An ordinal of 1 is a Monday.
        column = found.get(ordinal - (ordinal - 1) % 7 if unit == "week" else ordinal)
        if column is not None:  # not so for what Tautulli dates into the future
            column[0] += plays
            column[1] += seconds
    return unit, [Bar(_label(day, unit), *found[day.toordinal()]) for day in days]


def _days(first: date, today: date) -> tuple[str, list[date]]:
    """On which day each column begins."""
    length = (today - first).days + 1
    if length <= 92:
        return "day", [first + timedelta(days=n) for n in range(length)]
    if length <= 735:
        monday = first - timedelta(days=first.weekday())
        return "week", [monday + timedelta(days=n) for n in range(0, (today - monday).days + 1, 7)]
    began, ends = first.year * 12 + first.month - 1, today.year * 12 + today.month
    return "month", [date(month // 12, month % 12 + 1, 1) for month in range(began, ends)]


def _label(day: date, unit: str) -> str:
    return f"{day:%b %Y}" if unit == "month" else f"{day:%a %-d %b %Y}" if unit == "day" else f"week of {day:%-d %b %Y}"


def history(tx: DbTx, asked: Mapping[str, Any]) -> list[Any]:
    """Plays, the newest first: by the index of the user or of the title, where one of them is given."""
    common = {name: asked[name] for name in ("started", "row_id", "since", "platform", "media_type", "n")}
    if asked["person"]:
        return tx.all("plays_of_person", **common, person=asked["person"], show=asked["show"])
    if asked["show"]:
        return tx.all("plays_of_show", **common, show=asked["show"])
    return tx.all("plays", **common)
