"""Plays become rows, and the numbers of charts and lists: each play counts once, however often it comes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from tidegate import DbTx
from tidegate_apps.tautulli.answers import Play

HOUR, DAY = 3600, 86400


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


@dataclass(frozen=True, slots=True)
class Counted:
    """What a play counts for."""

    started: int
    duration: int
    person: str
    show: str
    platform: str


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
    """Writes a page, in the order of its beginnings, and moves the watermark over it."""
    tx.one("lock_state")
    rows = {play.row_id: _row(play) for play in plays}
    if not rows:
        return Stored()
    known = {row[0]: (Counted(*row[1:6]), row[6]) for row in tx.many("known", [{"row_id": id_} for id_ in rows])}
    new = [row for id_, row in rows.items() if id_ not in known]
    changed = [row for id_, row in rows.items() if id_ in known and known[id_][1] != row["digest"]]
    if new or changed:
        tx.many("put", [*new, *changed])
        gone = [known[row["row_id"]][0] for row in changed]
        _count(tx, [_counted(row) for row in (*new, *changed)], gone)
    tx.all("seen", row_id=max(rows), started=max(row["started"] for row in rows.values()))
    return Stored(len(new), len(changed))


def _row(play: Play) -> dict[str, Any]:
    row: dict[str, Any] = {
        "row_id": play.row_id, "reference_id": play.reference_id, "started": play.started, "stopped": play.stopped,
        "duration": play.duration, "paused": play.paused, "user_id": play.user_id, "person": play.person,
        "platform": play.platform, "product": play.product, "player": play.player, "media_type": play.media_type,
        "rating_key": play.rating_key, "show": play.show, "full_title": play.full_title or play.show,
        "year": play.year, "transcode_decision": play.transcode_decision,
        "percent_complete": play.percent_complete, "watched_status": play.watched_status,
    }  # fmt: skip
    said = repr(tuple(row.values())).encode()
    return {**row, "digest": int.from_bytes(blake2b(said, digest_size=7).digest(), "big")}


def _counted(row: Mapping[str, Any]) -> Counted:
    return Counted(row["started"], row["duration"], row["person"], row["show"], row["platform"])


def _count(tx: DbTx, come: list[Counted], gone: list[Counted]) -> None:
    plays, seconds = Counter[Any](), Counter[Any]()
    for sign, some in ((1, come), (-1, gone)):
        for each in some:
            for place in _places(each):
                plays[place] += sign
                seconds[place] += sign * each.duration
    # In one order, so that two syncs at once could not wait for each other.
    hours = sorted(place for place in plays if isinstance(place, int))
    tallies = sorted(place for place in plays if not isinstance(place, int))
    tx.many("add_hours", [{"hour": at, "plays": plays[at], "seconds": seconds[at]} for at in hours])
    tx.many("add_tallies", [
        dict(zip(("kind", "grain", "at", "name"), each, strict=True)) | {"plays": plays[each], "seconds": seconds[each]}
        for each in tallies
    ])  # fmt: skip


def _places(each: Counted) -> Iterator[Any]:
    """Where a play is counted: its hour, and its user, title and platform by day, week and month, and in all."""
    yield each.started // HOUR
    day, month = each.started // DAY, month_of(each.started)
    for kind, name in (("person", each.person), ("show", each.show), ("platform", each.platform or "unknown")):
        yield kind, "day", day, name
        yield kind, "week", week_of(day), name
        yield kind, "month", month, name
        yield kind, "all", 0, name
