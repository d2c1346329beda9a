"""Plays that are written together, made ready page by page: as rows, as JSON, and added up.

That takes longer than one would like, and only one thread of Python runs at a time. Done for each page as it comes, it
falls into the time in which Tautulli makes the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from pydantic_core import to_json

from tidegate_apps.tautulli.answers import HistoryPlay

Row = tuple[Any, ...]  # in the order of the columns
Sum = list[int]  # plays and seconds
Names = tuple[dict[str, Sum], ...]  # for each of the kinds

KINDS = ("person", "show", "platform")
QUARTER, HOUR, DAY = 900, 3600, 86400
STARTED = HistoryPlay._fields.index("started")  # of a row
_COLUMNS = HistoryPlay._fields.index("watched_status") + 1
counted = itemgetter(STARTED, 4, 7, 13, 8)  # of a row, what it counts for: start, duration, user, title, platform


class PlayBatch:
    """Plays in the order in which they came. They are kept as JSON alone, which takes the least memory."""

    __slots__ = ("_pieces", "ids", "started", "sums", "twice")

    def __init__(self) -> None:
        self.ids = set[int]()
        self.started = 0  # the latest beginning
        self.sums = PlayTotals()
        self.twice = False  # some came on two pages: what is added up is too much
        self._pieces: list[str] = []

    def take(self, plays: Sequence[HistoryPlay]) -> None:
        """One page more."""
        come: dict[int, Row] = {play.row_id: play[:_COLUMNS] for play in plays}
        if come:
            self.twice = self.twice or not self.ids.isdisjoint(come)
            self.ids.update(come)
            self.started = max(self.started, *(row[STARTED] for row in come.values()))
            self.sums.add(1, map(counted, come.values()))
            self._pieces.append(table(come)[1:-1])

    def table(self) -> str:
        """All rows as one piece of JSON."""
        return f"{{{','.join(self._pieces)}}}"

    def rows(self) -> dict[int, Row]:
        """By their ids; of one that came twice, the later."""
        return {int(row_id): tuple(row) for row_id, row in json.loads(self.table()).items()}

    def __len__(self) -> int:
        return len(self.ids)


class PlayTotals:
    """Plays and seconds by quarter, and by the names of a week and of a month."""

    __slots__ = ("_days", "_times", "_weeks")

    def __init__(self) -> None:
        self._times: dict[int, Sum] = {}
        self._weeks: dict[tuple[int, int], Names] = {}  # and months: a week may have days of two
        self._days: dict[int, Names] = {}  # the same; each day has those of its week and month

    def add(self, sign: int, some: Iterable[Sequence[Any]]) -> None:
        """Adds what was `counted`, or with the sign -1 takes it out."""
        days = self._days
        for started, duration, person, show, platform in some:
            day, seconds = started // DAY, sign * duration
            if day not in days:
                days[day] = self._weeks.setdefault((week_of(day), month_of(started)), ({}, {}, {}))
            persons, shows, platforms = days[day]
            _count(self._times, started // QUARTER, sign, seconds)
            _count(persons, person, sign, seconds)
            _count(shows, show, sign, seconds)
            _count(platforms, platform or "unknown", sign, seconds)

    def times(self) -> Iterator[Row]:
        """Quarter, plays and seconds."""
        return ((quarter, *found) for quarter, found in self._times.items())

    def tallies(self) -> Iterator[Row]:
        """Kind, name, week, month, plays and seconds."""
        for (week, month), kinds in self._weeks.items():
            for kind, names in zip(KINDS, kinds, strict=True):
                for name, (plays, seconds) in names.items():
                    yield kind, name, week, month, plays, seconds


def _count(sums: dict[Any, Sum], place: object, sign: int, seconds: int) -> None:
    found = sums.get(place)
    if found is None:
        sums[place] = [sign, seconds]
    else:
        found[0] += sign
        found[1] += seconds


def week_of(day: int) -> int:
    """The week of a day since 1970; it begins on a Monday."""
    return (day + 3) // 7


def month_of(moment: float) -> int:
    """Months since year 0, in UTC."""
    then = datetime.fromtimestamp(moment, UTC)
    return then.year * 12 + then.month - 1


def table(rows: Mapping[int, Row]) -> str:
    """One piece of JSON, {"1": [...], "2": ...}: SQLite takes it apart much quicker than it runs as many statements."""
    return to_json(rows).decode()
