"""One turn of a worker at the store: settle what has ended and claim what may go, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidegate.core.events import Event
from tidegate.core.job import AttemptOutcome, Claimed
from tidegate.runtime import claiming
from tidegate.runtime.claiming import ClaimRequest
from tidegate.runtime.job_gates import FAIL_FAST, ClaimGates, ClaimGateTx, DepthRequest
from tidegate.runtime.lane_turn import TargetVerdict
from tidegate.store import claims
from tidegate.store.claims import NOTHING_READY, START, DrainSnapshot, ReadyTarget, RoundRobinCursor
from tidegate.store.migrate import Schema
from tidegate.store.settling import Settled, settle
from tidegate.store.tx import BoundStatement, Row, Tx

_CLOCK_SLACK = 0.05  # seconds that the store's clock may differ from what we take it for
_MAX_ENDED = 500  # jobs that one turn ends without trying them


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    """An attempt that is over: what is written of it, what it says of its target, what the application adds."""

    outcome: AttemptOutcome
    note: TargetVerdict | None = None
    writes: tuple[BoundStatement, ...] = ()
    held: bool = False  # a gate inside the handler was shut
    after: Callable[[], object] | None = None  # of the application, to be called after the commit


@dataclass(slots=True)
class FetchResult:
    """What one turn did."""

    settled: Settled
    claimed: list[Claimed] = field(default_factory=list)
    mine: list[Claimed] = field(default_factory=list)  # everything under leases of this worker, if it asked
    asked: list[int] = field(default_factory=list)  # running jobs that a person wants stopped
    generations: dict[int, int] = field(default_factory=dict)  # of the breaker, by job
    parent_results: dict[int, dict[int, str | None]] = field(default_factory=dict)  # JSON, by job and parent
    events: list[Event] = field(default_factory=list)  # of gates, to be told after the commit
    asks: list[DepthRequest] = field(default_factory=list)  # targets that must say how full they are
    cursor: RoundRobinCursor = START
    next_due: float | None = None
    opens_at: float | None = None  # when a gate that held something may open
    failed_fast: int = 0
    waits_to_be_alone: bool = False  # a suspect is ready, and something else is in flight: nothing was claimed


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """What a worker wants of a turn."""

    worker: str
    queues: frozenset[str]
    room: int
    lease: float
    slots: int = 0  # of the room: what can be begun at once
    cursor: RoundRobinCursor = START
    promote: bool = True
    adopt: bool = False  # an earlier turn may have claimed jobs that we never heard of
    given_up: frozenset[tuple[int, int]] = frozenset()  # attempts that were begun, and are left to their leases
    check_cancellations: bool = False  # hear whom a person wants stopped
    cycle: DrainSnapshot | None = None  # of a worker that works for one cycle: what that may take
    alone: bool = True  # nothing is in flight that a suspect must not run beside
    cleared: tuple[tuple[int, int], ...] = ()  # suspects, by id and fence, that have run alone for long enough


def fetch(
    tx: Tx, gates: ClaimGates, ended: Sequence[FinishedAttempt], request: FetchRequest, now: float, schema: Schema
) -> FetchResult:
    """Settles, then claims. Nothing of it counts unless all of it is committed."""
    settled = settle(tx, [each.outcome for each in ended], request.worker)
    late = {id(outcome) for outcome in settled.late}  # of one job there may be an old attempt and a new one
    counted = [each for each in ended if id(each.outcome) not in late]
    for each in counted:
        for write in each.writes:
            tx.query(write.name, write.params)
    if late:
        claims.survive(tx, request.worker)
    done = FetchResult(settled, cursor=request.cursor)
    if request.cleared:
        claims.clear_suspects(tx, request.cleared)
    if request.adopt:
        _adopt(tx, request, done)
    if request.check_cancellations:
        done.asked = [row[0] for row in tx.query("stop_asked", {"worker": request.worker})]
    if request.promote:
        done.next_due = _promote(tx, now)
    ready = claims.ready(tx, request.queues) if request.room > 0 else NOTHING_READY
    ready_targets = ready.targets if ready.targets and schema.fits(tx, ready.migrations) else []
    # Targets are kept still after jobs, and all at once: two workers never wait for each other crosswise.
    gate_tx = gates.turn(tx, request.worker, now)
    gate_tx.lock_rows({each.outcome.job.target for each in counted}, ready_targets)
    gate_tx.note([(each.outcome, each.note) for each in counted])
    if ready_targets:
        _claim(tx, gates, gate_tx, ready_targets, request, done, suspects=ready.suspects)
    done.events, done.asks, done.opens_at = gate_tx.events, gate_tx.asks, gate_tx.opens_at
    return done


def _promote(tx: Tx, now: float) -> float | None:
    """Makes ready what is due; returns when the next one is. A look costs a hundredth of a statement that writes."""
    due = claims.next_due(tx)
    if due is None or due > now + _CLOCK_SLACK:
        return due
    claims.promote(tx)
    return claims.next_due(tx)


def _adopt(tx: Tx, request: FetchRequest, done: FetchResult) -> None:
    """Everything that this worker holds, with fresh leases: when those that it never heard of began, nobody knows."""
    done.mine = [job for job in claims.mine(tx, request.worker) if (job.id, job.fence) not in request.given_up]
    claims.renew(tx, done.mine, request.lease)
    done.parent_results |= {job.id: _parents_of(tx, job.id) for job in done.mine if job.parents}


def _claim(
    tx: Tx,
    gates: ClaimGates,
    gate_tx: ClaimGateTx,
    ready_targets: Sequence[ReadyTarget],
    request: FetchRequest,
    done: FetchResult,
    *,
    suspects: bool,
) -> None:
    for front in ready_targets:
        if gate_tx.fails_fast(front):
            ended = _fail_fast(tx, gates, front)
            gate_tx.rejected(front.target, ended)
            done.failed_fast += ended
            if ended >= _MAX_ENDED:
                gate_tx.wake_at(gate_tx.now + 0.001)  # there may be more of them
    terms = ClaimRequest(
        worker=request.worker,
        lease=request.lease,
        room=request.room,
        slots=request.slots,
        rounds=request.cursor,
        cycle=request.cycle,
    )
    taken = _claim_suspect(tx, gate_tx, ready_targets, terms, alone=request.alone) if suspects else None
    done.waits_to_be_alone = taken is not None and not taken.jobs
    if taken is None:
        taken = claiming.claim(tx, gate_tx, ready_targets, terms)
        if suspects and request.alone and not taken.jobs:  # it has nothing else to do
            taken = claiming.suspect(tx, gate_tx, ready_targets, terms, alone=True, duty=None) or taken
    done.claimed, done.generations, done.cursor = taken.jobs, taken.generations, taken.rounds
    done.parent_results |= {job.id: _parents_of(tx, job.id) for job in taken.jobs if job.parents}


def _claim_suspect(
    tx: Tx, gates: ClaimGateTx, ready_targets: Sequence[ReadyTarget], request: ClaimRequest, *, alone: bool
) -> claiming.Claims | None:
    # Nobody else works on the jobs of a cycle.
    duty = claiming.SuspectDuty(tx, request) if request.cycle is None else None
    return claiming.suspect(tx, gates, ready_targets, request, alone=alone, duty=duty)


def _parents_of(tx: Tx, child: int) -> dict[int, str | None]:
    return {parent: result for _, parent, _, result in tx.query("parent_results", {"child": child})}


def _fail_fast(tx: Tx, gates: ClaimGates, ready_target: ReadyTarget) -> int:
    """Ends what is queued behind an open breaker, as its target asks; with the code that its kind has for that."""
    by_kind: defaultdict[str, list[Row]] = defaultdict(list)
    for *row, kind in tx.query(
        "front_jobs", {"queue": ready_target.queue, "target": ready_target.target, "n": _MAX_ENDED}
    ):
        by_kind[kind].append(tuple(row))
    book, ended = gates.book(ready_target.target), 0
    for kind, rows in by_kind.items():
        code = gates.fail_fast.get(kind, FAIL_FAST)
        message = book[code].message if code in book else code
        ended += claims.fail_queued(tx, rows, code, message, "breaker")
    return ended
