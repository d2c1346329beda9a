"""One fetch: settle finished attempts and claim jobs fairly, in one transaction."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.events import Event
from tidegate.jobs import claim as job_claim
from tidegate.jobs.claim import NOTHING_READY, START, DrainSnapshot, ReadyKey, ReadyTarget, RoundRobinCursor
from tidegate.jobs.gates import FAIL_FAST, ClaimGates, ClaimGateTx, DepthRequest
from tidegate.jobs.in_flight import runs_suspects
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.jobs.key_gates import TargetVerdict
from tidegate.jobs.settle import Settled, settle
from tidegate.store.base import BoundStatement, Row, Tx
from tidegate.store.migrate import Schema

# Who gets the free slots of a worker: fair over queues and targets, then over the keys of each, as the gates allow.

_KEYS_PER_READ = 128  # lanes of one look into the index
_MAX_HELD = 2048  # held lanes that one turn walks past; the next turn goes on from there
_MAX_CUTS = 4  # turns in a row that do so without a pause


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a worker can take, and under which lease."""

    worker: str
    lease: float
    room: int  # jobs that it has use for
    slots: int  # jobs that it can begin at once
    rounds: RoundRobinCursor
    cycle: DrainSnapshot | None = None  # nothing but what that may take


@dataclass(slots=True)
class Claims:
    """What was claimed, of which generation of its breaker, and whose turn it is next."""

    rounds: RoundRobinCursor
    jobs: list[Claimed] = field(default_factory=list)
    generations: dict[int, int] = field(default_factory=dict)


def claim(tx: Tx, gates: ClaimGateTx, ready_targets: Sequence[ReadyTarget], request: ClaimRequest) -> Claims:
    """Each front that is open gets its share, and what some do not need goes to the others."""
    sharing = FairShare(tx, gates, request)
    hungry = [front for front in _after(ready_targets, request.rounds.front) if gates.admits(front)]
    while hungry and sharing.left > 0:
        before = sharing.left
        hungry = [front for i, front in enumerate(hungry) if sharing.serve(front, len(hungry) - i)]
        if sharing.left == before:
            break
    return sharing.taken


def suspect(
    tx: Tx,
    gates: ClaimGateTx,
    ready_targets: Sequence[ReadyTarget],
    request: ClaimRequest,
    *,
    alone: bool,
    duty: SuspectDuty | None,
) -> Claims | None:
    """The first suspect that may go; without a job when it must wait to run *alone*, and None when there is none.

    It goes before everything else, as it was claimed before that. Without *duty* any suspect may be claimed.
    """
    sharing = FairShare(tx, gates, request)
    open_fronts = {front.place for front in ready_targets if gates.admits(front)}
    for each in job_claim.suspects(tx, request.cycle):
        lane = each.lane
        if (lane.queue, lane.target) not in open_fronts or not sharing.is_open(lane):
            continue
        if duty is not None and not duty.includes(lane.queue, each.waited):
            continue
        if not gates.request_depth(lane.target) or gates.left(lane.target) <= 0:
            continue
        if not alone or sharing.take_suspect(lane, each.id):
            return sharing.taken
    return None


class SuspectDuty:
    """Which suspects this worker makes way for: a few processes do, so that the others go on with their work."""

    def __init__(self, tx: Tx, request: ClaimRequest) -> None:
        # A worker whose jobs were taken back was not seen for the time of a lease.
        self._workers, self._now = job_claim.workers_at_work(tx, request.lease)
        self._process = next((worker.process for worker in self._workers if worker.id == request.worker), None)

    def includes(self, queue: str, waited: float) -> bool:
        """Whether it does for a suspect of *queue* that has *waited* so many seconds."""
        processes = list(dict.fromkeys(worker.process for worker in self._workers if queue in worker.queues))
        if self._process not in processes:
            return True  # its own heartbeat is late
        return runs_suspects(processes.index(self._process), len(processes), waited, self._now)


