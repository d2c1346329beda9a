"""Claims jobs, renews leases and rescues jobs whose lease was lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.jobs import settle
from tidegate.jobs.job import DEFAULT_CRASHES, NO_ATTEMPT_LEFT, Claimed, OutcomeKind, StoredState
from tidegate.jobs.settle import FailedJob, end_children
from tidegate.store.base import Row, Tx

_BATCH_SIZE = 500


@dataclass(frozen=True, slots=True)
class DrainSnapshot:
    """The jobs of a drain: inserted up to the job *newest*, and due before it *began*."""

    newest: int
    began: float


class ReadyTarget(NamedTuple):
    """A queue and a target with ready jobs, and the state of their gates."""

    queue: str
    target: str
    queue_paused_until: float | None = None
    paused_until: float | None = None
    breaker: str | None = None
    breaker_until: float | None = None
    migrations: int = 0  # applied ones, as in every row
    suspects: int = 0  # whether any job must run alone, as in every row

    @property
    def place(self) -> tuple[str, str]:
        return self.queue, self.target


@dataclass(frozen=True, slots=True)
class ReadyKey:
    """One key of a target with ready jobs, and its hold."""

    queue: str
    target: str
    lane: str
    hold: str | None = None
    hold_until: float | None = None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A ready job that must run alone, and how long it has been ready, in seconds."""

    id: int
    lane: ReadyKey
    waited: float


@dataclass(frozen=True, slots=True)
class WorkerAtWork:
    """An active worker, its process (host and pid), and the queues that it serves."""

    id: str
    process: tuple[str, int]
    queues: frozenset[str]


@dataclass(frozen=True, slots=True)
class RoundRobinCursor:
    """The target that was served last, and in each target the key that was served last."""

    front: tuple[str, str] = ("", "")
    lanes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    cuts: int = 0  # consecutive fetches that met more held keys than one fetch skips


START = RoundRobinCursor()
_MAX_FRONTS = 10_000
_MAX_SUSPECTS = 100  # per key; other workers may be claiming the first of them
_MAX_TRIED = 1000  # ready jobs of a key among which trials rotate


@dataclass(frozen=True, slots=True)
class Ready:
    """Targets with ready jobs, the number of applied migrations, and whether any job must run alone."""

    targets: list[ReadyTarget]
    migrations: int
    suspects: bool


NOTHING_READY = Ready([], 0, suspects=False)


def promote(tx: Tx) -> int:
    """Makes a batch of due jobs ready. Returns how many."""
    rows = tx.query("promote", {"n": _BATCH_SIZE})
    settle.count_moves(tx, Counter((queue, "waiting", "ready") for (queue,) in rows))
    return len(rows)


def next_due(tx: Tx) -> float | None:
    """When the next waiting job is due; None if none waits."""
    return tx.scalar_or_none(float, "next_due")


def ready(tx: Tx, queues: Iterable[str]) -> Ready:
    """Every target of these queues with ready jobs. Each costs one index lookup, however many jobs it has."""
    wanted = "\n".join(("", *sorted(queues), ""))  # a queue name has no line break
    rows = tx.query_as(ReadyTarget, "fronts", {"queues": wanted, "sep": "\n", "most": _MAX_FRONTS})
    return Ready(rows, rows[0].migrations, suspects=bool(rows[0].suspects)) if rows else NOTHING_READY


def ready_keys(tx: Tx, ready_target: ReadyTarget, after: str | None, limit: int) -> list[ReadyKey]:
    """The next keys of a target, after *after* or from the first one."""
    place = {"queue": ready_target.queue, "target": ready_target.target}
    if after is None:
        # Most targets have one key, and the general query costs three times as much.
        first, last, *hold = tx.query("only_lane", place)[0]
        if first == last:
            return [] if first is None else [ReadyKey(ready_target.queue, ready_target.target, first, *hold)]
    rows = tx.query("lanes", {**place, "fresh": int(after is None), "after": after or "", "most": limit})
    return [ReadyKey(ready_target.queue, ready_target.target, *row) for row in rows]


