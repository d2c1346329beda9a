"""One turn of a worker at the store: settle what has ended and claim what may go, in one transaction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.core.codes import CORE
from tidegate.core.job import Claimed, Outcome
from tidegate.runtime.job_gates import JobGates, Moved, Note
from tidegate.store import claims
from tidegate.store.claims import START, Lane
from tidegate.store.settling import Settled, settle
from tidegate.store.tx import BoundStatement, Tx

_MOST_LANES = 128  # found at a time
_MOST_PAGES = 32  # of them, in one turn: behind 4,096 shut lanes, the others wait for the next one


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that is over: what is written of it, what it says of its target, what the application adds."""

    outcome: Outcome
    note: Note | None = None
    writes: tuple[BoundStatement, ...] = ()
    held: bool = False  # a gate inside the handler was shut


@dataclass(slots=True)
class Turn:
    """What one turn did."""

    settled: Settled
    claimed: list[Claimed] = field(default_factory=list)
    mine: list[Claimed] = field(default_factory=list)  # everything under leases of this worker, if it asked
    asked: list[int] = field(default_factory=list)  # running jobs that a person wants stopped
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
    adopt: bool = False  # an earlier turn may have claimed jobs that we never heard of
    listen: bool = False  # hear whom a person wants stopped
    newest: int | None = None  # a cycle takes no job that came after it began


def turn(tx: Tx, gates: JobGates, ended: Sequence[Ended], wish: Wish, now: float) -> Turn:
    """Settles, then claims. Nothing of it counts unless all of it is committed."""
    settled = settle(tx, [each.outcome for each in ended], wish.worker)
    late = {id(outcome) for outcome in settled.late}  # of one job there may be an old attempt and a new one
    counted = [each for each in ended if id(each.outcome) not in late]
    for each in counted:
        for write in each.writes:
            tx.all(write.name, write.params)
    done = Turn(settled, cursor=wish.cursor)
    notes = [each.note for each in counted if each.note is not None]
    if notes:
        done.moved += gates.note(tx, notes, now)
    if wish.adopt:
        _adopt(tx, wish, done)
    if wish.listen:
        done.asked = [row[0] for row in tx.all("stop_asked", {"worker": wish.worker})]
    if wish.promote:
        claims.promote(tx)
        done.next_due = claims.next_due(tx)
    if wish.room > 0:
        _claim(tx, gates, wish, now, done)
    return done


def _adopt(tx: Tx, wish: Wish, done: Turn) -> None:
    """Everything that this worker holds, with fresh leases: when those that it never heard of began, nobody knows."""
    done.mine = claims.mine(tx, wish.worker)
    claims.renew(tx, done.mine, wish.lease)
    done.parent_results |= {job.id: _parents_of(tx, job.id) for job in done.mine if job.parents}


def _claim(tx: Tx, gates: JobGates, wish: Wish, now: float, done: Turn) -> None:
    """Fair over lanes: each open one gets its share, and what some do not need goes to the others."""
    taking = _Taking(tx, gates, wish, now, done)
    seen: set[tuple[str, str, str]] = set()
    for _ in range(_MOST_PAGES):
        page = claims.lanes(tx, done.cursor, _MOST_LANES)
        hungry = [lane for lane in page if lane.queue in wish.queues and lane.place not in seen]
        while hungry and taking.left:
            hungry = taking.share_out(hungry)
        if not taking.left or len(page) < _MOST_LANES or page[-1].place in seen:
            return
        seen.update(lane.place for lane in page)
        done.cursor = page[-1].place


class _Taking:
    """What one turn takes, and how much room is left."""

    def __init__(self, tx: Tx, gates: JobGates, wish: Wish, now: float, done: Turn) -> None:
        self._tx, self._gates, self._wish, self._now, self._done = tx, gates, wish, now, done
        self.left = wish.room

    def share_out(self, lanes: Sequence[Lane]) -> list[Lane]:
        """One share for each lane; returns those that took all of theirs, and may have more."""
        hungry = []
        for i, lane in enumerate(lanes):
            if not self.left:
                break
            share = math.ceil(self.left / (len(lanes) - i))
            if self._take(lane, share) == share:
                hungry.append(lane)
        return hungry

    def _take(self, lane: Lane, share: int) -> int:
        tx, wish, done = self._tx, self._wish, self._done
        # Asked right before each claim: the room of a target is shared by its lanes.
        room = self._gates.room(tx, lane, self._now, done.moved)
        if room.fail_fast:
            done.failed_fast += _fail_fast(tx, lane)
            return 0
        if not room.n:
            return 0
        taken = claims.claim(tx, lane, min(share, room.n), wish.worker, wish.lease, wish.newest)
        if taken:
            self._gates.claimed(tx, lane.target, len(taken), self._now)
            done.claimed += taken
            done.generations |= {job.id: room.generation for job in taken}
            done.parent_results |= {job.id: _parents_of(tx, job.id) for job in taken if job.parents}
            done.cursor = lane.place
            self.left -= len(taken)
        return len(taken)


def _parents_of(tx: Tx, child: int) -> dict[int, str | None]:
    return {parent: result for _, parent, _, result in tx.all("parent_results", {"child": child})}


def _fail_fast(tx: Tx, lane: Lane) -> int:
    """Ends what is queued behind an open breaker, as its target asks."""
    code = CORE["overloaded"]
    rows = tx.all("lane_jobs", {"queue": lane.queue, "target": lane.target, "lane": lane.lane, "n": 500})
    return claims.fail_queued(tx, rows, code.name, code.message, "breaker")
