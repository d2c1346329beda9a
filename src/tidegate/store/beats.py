"""Heartbeats of workers, and how a database is found out that went back in time by itself.

A server may be replaced by one that lacks the last commits, a file by an older copy of it. A worker knows which of its
beats were committed, and which leases it was given. A database that does not know one of them is treated as one that
was put back: no lease from before matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.core.job import Claimed
from tidegate.store.backups import Restored, restored
from tidegate.store.dialect import Dialect
from tidegate.store.tx import Params, Tx


@dataclass(frozen=True, slots=True)
class HeartbeatMark:
    """One that was committed, and how often the database had been put back by then."""

    number: int
    epoch: int = 0


class HeartbeatResult(NamedTuple):
    beat: HeartbeatMark
    put_right: Restored | None  # the database had gone back, and this worker was the first to see it


def beat(
    tx: Tx, dialect: Dialect, worker: Params, number: int, last: HeartbeatMark | None, held: Sequence[Claimed] = ()
) -> HeartbeatResult:
    """Says that a worker lives. Its numbers rise with each try; *last* is the last that it knows to be committed."""
    put_right = None if last is None else check(tx, dialect, worker["id"], last, held)
    tx.query("worker_seen", {**worker, "beat": number})
    return HeartbeatResult(HeartbeatMark(number, _known(tx, worker["id"]).epoch), put_right)


def check(tx: Tx, dialect: Dialect, worker: str, last: HeartbeatMark, held: Sequence[Claimed] = ()) -> Restored | None:
    """Puts a database right that does not know the last beat or a lease of a worker, unless another has done so."""
    if _went_back(tx, dialect, worker, last, held):
        tx.lock_migrations()
        if _went_back(tx, dialect, worker, last, held):
            return restored(tx, dialect)
    return None


def _went_back(tx: Tx, dialect: Dialect, worker: str, last: HeartbeatMark, held: Sequence[Claimed]) -> bool:
    known = _known(tx, worker)
    if known.epoch != last.epoch:  # whoever puts a database back counts the epoch up, and removes the workers
        return known.epoch < last.epoch
    return known.number < last.number or _lacks(tx, dialect, worker, held)


def _lacks(tx: Tx, dialect: Dialect, worker: str, held: Sequence[Claimed]) -> bool:
    """Whether a lease that was committed is not known: another worker could be given the same fence, or the same id."""
    leases = [{"id": each.id, "fence": each.fence} for each in held]
    if tx.query_many("unknown_leases", leases, {"worker": worker}):
        return True
    newest = max((each.id for each in held), default=0)
    return dialect is Dialect.POSTGRES and newest > int(tx.query("last_id_postgres")[0][0])


def _known(tx: Tx, worker: str) -> HeartbeatMark:
    number, epoch = tx.query("worker_beat", {"id": worker})[0]
    return HeartbeatMark(int(number or 0), int(epoch or 0))
