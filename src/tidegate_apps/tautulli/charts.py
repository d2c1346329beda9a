"""Charts: plays by day and by hour in the local time zone, and the most played."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise

from tidegate.apps import DbTx
from tidegate.svg import LinearScale, Svg, group, rect, stretched, y_grid
from tidegate_apps.tautulli.store import DAY, HOUR, KINDS, QUARTER, month_of, week_of

TOP = 10
_EPOCH = date(1970, 1, 1).toordinal()
_ZONE_STEP = 10 * DAY // QUARTER  # no zone changes twice in ten days
_PARTS = HOUR // QUARTER
_STRETCH = 28 * DAY // QUARTER  # the rows that the chart of hours is computed from


@dataclass(frozen=True, slots=True)
class Range:
    """A time range to show: the last days, the last calendar months, or everything.

    *grain* is the unit of the totals behind its lists.
    """

    name: str
    word: str
    grain: str
    length: int = 0

    def first(self, today: date) -> date | None:
        """Return the first day; None for everything."""
        if self.grain == "all":
            return None
        if self.grain != "month":
            return today - timedelta(days=self.length - 1)
        month = today.year * 12 + today.month - self.length
        return date(month // 12, month % 12 + 1, 1)

    def tallies(self, today: date) -> dict[str, object]:
        """Return the totals behind its lists, and the plays at its edges: totals are in UTC."""
        first = self.first(today)
        if first is None:
            return {"grain": "all", "whole": 0, "rim": 0, "rim_ends": 0, "sign": 1}
        day, here = first.toordinal() - _EPOCH, _midnight(first)
        whole = week_of(day + 6)  # the first week that begins on that day or later
        at, there = (month_of(day * DAY), day * DAY) if self.grain == "month" else (whole, (whole * 7 - 3) * DAY)
        return {
            "grain": self.grain,
            "whole": at,
            "rim": min(here, there),
            "rim_ends": max(here, there),
            "sign": 1 if here < there else -1,
        }


RANGES: Mapping[str, Range] = {
    each.name: each
    for each in (
        Range("7d", "7 days", "week", 7),
        Range("30d", "30 days", "week", 30),
        Range("90d", "90 days", "week", 90),
        Range("1y", "12 months", "month", 12),
        Range("all", "All", "all"),
    )
}


@dataclass(frozen=True, slots=True)
class ChartBar:
    """One column of a chart."""

    label: str
    plays: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Leader:
    """One row of a list of the most played."""

    name: str
    plays: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The data of all charts."""

    total: int
    seconds: int
    days: Sequence[ChartBar]  # or weeks, or months
    unit: str
    hours: Sequence[ChartBar]
    tops: Mapping[str, Sequence[Leader]]