def claim(
    tx: Tx,
    ready_key: ReadyKey,
    n: int,
    worker: str,
    lease: float,
    snapshot: DrainSnapshot | None = None,
    *,
    trial: bool = False,
) -> list[Claimed]:
    """Claims up to *n* ready jobs of a key, by priority and age; with *snapshot*, only jobs of that drain.

    For a *trial*, those that ran least recently: a job that always fails must not be every trial.
    """
    wanted = {"queue": ready_key.queue, "target": ready_key.target, "lane": ready_key.lane, "n": n}
    if trial:
        newest, began = (None, None) if snapshot is None else (snapshot.newest, snapshot.began)
        picked = tx.query("pick_trials", {**wanted, "newest": newest, "began": began, "among": _MAX_TRIED})
    elif snapshot is None:
        picked = tx.query("pick", wanted)
    else:
        picked = tx.query("pick_in_cycle", {**wanted, "newest": snapshot.newest, "began": snapshot.began})
    return _take(tx, ready_key, picked, worker, lease)


def suspects(tx: Tx, snapshot: DrainSnapshot | None) -> Iterator[Suspect]:
    """Ready jobs that must run alone."""
    newest, began = (None, None) if snapshot is None else (snapshot.newest, snapshot.began)
    for id_, waited, *key in tx.query("suspects", {"newest": newest, "began": began, "n": _MAX_SUSPECTS}):
        yield Suspect(id_, ReadyKey(*key), waited)


def workers_at_work(tx: Tx, seconds: float) -> tuple[list[WorkerAtWork], float]:
    """Active workers with a heartbeat within *seconds*, the oldest first, and the store's time."""
    rows = tx.query("workers_at_work", {"seconds": seconds})
    found = [WorkerAtWork(id_, (host, pid), frozenset(json.loads(queues))) for id_, host, pid, queues, _ in rows]
    return found, rows[0][-1] if rows else 0.0


def claim_suspect(tx: Tx, ready_key: ReadyKey, id_: int, worker: str, lease: float) -> list[Claimed]:
    """Claims one suspect, unless another worker is claiming it."""
    return _take(tx, ready_key, tx.query("pick_suspect", {"id": id_}), worker, lease)


def clear_suspects(tx: Tx, keys: Sequence[tuple[int, int]]) -> None:
    """Clears suspects, by id and fence, that have run alone for long enough."""
    tx.query_many("clear_suspects", [{"id": id_, "fence": fence} for id_, fence in keys])


def _take(tx: Tx, ready_key: ReadyKey, picked: Sequence[Row], worker: str, lease: float) -> list[Claimed]:
    if not picked:
        return []
    # One row per statement: SQLite journals every page of a multi-row statement, in case it fails halfway.
    wanted = [{"id": id_} for (id_,) in picked]
    jobs = tx.query_many_as(Claimed, "claim", wanted, {"worker": worker, "lease": lease})
    jobs.sort(key=lambda job: (-job.priority, job.id))
    settle.count_moves(tx, {(ready_key.queue, "ready", "running"): len(jobs)})
    return jobs


def mine(tx: Tx, worker: str) -> list[Claimed]:
    """Every job under a lease of this worker, including claims whose response was lost."""
    return tx.query_as(Claimed, "mine", {"worker": worker})


@dataclass(frozen=True, slots=True)
class Renewed:
    """A lease that this worker still holds. It is not *extended* if another transaction had locked its row."""

    id: int
    lease_until: float
    stop_asked: bool
    extended: bool = True


def renew(tx: Tx, jobs: Sequence[Claimed], lease: float) -> list[Renewed]:
    """Extends leases. A job that is missing from the result is lost."""
    rows = tx.query_many("renew", [{"id": job.id, "fence": job.fence} for job in jobs], {"lease": lease})
    found = [Renewed(id_, until, bool(asked)) for id_, until, asked in rows]
    if len(found) < len(jobs):
        done = {each.id for each in found}
        rest = [{"id": job.id, "fence": job.fence} for job in jobs if job.id not in done]
        found += [
            Renewed(id_, until, bool(asked), extended=False) for id_, until, asked in tx.query_many("still_mine", rest)
        ]
    return found


