"""One turn of a worker at the store: settle what has ended and claim what may go, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidegate.core.events import Event
from tidegate.core.job import Claimed, Outcome
from tidegate.runtime import claiming
from tidegate.runtime.claiming import Terms
from tidegate.runtime.job_gates import FAIL_FAST, Ask, GateTurn, JobGates
from tidegate.runtime.lane_turn import Note
from tidegate.store import claims
from tidegate.store.claims import NOTHING_READY, START, Cycle, Front, Rounds
from tidegate.store.migrate import Schema
from tidegate.store.settling import Settled, settle
from tidegate.store.tx import BoundStatement, Row, Tx

_SLACK = 0.05  # seconds that the store's clock may differ from what we take it for
_MOST_ENDED = 500  # jobs that one turn ends without trying them


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that is over: what is written of it, what it says of its target, what the application adds."""

    outcome: Outcome
    note: Note | None = None
    writes: tuple[BoundStatement, ...] = ()
    held: bool = False  # a gate inside the handler was shut
    after: Callable[[], object] | None = None  # of the application, to be called after the commit


@dataclass(slots=True)
class Turn:
    """What one turn did."""

    settled: Settled
    claimed: list[Claimed] = field(default_factory=list)
    mine: list[Claimed] = field(default_factory=list)  # everything under leases of this worker, if it asked
    asked: list[int] = field(default_factory=list)  # running jobs that a person wants stopped
    generations: dict[int, int] = field(default_factory=dict)  # of the breaker, by job
    parent_results: dict[int, dict[int, str | None]] = field(default_factory=dict)  # JSON, by job and parent
    events: list[Event] = field(default_factory=list)  # of gates, to be told after the commit
    asks: list[Ask] = field(default_factory=list)  # targets that must say how full they are
    cursor: Rounds = START
    next_due: float | None = None
    opens_at: float | None = None  # when a gate that held something may open
    failed_fast: int = 0
    waits_to_be_alone: bool = False  # a suspect is ready, and something else is in flight: nothing was claimed


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a worker wants of a turn."""

    worker: str
    queues: frozenset[str]
    room: int
    lease: float
    slots: int = 0  # of the room: what can be begun at once
    cursor: Rounds = START
    promote: bool = True
    adopt: bool = False  # an earlier turn may have claimed jobs that we never heard of
    given_up: frozenset[tuple[int, int]] = frozenset()  # attempts that were begun, and are left to their leases
    listen: bool = False  # hear whom a person wants stopped
    cycle: Cycle | None = None  # of a worker that works for one cycle: what that may take
    alone: bool = True  # nothing is in flight that a suspect must not run beside
    cleared: tuple[tuple[int, int], ...] = ()  # suspects, by id and fence, that have run alone for long enough


def turn(tx: Tx, gates: JobGates, ended: Sequence[Ended], wish: Wish, now: float, schema: Schema) -> Turn:
    """Settles, then claims. Nothing of it counts unless all of it is committed."""
    settled = settle(tx, [each.outcome for each in ended], wish.worker)
    late = {id(outcome) for outcome in settled.late}  # of one job there may be an old attempt and a new one
    counted = [each for each in ended if id(each.outcome) not in late]
    for each in counted:
        for write in each.writes:
            tx.all(write.name, write.params)
    if late:
        claims.survive(tx, wish.worker)
    done = Turn(settled, cursor=wish.cursor)
    if wish.cleared:
        claims.clear_suspects(tx, wish.cleared)
    if wish.adopt:
        _adopt(tx, wish, done)
    if wish.listen:
        done.asked = [row[0] for row in tx.all("stop_asked", {"worker": wish.worker})]
    if wish.promote:
        done.next_due = _promote(tx, now)
    ready = claims.ready(tx, wish.queues) if wish.room > 0 else NOTHING_READY
    fronts = ready.fronts if ready.fronts and schema.fits(tx, ready.migrations) else []
    # Targets are kept still after jobs, and all at once: two workers never wait for each other crosswise.
    at_gates = gates.turn(tx, wish.worker, now)
    at_gates.keep_still({each.outcome.job.target for each in counted}, fronts)
    at_gates.note([(each.outcome, each.note) for each in counted])
    if fronts:
        _claim(tx, gates, at_gates, fronts, wish, done, suspects=ready.suspects)
    done.events, done.asks, done.opens_at = at_gates.events, at_gates.asks, at_gates.opens_at
    return done


def _promote(tx: Tx, now: float) -> float | None:
    """Makes ready what is due; returns when the next one is. A look costs a hundredth of a statement that writes."""
    due = claims.next_due(tx)
    if due is None or due > now + _SLACK:
        return due
    claims.promote(tx)
    return claims.next_due(tx)


def _adopt(tx: Tx, wish: Wish, done: Turn) -> None:
    """Everything that this worker holds, with fresh leases: when those that it never heard of began, nobody knows."""
    done.mine = [job for job in claims.mine(tx, wish.worker) if (job.id, job.fence) not in wish.given_up]
    claims.renew(tx, done.mine, wish.lease)
    done.parent_results |= {job.id: _parents_of(tx, job.id) for job in done.mine if job.parents}


def _claim(
    tx: Tx, gates: JobGates, at_gates: GateTurn, fronts: Sequence[Front], wish: Wish, done: Turn, *, suspects: bool
) -> None:
    for front in fronts:
        if at_gates.fails_fast(front):
            ended = _fail_fast(tx, gates, front)
            at_gates.rejected(front.target, ended)
            done.failed_fast += ended
            if ended >= _MOST_ENDED:
                at_gates.look_at(at_gates.now + 0.001)  # there may be more of them
    terms = Terms(
        worker=wish.worker, lease=wish.lease, room=wish.room, slots=wish.slots, rounds=wish.cursor, cycle=wish.cycle
    )
    taken = _claim_suspect(tx, at_gates, fronts, terms, alone=wish.alone) if suspects else None
    done.waits_to_be_alone = taken is not None and not taken.jobs
    if taken is None:
        taken = claiming.claim(tx, at_gates, fronts, terms)
        if suspects and wish.alone and not taken.jobs:  # it has nothing else to do
            taken = claiming.suspect(tx, at_gates, fronts, terms, alone=True, duty=None) or taken
    done.claimed, done.generations, done.cursor = taken.jobs, taken.generations, taken.rounds
    done.parent_results |= {job.id: _parents_of(tx, job.id) for job in taken.jobs if job.parents}


def _claim_suspect(
    tx: Tx, gates: GateTurn, fronts: Sequence[Front], terms: Terms, *, alone: bool
) -> claiming.Taken | None:
    # Nobody else works on the jobs of a cycle.
    duty = claiming.SuspectDuty(tx, terms) if terms.cycle is None else None
    return claiming.suspect(tx, gates, fronts, terms, alone=alone, duty=duty)


def _parents_of(tx: Tx, child: int) -> dict[int, str | None]:
    return {parent: result for _, parent, _, result in tx.all("parent_results", {"child": child})}


def _fail_fast(tx: Tx, gates: JobGates, front: Front) -> int:
    """Ends what is queued behind an open breaker, as its target asks; with the code that its kind has for that."""
    by_kind: defaultdict[str, list[Row]] = defaultdict(list)
    for *row, kind in tx.all("front_jobs", {"queue": front.queue, "target": front.target, "n": _MOST_ENDED}):
        by_kind[kind].append(tuple(row))
    book, ended = gates.book(front.target), 0
    for kind, rows in by_kind.items():
        code = gates.fail_fast.get(kind, FAIL_FAST)
        message = book[code].message if code in book else code
        ended += claims.fail_queued(tx, rows, code, message, "breaker")
    return ended
