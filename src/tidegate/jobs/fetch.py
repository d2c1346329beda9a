"""One fetch: settle finished attempts and claim jobs fairly, in one transaction."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.events import Event
from tidegate.jobs import claim as job_claim
from tidegate.jobs.claim import NOTHING_READY, START, DrainSnapshot, QueuedJob, ReadyKey, ReadyTarget, RoundRobinCursor
from tidegate.jobs.gates import FAIL_FAST, ClaimGates, ClaimGateTx, DepthRequest
from tidegate.jobs.in_flight import runs_suspects
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.jobs.key_gates import ClaimAdmission, TargetVerdict
from tidegate.jobs.settle import Settled, settle
from tidegate.store.base import BoundStatement, Tx
from tidegate.store.migrate import Schema

# -- fair share ------------------------------------------------------------------------------------------------------
# Free slots are divided fairly over queues and targets, then over the keys of each, as far as the gates allow.

_KEYS_PER_READ = 128
_MAX_HELD = 2048  # held keys that one fetch skips; the next fetch continues after them
_MAX_CUTS = 4  # consecutive fetches that stop there and are repeated without a pause


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """How many jobs a worker can take, and under which lease."""

    worker: str
    lease: float
    room: int  # jobs that it can hold, including prefetched ones
    slots: int  # jobs that it can start immediately
    rounds: RoundRobinCursor
    cycle: DrainSnapshot | None = None  # in a drain: claim only jobs of this snapshot


@dataclass(slots=True)
class Claims:
    """Claimed jobs, how the breaker admitted each, and where the next fetch continues."""

    rounds: RoundRobinCursor
    jobs: list[Claimed] = field(default_factory=list)
    admissions: dict[int, ClaimAdmission] = field(default_factory=dict)


def claim(tx: Tx, gates: ClaimGateTx, ready_targets: Sequence[ReadyTarget], request: ClaimRequest) -> Claims:
    """Claims a fair share for each target that is open. What one does not need goes to the others."""
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
    """Claims the first suspect whose gates are open. Returns None if there is none.

    The result has no job if the suspect must wait until it can run *alone*. Suspects go first, because they were
    claimed before all other jobs. Without *duty* the worker may claim any suspect.
    """
    sharing = FairShare(tx, gates, request)
    open_fronts = {front.place for front in ready_targets if gates.admits(front)}
    for candidate in job_claim.suspects(tx, request.cycle):
        lane = candidate.lane
        if (lane.queue, lane.target) not in open_fronts or not sharing.is_open(lane):
            continue
        if duty is not None and not duty.includes(lane.queue, candidate.waited):
            continue
        if not gates.request_depth(lane.target) or gates.left(lane.target) <= 0:
            continue
        if not alone or sharing.take_suspect(lane, candidate.id):
            return sharing.taken
    return None


class SuspectDuty:
    """Which suspects this worker stops other claims for. Only a few processes do, so that the others keep working."""

    def __init__(self, tx: Tx, request: ClaimRequest) -> None:
        # A worker whose jobs were rescued has sent no heartbeat for the duration of a lease.
        self._workers, self._now = job_claim.workers_at_work(tx, request.lease)
        self._process = next((worker.process for worker in self._workers if worker.id == request.worker), None)

    def includes(self, queue: str, waited: float) -> bool:
        """Whether this process runs a suspect of *queue* that has *waited* for this many seconds."""
        processes = list(dict.fromkeys(worker.process for worker in self._workers if queue in worker.queues))
        if self._process not in processes:
            return True  # this worker's own heartbeat is late
        return runs_suspects(processes.index(self._process), len(processes), waited, self._now)


class FairShare:
    def __init__(self, tx: Tx, gates: ClaimGateTx, request: ClaimRequest) -> None:
        self._tx, self._gates, self._request = tx, gates, request
        self.left, self._slots = request.room, request.slots
        self.taken = Claims(request.rounds)
        self._held = 0  # held keys skipped
        self._single: set[tuple[str, str]] = set()  # targets with one key, which need no cursor

    def serve(self, ready_target: ReadyTarget, sharers: int) -> bool:
        """Claims the share of one target. Returns True when it may have more jobs than that."""
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
            for i, ready_key in enumerate(hungry):
                share = math.ceil((limit - got) / (len(hungry) - i))
                n = len(self._claim_from_key(ready_key, share))
                got += n
                if n == share and ready_key.hold is None:
                    still.append(ready_key)
                if got >= limit:
                    self._served(ready_target, ready_key)
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
            ready_key,
            lambda: job_claim.claim(
                self._tx,
                ready_key,
                n,
                terms.worker,
                terms.lease,
                terms.cycle,
                trial=self._gates.half_open(ready_key.target),
            ),
        )

    def take_suspect(self, ready_key: ReadyKey, id_: int) -> bool:
        """Claims one suspect. Returns False when another worker is claiming it."""
        worker, lease = self._request.worker, self._request.lease
        return bool(self._take(ready_key, lambda: job_claim.claim_suspect(self._tx, ready_key, id_, worker, lease)))

    def _take(self, ready_key: ReadyKey, claim: Callable[[], list[Claimed]]) -> list[Claimed]:
        gates = self._gates
        if ready_key.hold is not None and not gates.probe(ready_key.target, ready_key.lane):
            return []
        admission = gates.admission(ready_key.target)
        taken = claim()
        if ready_key.hold is not None:
            gates.probing(ready_key.target, ready_key.lane, taken)
        gates.claimed(ready_key.target, taken)
        self.left -= len(taken)
        self._slots -= len(taken)
        self.taken.jobs += taken
        self.taken.admissions |= {job.id: admission for job in taken}
        return taken

    def _served(self, ready_target: ReadyTarget, ready_key: ReadyKey) -> None:
        open_keys = {**self.taken.rounds.lanes, ready_target.place: ready_key.lane}
        if ready_target.place in self._single:
            open_keys.pop(ready_target.place)
        self.taken.rounds = replace(self.taken.rounds, lanes=open_keys)

    def _open_keys(self, ready_target: ReadyTarget, limit: int) -> list[ReadyKey]:
        """The next keys that are open, up to *limit*, in one round over all keys."""
        keys: list[ReadyKey] = []
        for lane in self._walk(ready_target):
            if self.is_open(lane):
                keys.append(lane)
                if len(keys) >= limit:
                    break
                continue
            self._gates.wake_at(lane.hold_until)
            self._held += 1
            if self._held >= _MAX_HELD:
                self._cut_short(ready_target, lane)
                break
        return keys

    def is_open(self, ready_key: ReadyKey) -> bool:
        return ready_key.hold is None or (ready_key.hold_until is not None and ready_key.hold_until <= self._gates.now)

    def _cut_short(self, ready_target: ReadyTarget, ready_key: ReadyKey) -> None:
        """Ends the scan after too many held keys. The next fetch continues here, a few times without a pause."""
        self._served(ready_target, ready_key)
        rounds, cuts = self.taken.rounds, self._request.rounds.cuts
        if cuts < _MAX_CUTS:
            self._gates.wake_at(self._gates.now + 0.001)
        self.taken.rounds = replace(rounds, cuts=cuts + 1 if cuts < _MAX_CUTS else 0)

    def _walk(self, ready_target: ReadyTarget) -> Iterator[ReadyKey]:
        start = self._gates.trial_key(ready_target.target) or self.taken.rounds.lanes.get(ready_target.place)
        after, seen = start, set[str]()
        while True:
            batch = job_claim.ready_keys(self._tx, ready_target, after, _KEYS_PER_READ)
            if after is None and len(batch) == 1:
                self._single.add(ready_target.place)
            for lane in batch:
                if lane.lane in seen:
                    return  # the round is complete
                seen.add(lane.lane)
                yield lane
            if len(batch) == _KEYS_PER_READ:
                after = batch[-1].lane
            elif start is None:
                return
            else:
                after = start = None


def _after(ready_targets: Sequence[ReadyTarget], last: tuple[str, str]) -> list[ReadyTarget]:
    """The targets in order, starting after the one that was served last.

    The order is Python's, because the order of a database depends on its collation.
    """
    ordered = sorted(ready_targets, key=lambda front: front.place)
    at = next((i for i, front in enumerate(ordered) if front.place > last), 0)
    return [*ordered[at:], *ordered[:at]]


# -- fetch -----------------------------------------------------------------------------------------------------------

_CLOCK_SLACK = 0.05  # seconds that the worker's estimate of the store's clock may be off
_MAX_ENDED = 500  # jobs per target that one fetch fails fast


@dataclass(frozen=True, slots=True)
class FinishedAttempt:
    """A finished attempt: its outcome, its verdict on the target, and the application's own writes."""

    outcome: AttemptOutcome
    note: TargetVerdict | None = None
    writes: tuple[BoundStatement, ...] = ()
    held: bool = False  # a guard inside the handler raised Held
    after: Callable[[], object] | None = None  # the application's callback, called after the commit