def save(tx: Tx, id_: int, fence: int, saved: str) -> bool:
    """Saves values for the next attempt. Returns False when the lease is lost."""
    return bool(tx.query("save", {"id": id_, "fence": fence, "saved": saved}))


class LostRule(NamedTuple):
    """The code of jobs of a kind that fail because workers crashed, and how many crashes while alone that takes."""

    code: str
    max_crashes: int = DEFAULT_CRASHES
    counts_every_attempt: bool = False


def rescue_lost(tx: Tx, rule: LostRule, message: str, of_kinds: Mapping[str, LostRule], lease: float) -> int:
    """Rescues a batch of jobs whose lease has ended. *rule* applies to kinds that are not in *of_kinds*.

    A rescued job is ready again, as a suspect. Its last attempt does not count, because another job may have crashed
    the worker. It fails when too many workers crashed while it ran alone, or in all, or when it has only one attempt.
    It is cancelled when a user has cancelled it. Before a crash fails the job, its worker has another *lease* seconds
    to return, because no heartbeat arrives while the store is down.
    """
    found = tx.query("lost_leases", {"n": _BATCH_SIZE})
    lost = [_Lost(*(*columns, kind, survived, of_kinds.get(kind, rule))) for *columns, kind, survived in found]
    if not lost:
        return 0
    tx.query_many(
        "lease_lost",
        [
            {
                "job": job.id,
                "fence": job.fence,
                "worker": job.lease_by,
                "alone": job.suspect,
                "rescued": int(not job.awaited),
            }
            for job in lost
        ],
    )
    awaited = [{"id": job.id, "fence": job.fence} for job in lost if job.awaited]
    tx.query_many("wait_for_worker", awaited, {"lease": lease})
    lost = [job for job in lost if not job.awaited]
    codes = {job.id: job.rule.code for job in lost}
    rows = []
    for each in lost:
        failed = each.stage is StoredState.FAILED
        rows.append(
            {
                "id": each.id,
                "fence": each.fence,
                "outcome": str(each.stage),
                "refund": int(each.refund),
                "crash": int(each.crash),
                "code": codes[each.id] if failed else None,
                "message": _why(each, message) if failed else None,
            }
        )
    taken = {id_: (target, kind) for id_, target, kind in tx.query_many("take_back", rows)}
    lost = [each for each in lost if each.id in taken]
    settle.record_failures(
        tx,
        [
            FailedJob(each.id, *taken[each.id], codes[each.id], _why(each, message))
            for each in lost
            if each.stage is StoredState.FAILED
        ],
    )
    tx.query_many(
        "attempt_events",
        [
            {
                "job": each.id,
                "fence": each.fence,
                "kind": str(OutcomeKind.LOST),
                "attempt": each.attempt,
                "began_at": each.claimed_at,
                "code": codes[each.id],
                "status": None,
                "message": None,
                "actor": each.lease_by,
            }
            for each in lost
        ],
    )
    ends = [
        {"id": each.id, "kind": str(each.stage), "code": codes[each.id], "message": None, "actor": "sweeper"}
        for each in lost
        if each.stage is not StoredState.READY
    ]
    tx.query_many("action_events", ends)
    settle.count_moves(tx, Counter((each.queue, "running", str(each.stage)) for each in lost))
    settle.add(tx, Counter((each.queue, settle.EXPIRED) for each in lost))
    settle.count_failures(
        tx, Counter((each.queue, codes[each.id]) for each in lost if each.stage is StoredState.FAILED)
    )
    end_children(tx, {each.id: each.stage for each in lost if each.children and each.stage is not StoredState.READY})
    return len(lost)


def _why(lost: _Lost, killed: str) -> str:
    """Why a lost job is not retried."""
    return killed if lost.convicted else NO_ATTEMPT_LEFT


