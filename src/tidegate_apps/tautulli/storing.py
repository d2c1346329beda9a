"""Lots of plays become rows, and the numbers of charts and lists: each play counts once, however often it comes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.apps import DbTx
from tidegate_apps.tautulli.lots import PlayBatch, PlayTotals, counted, table


@dataclass(frozen=True, slots=True)
class SyncState:
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


def state_of(row: Sequence[Any] | None) -> SyncState:
    return SyncState() if row is None else SyncState(*row)


def store(tx: DbTx, batch: PlayBatch) -> Stored:
    """Writes plays, and moves the watermark over them. They come in the order of their beginnings."""
    watermark = (tx.one("lock_state") or (0,))[0]
    if not batch:
        return Stored()
    # Nothing above the watermark was ever seen, so a first sync need not look for what is known.
    asked = [{"row_id": row_id} for row_id in batch.ids if row_id <= watermark]
    known = {row[0]: tuple(row) for row in tx.many("known", asked)}
    new, changed = len(batch), 0
    if not known and not batch.twice:
        tx.all("put", rows=batch.table())
        _add(tx, batch.sums)
    else:
        rows = batch.rows().items()
        come = {row_id: row for row_id, row in rows if known.get(row_id) != row}
        gone = [counted(known[row_id]) for row_id in come if row_id in known]
        new, changed = len(come) - len(gone), len(gone)
        if come:
            sums = PlayTotals()
            sums.add(1, map(counted, come.values()))
            sums.add(-1, gone)
            tx.all("put", rows=table(come))
            _add(tx, sums)
    tx.all("seen", row_id=max(batch.ids), started=batch.started)
    return Stored(new, changed)


def _add(tx: DbTx, sums: PlayTotals) -> None:
    times = table(dict(enumerate(sums.times())))
    tx.all("add_times", rows=times)
    tx.all("add_clock", rows=times)
    tx.all("add_tallies", rows=table(dict(enumerate(sums.tallies()))))
