"""Plays that are written together, made ready page by page: as rows, as JSON, and added up.

That takes longer than one would like, and only one thread of Python runs at a time. Done for each page as it comes, it
falls into the time in which Tautulli makes the next one.
"""

from __future__ import annotations

import json
import marshal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from tidegate_apps.tautulli.answers import Play

Row = tuple[Any, ...]  # in the order of the columns
Place = int | tuple[str, int, str]  # what is added up for: a quarter since 1970, or a name of a kind on a day

QUARTER, HOUR, DAY = 900, 3600, 86400
STARTED = 2  # of a row
counted = itemgetter(STARTED, 4, 7, 13, 8)  # of a row, what it counts for: start, duration, user, title, platform


class Lot:
    """Plays in the order in which they came."""

    __slots__ = ("_pieces", "rows", "sums", "twice")

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.sums = Sums()
        self.twice = False  # some came on two pages: what is added up is too much
        self._pieces: list[str] = []

    def take(self, plays: Sequence[Play]) -> None:
        """One page more."""
        come = {play.row_id: _row(play) for play in plays}
        self.twice = self.twice or not self.rows.keys().isdisjoint(come)
        self.rows |= come
        if come:
            self.sums.add(1, map(counted, come.values()))
            self._pieces.append(table(come)[1:-1])

    def table(self) -> str:
        """All rows as one piece of JSON."""
        return f"{{{','.join(self._pieces)}}}"

    def __len__(self) -> int:
        return len(self.rows)


class Sums:
    """Plays and seconds by quarter, and by the names of a day."""

    __slots__ = ("_plays", "_seconds")

    def __init__(self) -> None:
        self._plays, self._seconds = defaultdict[Place, int](int), defaultdict[Place, int](int)

    def add(self, sign: int, some: Iterable[Sequence[Any]]) -> None:
        """Adds what was `counted`, or with the sign -1 takes it out."""
        plays, spent = self._plays, self._seconds
        for started, duration, person, show, platform in some:
            day, seconds = started // DAY, sign * duration
            for place in (
                started // QUARTER, ("person", day, person), ("show", day, show),
                ("platform", day, platform or "unknown"),
            ):  # fmt: skip
                plays[place] += sign
                spent[place] += seconds

    def times(self) -> Iterator[Row]:
        """Quarter, plays and seconds."""
        return ((place, n, self._seconds[place]) for place, n in self._plays.items() if isinstance(place, int))

    def tallies(self) -> Iterator[Row]:
        """Kind, day, name, the week and the month of the day, plays and seconds."""
        wider = cache(lambda day: (week_of(day), month_of(day * DAY)))
        for place, n in self._plays.items():
            if isinstance(place, tuple):
                yield (*place, *wider(place[1]), n, self._seconds[place])


def week_of(day: int) -> int:
    """The week of a day since 1970; it begins on a Monday."""
    return (day + 3) // 7


def month_of(moment: float) -> int:
    """Months since year 0, in UTC."""
    then = datetime.fromtimestamp(moment, UTC)
    return then.year * 12 + then.month - 1


def table(rows: Mapping[int, Row]) -> str:
    """One piece of JSON, {"1": [...], "2": ...}: SQLite takes it apart much quicker than it runs as many statements."""
    return json.dumps(rows, separators=(",", ":"))


def _row(play: Play) -> Row:
    """A digest of all the other columns is the last."""
    show = play.show
    said = (
        play.row_id, play.reference_id, play.started, play.stopped, play.duration, play.paused, play.user_id,
        play.person, play.platform, play.product, play.player, play.media_type, play.rating_key, show,
        play.full_title or show, play.year, play.transcode_decision, play.percent_complete, play.watched_status,
    )  # fmt: skip
    # Version 2 of this format follows from the values alone, and is much quicker than a text.
    return (*said, int.from_bytes(blake2b(marshal.dumps(said, 2), digest_size=7).digest(), "big"))