@dataclass(slots=True)
class FetchResult:
    """The result of one fetch."""

    settled: Settled
    claimed: list[Claimed] = field(default_factory=list)
    mine: list[Claimed] = field(default_factory=list)  # all jobs under leases of this worker, if requested
    asked: list[int] = field(default_factory=list)  # running jobs that a user cancelled
    admissions: dict[int, ClaimAdmission] = field(default_factory=dict)  # by job
    parent_results: dict[int, dict[int, str | None]] = field(default_factory=dict)  # JSON, by job and parent
    events: list[Event] = field(default_factory=list)  # to publish after the commit
    asks: list[DepthRequest] = field(default_factory=list)  # targets whose depth must be read first
    cursor: RoundRobinCursor = START
    next_due: float | None = None
    opens_at: float | None = None  # when a gate that held jobs may open
    failed_fast: int = 0
    waits_to_be_alone: bool = False  # a suspect is ready and other jobs are in flight, so nothing was claimed


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """What a worker requests of one fetch."""

    worker: str
    queues: frozenset[str]
    room: int
    lease: float
    slots: int = 0  # of the room: jobs that can start immediately
    cursor: RoundRobinCursor = START
    promote: bool = True
    adopt: bool = False  # an earlier fetch may have committed claims whose response was lost
    given_up: frozenset[tuple[int, int]] = frozenset()  # started attempts whose leases are left to expire
    check_cancellations: bool = False
    cycle: DrainSnapshot | None = None  # in a drain: claim only jobs of this snapshot
    alone: bool = True  # a suspect would run alone
    cleared: tuple[tuple[int, int], ...] = ()  # suspects, by id and fence, that have run alone for long enough