@dataclass(frozen=True, slots=True)
class _Lost:
    """An attempt whose lease has ended. The fields are in the order of the columns."""

    id: int
    queue: str
    fence: int
    attempt: int
    max_attempts: int
    claimed_at: float
    lease_by: str
    crashes: int  # before this one
    crashes_alone: int
    suspect: int
    stop_asked: int
    children: int
    kind: str
    survived: int | None  # None: the loss was not recorded before
    rule: LostRule

    @property
    def crash(self) -> bool:
        """Whether it counts as a crash: the job ran alone, and its worker has not returned."""
        return bool(self.suspect) and not self.survived

    @property
    def convicted(self) -> bool:
        return self.crashes_alone + self.crash >= self.rule.max_crashes

    @property
    def exhausted(self) -> bool:
        """Whether no attempt is left.

        A job with one attempt never runs twice. Others are retried until too many workers crashed in all.
        """
        if self.attempt < self.max_attempts:
            return False
        if self.max_attempts == 1 or self.rule.counts_every_attempt:
            return True
        return not self.survived and self.crashes + 1 >= self.max_attempts + self.rule.max_crashes

    @property
    def awaited(self) -> bool:
        """Whether to wait for its worker, because only the crash would fail the job."""
        return self.survived is None and self.stage is StoredState.FAILED

    @property
    def refund(self) -> bool:
        """Whether the attempt does not count, because it would have been the last one."""
        return self.stage is StoredState.READY and self.attempt >= self.max_attempts

    @property
    def stage(self) -> StoredState:
        """The next state of the job."""
        if self.stop_asked:
            return StoredState.CANCELLED
        return StoredState.FAILED if self.convicted or self.exhausted else StoredState.READY


def survive(tx: Tx, worker: str, renewed: AbstractSet[tuple[int, int]] = frozenset()) -> None:
    """Takes back the crashes that were counted for a worker whose leases ended, but whose process is alive.

    *renewed*: the leases, by job and fence, that it has just renewed. They are not lost after all.
    """
    while rows := tx.query("survived_leases", {"worker": worker, "n": _BATCH_SIZE}):
        renewals = [{"job": job, "fence": fence} for job, fence, _, _ in rows if (job, fence) in renewed]
        tx.query_many("forget_renewed", renewals)
        lost = [row for row in rows if row[:2] not in renewed]
        tx.query_many("survive", [{"job": job, "fence": fence} for job, fence, _, _ in lost])
        counted = Counter[int]()
        newest = dict[int, tuple[int, int]]()  # a worker may have lost a job more than once
        for job, fence, alone, rescued in lost:
            if rescued:
                counted[job] += alone
                newest[job] = fence, alone
        tx.query_many(
            "uncount_crashes",
            [
                {"id": job, "crashes": counted[job], "fence": fence, "alone": alone}
                for job, (fence, alone) in newest.items()
            ],
        )


def expire(tx: Tx, code: str, message: str) -> int:
    """Fails a batch of queued jobs that have expired."""
    return fail_queued(tx, tx.query_as(QueuedJob, "too_old", {"n": _BATCH_SIZE}), code, message, "clock")


class QueuedJob(NamedTuple):
    """A job that can fail without an attempt."""

    id: int
    queue: str
    state: str
    children: int
    kind: str


def fail_queued(tx: Tx, jobs: Sequence[QueuedJob], code: str, message: str, actor: str) -> int:
    """Fails queued jobs, with events and counters. Fails their children, too."""
    if not jobs:
        return 0
    gone = tx.query_many("fail_queued", [{"id": job.id} for job in jobs], {"code": code, "message": message})
    settle.record_failures(tx, [FailedJob(id_, target, kind, code, message) for id_, target, kind in gone])
    ended = {id_ for id_, _, _ in gone}
    jobs = [job for job in jobs if job.id in ended]
    event = {"kind": "failed", "code": code, "message": message, "actor": actor}
    tx.query_many("action_events", [{"id": job.id, **event} for job in jobs])
    settle.count_moves(tx, Counter((job.queue, job.state, "failed") for job in jobs))
    settle.count_failures(tx, Counter((job.queue, code) for job in jobs))
    end_children(tx, {job.id: StoredState.FAILED for job in jobs if job.children})
    return len(ended)
