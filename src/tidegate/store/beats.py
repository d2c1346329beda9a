"""Heartbeats of workers, and how a database is found out that went back in time by itself.

A server may be replaced by one that lacks the last commits, a file by an older copy of it. A worker knows which of its
beats were committed. A database that does not is treated as one that was put back: no lease from before matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidegate.store.backups import Restored, restored
from tidegate.store.dialect import Dialect
from tidegate.store.tx import Params, Tx


@dataclass(frozen=True, slots=True)
class Beat:
    """One that was committed, and how often the database had been put back by then."""

    number: int
    epoch: int = 0


class Beaten(NamedTuple):
    beat: Beat
    put_right: Restored | None  # the database had gone back, and this worker was the first to see it


def beat(tx: Tx, dialect: Dialect, worker: Params, number: int, last: Beat | None) -> Beaten:
    """Says that a worker lives. Its numbers rise with each try; *last* is the last that it knows to be committed."""
    put_right = None if last is None else check(tx, dialect, worker["id"], last)
    tx.all("worker_seen", {**worker, "beat": number})
    return Beaten(Beat(number, _known(tx, worker["id"]).epoch), put_right)


def check(tx: Tx, dialect: Dialect, worker: str, last: Beat) -> Restored | None:
    """Puts a database right that does not know the last beat of a worker, unless another has done so."""
    if _went_back(tx, worker, last):
        tx.one_migrator()
        if _went_back(tx, worker, last):
            return restored(tx, dialect)
    return None


def _went_back(tx: Tx, worker: str, last: Beat) -> bool:
    known = _known(tx, worker)
    # Whoever puts a database back counts the epoch up, and removes the workers.
    return known.epoch < last.epoch or (known.epoch == last.epoch and known.number < last.number)


def _known(tx: Tx, worker: str) -> Beat:
    number, epoch = tx.all("worker_beat", {"id": worker})[0]
    return Beat(int(number or 0), int(epoch or 0))