def fetch(
    tx: Tx, gates: ClaimGates, ended: Sequence[FinishedAttempt], request: FetchRequest, now: float, schema: Schema
) -> FetchResult:
    """Settles the *ended* attempts, then claims. All of it is one transaction."""
    settled = settle(tx, [finished.outcome for finished in ended], request.worker)
    late = {id(outcome) for outcome in settled.late}  # by identity: a job may have an old and a new attempt here
    counted = [finished for finished in ended if id(finished.outcome) not in late]
    for finished in counted:
        for write in finished.writes:
            tx.query(write.name, write.params)
    if late:
        job_claim.survive(tx, request.worker)
    done = FetchResult(settled, cursor=request.cursor)
    if request.cleared:
        job_claim.clear_suspects(tx, request.cleared)
    if request.adopt:
        _adopt(tx, request, done)
    if request.check_cancellations:
        done.asked = tx.scalars(int, "stop_asked", {"worker": request.worker})
    if request.promote:
        done.next_due = _promote(tx, now)
    ready = job_claim.ready(tx, request.queues) if request.room > 0 else NOTHING_READY
    ready_targets = ready.targets if ready.targets and schema.fits(tx, ready.migrations) else []
    # Locks targets after jobs, and all in one statement, to avoid deadlocks between workers.
    gate_tx = gates.turn(tx, request.worker, now)
    gate_tx.lock_rows({finished.outcome.job.target for finished in counted}, ready_targets)
    gate_tx.note([(finished.outcome, finished.note) for finished in counted])
    if ready_targets:
        _claim(tx, gates, gate_tx, ready_targets, request, done, suspects=ready.suspects)
    done.events, done.asks, done.opens_at = gate_tx.events, gate_tx.asks, gate_tx.opens_at
    return done


def _promote(tx: Tx, now: float) -> float | None:
    """Promotes due jobs and returns when the next one is due. Reads first: a read costs a hundredth of a write."""
    due = job_claim.next_due(tx)
    if due is None or due > now + _CLOCK_SLACK:
        return due
    job_claim.promote(tx)
    return job_claim.next_due(tx)


def _adopt(tx: Tx, request: FetchRequest, done: FetchResult) -> None:
    """Returns all jobs of this worker and renews their leases, because the start of unknown leases is unknown."""
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
                gate_tx.wake_at(gate_tx.now + 0.001)  # there may be more
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
        if suspects and request.alone and not taken.jobs:  # an idle worker runs any suspect
            taken = suspect(tx, gate_tx, ready_targets, terms, alone=True, duty=None) or taken
    done.claimed, done.admissions, done.cursor = taken.jobs, taken.admissions, taken.rounds
    done.parent_results |= {job.id: _parents_of(tx, job.id) for job in taken.jobs if job.parents}


def _claim_suspect(
    tx: Tx, gates: ClaimGateTx, ready_targets: Sequence[ReadyTarget], request: ClaimRequest, *, alone: bool
) -> Claims | None:
    # In a drain no other process runs these jobs.
    duty = SuspectDuty(tx, request) if request.cycle is None else None
    return suspect(tx, gates, ready_targets, request, alone=alone, duty=duty)


def _parents_of(tx: Tx, child: int) -> dict[int, str | None]:
    return {parent: result for _, parent, _, result in tx.query("parent_results", {"child": child})}


def _fail_fast(tx: Tx, gates: ClaimGates, ready_target: ReadyTarget) -> int:
    """Fails the jobs of a fail-fast target whose breaker is open, with the code of their kind. Returns the count."""
    by_kind: defaultdict[str, list[QueuedJob]] = defaultdict(list)
    front = {"queue": ready_target.queue, "target": ready_target.target, "n": _MAX_ENDED}
    for job in tx.query_as(QueuedJob, "front_jobs", front):
        by_kind[job.kind].append(job)
    book, ended = gates.book(ready_target.target), 0
    for kind, jobs in by_kind.items():
        code = gates.fail_fast.get(kind, FAIL_FAST)
        message = book[code].message if code in book else code
        ended += job_claim.fail_queued(tx, jobs, code, message, "breaker")
    return ended