class FairShare:
    def __init__(self, tx: Tx, gates: ClaimGateTx, request: ClaimRequest) -> None:
        self._tx, self._gates, self._request = tx, gates, request
        self.left, self._slots = request.room, request.slots
        self.taken = Claims(request.rounds)
        self._held = 0  # lanes walked past
        self._single: set[tuple[str, str]] = set()  # fronts with one lane: there is nobody to take turns with

    def serve(self, ready_target: ReadyTarget, sharers: int) -> bool:
        """Claims the share of one front; True when it may have more than that."""
        share = math.ceil(self.left / sharers)
        room = self._gates.left(ready_target.target)
        limit = min(share, room, self._slots) if self._gates.gated(ready_target.target) else min(share, room)
        if limit <= 0 and not (self._gates.wants_ask(ready_target.target) and self._slots > 0):
            return False
        open_keys = self._open_keys(ready_target, max(limit, 1))
        if not open_keys or not self._gates.request_depth(ready_target.target):
            return False
        got = self._claim_from_keys(ready_target, open_keys, limit)
        if got:
            self.taken.rounds = replace(self.taken.rounds, front=ready_target.place)
        return 0 < share == got

    def _claim_from_keys(self, ready_target: ReadyTarget, open_keys: Sequence[ReadyKey], limit: int) -> int:
        got, hungry = 0, list(open_keys)
        while got < limit and hungry:
            before, still = got, []
            for i, lane in enumerate(hungry):
                share = math.ceil((limit - got) / (len(hungry) - i))
                n = len(self._claim_from_key(lane, share))
                got += n
                if n == share and lane.hold is None:
                    still.append(lane)
                if got >= limit:
                    self._served(ready_target, lane)
                    break
            if got == before:
                break
            hungry = still
        return got

    def _claim_from_key(self, ready_key: ReadyKey, n: int) -> list[Claimed]:
        terms = self._request
        n = n if ready_key.hold is None else min(n, 1)
        if n <= 0:
            return []
        return self._take(
            ready_key, lambda: job_claim.claim(self._tx, ready_key, n, terms.worker, terms.lease, terms.cycle)
        )

    def take_suspect(self, ready_key: ReadyKey, id_: int) -> bool:
        """Claims that one job; False when another worker takes it just now."""
        worker, lease = self._request.worker, self._request.lease
        return bool(self._take(ready_key, lambda: job_claim.claim_suspect(self._tx, ready_key, id_, worker, lease)))

    def _take(self, ready_key: ReadyKey, claim: Callable[[], list[Claimed]]) -> list[Claimed]:
        gates = self._gates
        if ready_key.hold is not None and not gates.probe(ready_key.target, ready_key.lane):
            return []
        taken = claim()
        if ready_key.hold is not None:
            gates.probing(ready_key.target, ready_key.lane, taken)
        gates.claimed(ready_key.target, taken)
        self.left -= len(taken)
        self._slots -= len(taken)
        self.taken.jobs += taken
        generation = gates.generation(ready_key.target)
        self.taken.generations |= {job.id: generation for job in taken}
        return taken

    def _served(self, ready_target: ReadyTarget, ready_key: ReadyKey) -> None:
        open_keys = {**self.taken.rounds.lanes, ready_target.place: ready_key.lane}
        if ready_target.place in self._single:
            open_keys.pop(ready_target.place)
        self.taken.rounds = replace(self.taken.rounds, lanes=open_keys)

    def _open_keys(self, ready_target: ReadyTarget, limit: int) -> list[ReadyKey]:
        """The next lanes whose jobs may go, at most so many, going round once."""
        found: list[ReadyKey] = []
        for lane in self._walk(ready_target):
            if self.is_open(lane):
                found.append(lane)
                if len(found) >= limit:
                    break
                continue
            self._gates.wake_at(lane.hold_until)
            self._held += 1
            if self._held >= _MAX_HELD:
                self._cut_short(ready_target, lane)
                break
        return found

    def is_open(self, ready_key: ReadyKey) -> bool:
        return ready_key.hold is None or (ready_key.hold_until is not None and ready_key.hold_until <= self._gates.now)

    def _cut_short(self, ready_target: ReadyTarget, ready_key: ReadyKey) -> None:
        """So many are held that the next turn must go on from here: at once, but not for ever."""
        self._served(ready_target, ready_key)
        rounds, cuts = self.taken.rounds, self._request.rounds.cuts
        if cuts < _MAX_CUTS:
            self._gates.wake_at(self._gates.now + 0.001)
        self.taken.rounds = replace(rounds, cuts=cuts + 1 if cuts < _MAX_CUTS else 0)

    def _walk(self, ready_target: ReadyTarget) -> Iterator[ReadyKey]:
        start = self.taken.rounds.lanes.get(ready_target.place)
        after, seen = start, set[str]()
        while True:
            batch = job_claim.ready_keys(self._tx, ready_target, after, _KEYS_PER_READ)
            if after is None and len(batch) == 1:
                self._single.add(ready_target.place)
            for lane in batch:
                if lane.lane in seen:
                    return  # once round
                seen.add(lane.lane)
                yield lane
            if len(batch) == _KEYS_PER_READ:
                after = batch[-1].lane
            elif start is None:
                return
            else:
                after = start = None


