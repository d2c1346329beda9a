"""What was played in a stretch of time: by day and by hour in the zone of this machine, and the most played."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from tidegate.apps import DbTx
from tidegate_apps.tautulli.store import DAY, HOUR, KINDS, QUARTER, month_of, week_of

TOP = 10
_EPOCH = date(1970, 1, 1).toordinal()
_ZONE_STEP = 10 * DAY // QUARTER  # no zone changes twice in ten days
_PARTS = HOUR // QUARTER
_STRETCH = 28 * DAY // QUARTER  # of the rows that the hours are drawn from


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
        if self.grain == "all":
            return None
        if self.grain != "month":
            return today - timedelta(days=self.length - 1)
        month = today.year * 12 + today.month - self.length
        return date(month // 12, month % 12 + 1, 1)

    def tallies(self, today: date) -> dict[str, Any]:
        """Which tallies its lists are added up from, and which plays at its rim: tallies are of UTC."""
        first = self.first(today)
        if first is None:
            return {"grain": "all", "whole": 0, "rim": 0, "rim_ends": 0, "sign": 1}
        day, here = first.toordinal() - _EPOCH, _midnight(first)
        whole = week_of(day + 6)  # the first that begins then or later
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
    """One line of a list of the most played."""

    name: str
    plays: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """What is drawn."""

    total: int
    seconds: int
    days: Sequence[ChartBar]  # or weeks, or months
    unit: str
    hours: Sequence[ChartBar]
    tops: Mapping[str, Sequence[Leader]]


def charts(tx: DbTx, chosen: Range, now: float) -> Charts:
    """Reads rows that were added up before: as quick for a million plays as for a hundred."""
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
        days=[ChartBar(_label(start, unit), *found) for start, found in zip(starts, by_start, strict=True)],
        unit=unit,
        hours=[ChartBar(f"{hour:02}:00", *found) for hour, found in enumerate(by_hour)],
        tops={kind: _leaders(tx, kind, tallies) for kind in KINDS},
    )


def _columns(tx: DbTx, bounds: Sequence[int]) -> list[list[int]]:
    """Plays and seconds between each of these quarters and the next: by the hour, and by the quarter at the rims."""
    found, asked, columns = [[0, 0] for _ in bounds[1:]], list[tuple[int, int, int]](), list[int]()
    for n, (first, ends) in enumerate(pairwise(bounds)):
        hour, last = -(-first // _PARTS), ends // _PARTS
        inner = [(HOUR, hour, last), (QUARTER, first, hour * _PARTS), (QUARTER, last * _PARTS, ends)]
        for stretch in inner if hour <= last else [(QUARTER, first, ends)]:
            if stretch[1] < stretch[2]:
                asked.append(stretch)
                columns.append(n)
    for n, plays, seconds in tx.all("columns", stretches=json.dumps(dict(enumerate(asked)))):
        _add(found[columns[int(n)]], plays, seconds)
    return found


def _hours(tx: DbTx, first: int, ends: int) -> list[list[int]]:
    """Plays and seconds by the hour of the day, of these quarters: 28 days at once, and by the quarter at the rims."""
    found = [[0, 0] for _ in range(24)]
    for began, end, ahead in _zones(first, ends):
        whole, last = -(-began // _STRETCH), end // _STRETCH
        asked = [("clock", whole, last), ("hours", began, whole * _STRETCH), ("hours", last * _STRETCH, end)]
        for statement, start, stop in asked if whole <= last else [("hours", began, end)]:
            for hour, plays, seconds in tx.all(statement, first=start, ends=stop, ahead=ahead) if start < stop else ():
                _add(found[int(hour)], plays, seconds)
    return found


def _leaders(tx: DbTx, kind: str, tallies: Mapping[str, Any]) -> list[Leader]:
    return [
        Leader(name, int(plays), int(seconds)) for name, plays, seconds in tx.all("top", kind=kind, n=TOP, **tallies)
    ]


def _add(column: list[int], plays: int | None, seconds: int | None) -> None:
    column[0] += int(plays or 0)
    column[1] += int(seconds or 0)


def _oldest(tx: DbTx, today: date) -> date:
    row = tx.one("oldest")
    return today if row is None else min(today, datetime.fromtimestamp(row[0]).astimezone().date())


def _midnight(day: date) -> int:
    """When a day began, in the time zone of this machine."""
    return int(datetime(day.year, day.month, day.day).astimezone().timestamp())


def _zones(first: int, ends: int) -> Iterator[tuple[int, int, int]]:
    """The quarters of an hour from *first* on, in stretches with one distance to UTC: first, end and seconds ahead."""
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
    """On which days the columns begin: days up to 92 of them, then weeks up to two years, then months."""
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


# The charts as SVG: numbers are attributes, colours are classes, and a text says the same as the picture.

_WIDTH, _HEIGHT = 1000.0, 100.0
_MIN_HEIGHT = 1.5  # what is there can be seen


def columns(bars: Sequence[ChartBar], label: str) -> Markup:
    """Columns side by side, each with its words; the space above it belongs to it, so that it is easily pointed at."""
    limit = max((bar.plays for bar in bars), default=0) or 1
    wide = _WIDTH / max(len(bars), 1)
    gap = min(6.0, wide * 0.2)
    pieces = []
    for at, bar in enumerate(bars):
        height = max(_MIN_HEIGHT, _HEIGHT * bar.plays / limit) if bar.plays else 0.0
        pieces.append(
            Markup(
                '<g><title>{}: {}</title><rect class="room" x="{:.2f}" width="{:.2f}" height="100"/>'
                '<rect class="column" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"/></g>'
            ).format(
                bar.label, plays(bar.plays), at * wide, wide, at * wide + gap / 2, _HEIGHT - height, wide - gap, height
            )
        )
    return Markup(
        '<svg class="picture chart" role="img" aria-label="{}" viewBox="0 0 1000 100" preserveAspectRatio="none">'
        '<path class="grid" d="M0 0H1000M0 50H1000M0 100H1000"/>{}</svg>'
    ).format(label, Markup("").join(pieces))


def share(part: float) -> Markup:
    """A thin bar, as long as a share of the largest."""
    return Markup(
        '<svg class="picture share" aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none">'
        '<rect class="column" width="{:.1f}" height="4"/></svg>'
    ).format(max(1.0, 100 * min(part, 1.0)))


def in_words(bars: Sequence[ChartBar], what: str) -> str:
    """What the chart shows, for whoever cannot see it."""
    total = sum(bar.plays for bar in bars)
    best = max(bars, key=lambda bar: bar.plays, default=None)
    if best is None or not total:
        return f"Plays {what}: none."
    return f"Plays {what}: {plays(total)} in all, the most on {best.label} with {best.plays:,}."


def plays(n: int) -> str:
    return f"{n:,} play{'' if n == 1 else 's'}"
