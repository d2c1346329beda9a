"""One turn of a worker at the store: settle what has ended and claim what may go, in one transaction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.core.codes import CORE
from tidegate.core.job import Claimed, Outcome
from tidegate.runtime.job_gates import JobGates, Moved, Note, Room
from tidegate.store import claims
from tidegate.store.claims import START, Lane
from tidegate.store.settling import Settled, settle
from tidegate.store.tx import Tx

_MOST_LANES = 128


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that is over: what is written of it, what it says of its target, what the application adds."""

    outcome: Outcome
    note: Note | None = None
    writes: tuple[tuple[str, dict[str, object]], ...] = ()


@dataclass(slots=True)
class Turn:
    """What one turn did."""

    settled: Settled
    claimed: list[Claimed] = field(default_factory=list)
    generations: dict[int, int] = field(default_factory=dict)  # of the breaker, by job
    parent_results: dict[int, dict[int, str | None]] = field(default_factory=dict)  # JSON, by job and parent
    moved: list[Moved] = field(default_factory=list)
    cursor: tuple[str, str, str] = START
    next_due: float | None = None
    failed_fast: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a worker wants of a turn."""

    worker: str
    queues: frozenset[str]
    room: int
    lease: float
    cursor: tuple[str, str, str] = START
    promote: bool = True


def turn(tx: Tx, gates: JobGates, ended: Sequence[Ended], wish: Wish, now: float) -> Turn:
    """Settles, then claims. Nothing of it counts unless all of it is committed."""
    settled = settle(tx, [each.outcome for each in ended], wish.worker)
    counted = [each for each in ended if each.outcome.job.id in settled.counted]
    for each in counted:
        for name, params in each.writes:
            tx.all(name, params)
    done = Turn(settled, cursor=wish.cursor)
    notes = [each.note for each in counted if each.note is not None]
    if notes:
        done.moved += gates.note(tx, notes, now)
    if wish.promote:
        claims.promote(tx)
        done.next_due = claims.next_due(tx)
    if wish.room > 0:
        _claim(tx, gates, wish, now, done)
    return done


def _claim(tx: Tx, gates: JobGates, wish: Wish, now: float, done: Turn) -> None:
    """Fair over lanes: each open one gets its share, and what some do not need goes to the others."""
    open_lanes: list[tuple[Lane, Room]] = []
    for lane in claims.lanes(tx, wish.cursor, _MOST_LANES):
        if lane.queue not in wish.queues:
            continue
        room = gates.room(tx, lane, now, done.moved)
        if room.fail_fast:
            done.failed_fast += _fail_fast(tx, lane)
        elif room.n:
            open_lanes.append((lane, room))
    left = wish.room
    for i, (lane, room) in enumerate(open_lanes):
        share = math.ceil(left / (len(open_lanes) - i))
        taken = claims.claim(tx, lane, min(share, room.n, left), wish.worker, wish.lease)
        gates.claimed(tx, lane.target, len(taken), now)
        done.claimed += taken
        done.generations |= {job.id: room.generation for job in taken}
        done.parent_results |= {job.id: _parents_of(tx, job.id) for job in taken if job.parents}
        left -= len(taken)
        if taken:
            done.cursor = lane.place
        if left <= 0:
            break


def _parents_of(tx: Tx, child: int) -> dict[int, str | None]:
    return {parent: result for _, parent, _, result in tx.all("parent_results", {"child": child})}


def _fail_fast(tx: Tx, lane: Lane) -> int:
    """Ends what is queued behind an open breaker, as its target asks."""
    code = CORE["overloaded"]
    rows = tx.all("lane_jobs", {"queue": lane.queue, "target": lane.target, "lane": lane.lane, "n": 500})
    return claims.fail_queued(tx, rows, code.name, code.message, "breaker")
