"""Plays become rows, and the numbers of charts and lists: each play counts once, however often it comes."""

from __future__ import annotations

import json
import marshal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from tidegate import DbTx
from tidegate_apps.tautulli.answers import Play

QUARTER, HOUR, DAY = 900, 3600, 86400
_STARTED = 2  # of a row
_counted = itemgetter(_STARTED, 4, 7, 13, 8)  # of a row, what it counts for: start, duration, user, title, platform


@dataclass(frozen=True, slots=True)
class State:
    """How far the sync is, and how its last attempt went. The fields are the columns."""

    row_id: int = 0
    started: int | None = None
    synced_at: float | None = None
    empty_at: float | None = None
    empty_believed: int = 0
    tried_at: float | None = None
    outcome: str | None = None
    code: str | None = None
    message: str | None = None
    breaker_json: str | None = None

    @property
    def breaker(self) -> Mapping[str, Any]:
        """The breaker as it was after that attempt; empty before the first."""
        found: Mapping[str, Any] = json.loads(self.breaker_json) if self.breaker_json else {}
        return found


@dataclass(frozen=True, slots=True)
class Stored:
    """What a page brought."""

    new: int = 0
    changed: int = 0


def state_of(row: Sequence[Any] | None) -> State:
    return State() if row is None else State(*row)


def week_of(day: int) -> int:
    """The week of a day since 1970; it begins on a Monday."""
    return (day + 3) // 7


def month_of(moment: float) -> int:
    """Months since year 0, in UTC."""
    then = datetime.fromtimestamp(moment, UTC)
    return then.year * 12 + then.month - 1


def store(tx: DbTx, plays: Iterable[Play]) -> Stored:
    """Writes plays, and moves the watermark over them. They come in the order of their beginnings."""
    watermark = (tx.one("lock_state") or (0,))[0]
    rows = {play.row_id: _row(play) for play in plays}
    if not rows:
        return Stored()
    # Nothing above the watermark was ever seen, so a first sync need not look for what is known.
    asked = [{"row_id": row_id} for row_id in rows if row_id <= watermark]
    known = {row[0]: row[1:] for row in tx.many("known", asked)}
    new = [row for row_id, row in rows.items() if row_id not in known]
    changed = [row for row_id, row in rows.items() if row_id in known and known[row_id][-1] != row[-1]]
    if new or changed:
        come = [*new, *changed]
        tx.all("put", rows=_table(come))
        _count(tx, [_counted(row) for row in come], [known[row[0]][:-1] for row in changed])
    tx.all("seen", row_id=max(rows), started=max(row[_STARTED] for row in rows.values()))
    return Stored(len(new), len(changed))


def _row(play: Play) -> tuple[Any, ...]:
    """In the order of the columns; a digest of all the others is the last."""
    show = play.show
    said = (
        play.row_id, play.reference_id, play.started, play.stopped, play.duration, play.paused, play.user_id,
        play.person, play.platform, play.product, play.player, play.media_type, play.rating_key, show,
        play.full_title or show, play.year, play.transcode_decision, play.percent_complete, play.watched_status,
    )  # fmt: skip
    # Version 2 of this format follows from the values alone, and is much quicker than a text.
    return (*said, int.from_bytes(blake2b(marshal.dumps(said, 2), digest_size=7).digest(), "big"))


def _table(rows: Iterable[Sequence[Any]]) -> str:
    """One piece of JSON, {"0": [...], "1": ...}: SQLite takes it apart much quicker than it runs as many statements."""
    return json.dumps(dict(enumerate(rows)), separators=(",", ":"))


def _count(tx: DbTx, come: Sequence[Sequence[Any]], gone: Sequence[Sequence[Any]]) -> None:
    """Adds up first, and writes once for each quarter and hour, and each name by day, week, month and in all."""
    times, tallies = Sums(), Sums()
    for sign, some in ((1, come), (-1, gone)):
        for started, duration, person, show, platform in some:
            day, seconds = started // DAY, sign * duration
            times.add((QUARTER, started // QUARTER), sign, seconds)
            tallies.add(("person", "day", day, person), sign, seconds)
            tallies.add(("show", "day", day, show), sign, seconds)
            tallies.add(("platform", "day", day, platform or "unknown"), sign, seconds)
    for (_, quarter), (plays, seconds) in list(times.items()):
        times.add((HOUR, quarter * QUARTER // HOUR), plays, seconds)
    month = cache(lambda day: month_of(day * DAY))
    for (kind, _, day, name), (plays, seconds) in list(tallies.items()):
        tallies.add((kind, "week", week_of(day), name), plays, seconds)
        tallies.add((kind, "month", month(day), name), plays, seconds)
        tallies.add((kind, "all", 0, name), plays, seconds)
    # By their keys, as the database keeps them: the place of each is beside that of the one before.
    tx.all("add_times", rows=_table((*place, *found) for place, found in sorted(times.items())))
    tx.all("add_tallies", rows=_table((*place, *found) for place, found in sorted(tallies.items())))


class Sums(dict[Any, list[int]]):
    """Plays and seconds, by what they are counted for."""

    def add(self, place: Any, plays: int, seconds: int) -> None:
        found = self.get(place)
        if found is None:
            self[place] = [plays, seconds]
        else:
            found[0] += plays
            found[1] += seconds