def charts(tx: DbTx, chosen: Range, now: float) -> Charts:
    """Read precomputed totals: a million plays take as long as a hundred."""
    today = datetime.fromtimestamp(now).astimezone().date()
    first = chosen.first(today) or _oldest(tx, today)
    unit, starts = _starts(first, today)
    begins = [_midnight(max(first, start)) // QUARTER for start in starts]
    ends = (int(now // HOUR) + 1) * _PARTS
    by_start, by_hour = _columns(tx, [*begins, ends]), _hours(tx, begins[0], ends)
    tallies = chosen.tallies(today)
    return Charts(
        total=sum(plays for plays, _ in by_start),
        seconds=sum(seconds for _, seconds in by_start),
        days=[ChartBar(_label(start, unit), *totals) for start, totals in zip(starts, by_start, strict=True)],
        unit=unit,
        hours=[ChartBar(f"{hour:02}:00", *totals) for hour, totals in enumerate(by_hour)],
        tops={kind: _leaders(tx, kind, tallies) for kind in KINDS},
    )


def _columns(tx: DbTx, bounds: Sequence[int]) -> list[list[int]]:
    """Return plays and seconds between these quarters: from hourly totals, and from quarters at the edges."""
    totals, asked, columns = [[0, 0] for _ in bounds[1:]], list[tuple[int, int, int]](), list[int]()
    for n, (first, ends) in enumerate(pairwise(bounds)):
        hour, last = -(-first // _PARTS), ends // _PARTS
        inner = [(HOUR, hour, last), (QUARTER, first, hour * _PARTS), (QUARTER, last * _PARTS, ends)]
        for stretch in inner if hour <= last else [(QUARTER, first, ends)]:
            if stretch[1] < stretch[2]:
                asked.append(stretch)
                columns.append(n)
    for n, plays, seconds in tx.all("columns", stretches=json.dumps(dict(enumerate(asked)))):
        _add(totals[columns[int(n)]], plays, seconds)
    return totals


def _hours(tx: DbTx, first: int, ends: int) -> list[list[int]]:
    """Return plays and seconds by hour of the day: from totals of 28 days, and from quarters at the edges."""
    totals = [[0, 0] for _ in range(24)]
    for began, end, ahead in _zones(first, ends):
        whole, last = -(-began // _STRETCH), end // _STRETCH
        asked = [("clock", whole, last), ("hours", began, whole * _STRETCH), ("hours", last * _STRETCH, end)]
        for statement, start, stop in asked if whole <= last else [("hours", began, end)]:
            for hour, plays, seconds in tx.all(statement, first=start, ends=stop, ahead=ahead) if start < stop else ():
                _add(totals[int(hour)], plays, seconds)
    return totals


def _leaders(tx: DbTx, kind: str, tallies: Mapping[str, object]) -> list[Leader]:
    return [
        Leader(name, int(plays), int(seconds)) for name, plays, seconds in tx.all("top", kind=kind, n=TOP, **tallies)
    ]


def _add(column: list[int], plays: int | None, seconds: int | None) -> None:
    column[0] += int(plays or 0)
    column[1] += int(seconds or 0)


def _oldest(tx: DbTx, today: date) -> date:
    oldest = tx.scalar_or_none(int, "oldest")
    return today if oldest is None else min(today, datetime.fromtimestamp(oldest).astimezone().date())


def _midnight(day: date) -> int:
    """Return when a day began in the local time zone."""
    return int(datetime(day.year, day.month, day.day).astimezone().timestamp())


def _zones(first: int, ends: int) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of quarters of an hour with one UTC offset: first, end and offset in seconds."""
    while first < ends:
        ahead, last = _ahead(first), first
        while last < ends and _ahead(last) == ahead:
            last += _ZONE_STEP
        looked = range(max(first, last - _ZONE_STEP), min(last, ends))
        last = looked.start + bisect_left(looked, True, key=lambda quarter: _ahead(quarter) != ahead)
        yield first, last, ahead
        first = last


def _ahead(quarter: int) -> int:
    return time.localtime(quarter * QUARTER).tm_gmtoff


def _starts(first: date, today: date) -> tuple[str, list[date]]:
    """Return the first days of the columns: days up to 92, then weeks up to two years, then months."""
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


# -- SVG ---------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 1000.0, 100.0
_MIN_HEIGHT = 1.5  # so that small values stay visible


def columns(bars: Sequence[ChartBar], label: str) -> Svg:
    """Return columns with labels. The space above a column belongs to it, as a larger hover area."""
    y = LinearScale(0, max((bar.plays for bar in bars), default=0) or 1, _HEIGHT, 0)
    wide = _WIDTH / max(len(bars), 1)
    gap = min(6.0, wide * 0.2)
    shapes = [y_grid("grid", y, (0, y.high / 2, y.high), _WIDTH)]
    for at, bar in enumerate(bars):
        top = min(y(bar.plays), _HEIGHT - _MIN_HEIGHT) if bar.plays else _HEIGHT
        room = rect("room", at * wide, 0, wide, _HEIGHT)
        column = rect("column", at * wide + gap / 2, top, wide - gap, _HEIGHT - top)
        shapes.append(group(room, column, title=f"{bar.label}: {plays(bar.plays)}"))
    return stretched("picture chart", _WIDTH, _HEIGHT, shapes, label)


def share(part: float) -> Svg:
    """Return a thin bar with the length of a share."""
    return stretched("picture share", 100, 4, [rect("column", 0, 0, max(1.0, 100 * min(part, 1.0)), 4)], None)


def in_words(bars: Sequence[ChartBar], what: str) -> str:
    """Return the chart as text, for screen readers."""
    total = sum(bar.plays for bar in bars)
    best = max(bars, key=lambda bar: bar.plays, default=None)
    if best is None or not total:
        return f"Plays {what}: none."
    return f"Plays {what}: {plays(total)} in all, the most on {best.label} with {best.plays:,}."


def plays(n: int) -> str:
    return f"{n:,} play{'' if n == 1 else 's'}"