def _after(ready_targets: Sequence[ReadyTarget], last: tuple[str, str]) -> list[ReadyTarget]:
    """Beginning behind the one that was served last, in our own order: that of a database depends on its language."""
    ordered = sorted(ready_targets, key=lambda front: front.place)
    at = next((i for i, front in enumerate(ordered) if front.place > last), 0)
    return [*ordered[at:], *ordered[:at]]


# One turn of a worker at the store: settle what has ended and claim what may go, in one transaction.

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
        job_claim.survive(tx, request.worker)
    done = FetchResult(settled, cursor=request.cursor)
    if request.cleared:
        job_claim.clear_suspects(tx, request.cleared)
    if request.adopt:
        _adopt(tx, request, done)
    if request.check_cancellations:
        done.asked = [row[0] for row in tx.query("stop_asked", {"worker": request.worker})]
    if request.promote:
        done.next_due = _promote(tx, now)
    ready = job_claim.ready(tx, request.queues) if request.room > 0 else NOTHING_READY
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
    due = job_claim.next_due(tx)
    if due is None or due > now + _CLOCK_SLACK:
        return due
    job_claim.promote(tx)
    return job_claim.next_due(tx)


def _adopt(tx: Tx, request: FetchRequest, done: FetchResult) -> None:
    """Everything that this worker holds, with fresh leases: when those that it never heard of began, nobody knows."""
    done.mine = [job for job in job_claim.mine(tx, request.worker) if (job.id, job.fence) not in request.given_up]
    job_claim.renew(tx, done.mine, request.lease)
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
        taken = claim(tx, gate_tx, ready_targets, terms)
        if suspects and request.alone and not taken.jobs:  # it has nothing else to do
            taken = suspect(tx, gate_tx, ready_targets, terms, alone=True, duty=None) or taken
    done.claimed, done.generations, done.cursor = taken.jobs, taken.generations, taken.rounds
    done.parent_results |= {job.id: _parents_of(tx, job.id) for job in taken.jobs if job.parents}


def _claim_suspect(
    tx: Tx, gates: ClaimGateTx, ready_targets: Sequence[ReadyTarget], request: ClaimRequest, *, alone: bool
) -> Claims | None:
    # Nobody else works on the jobs of a cycle.
    duty = SuspectDuty(tx, request) if request.cycle is None else None
    return suspect(tx, gates, ready_targets, request, alone=alone, duty=duty)


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
        ended += job_claim.fail_queued(tx, rows, code, message, "breaker")
    return ended
