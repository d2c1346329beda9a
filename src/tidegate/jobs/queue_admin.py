"""The operator's part of a queue: actions on jobs and on targets."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tidegate.durations import Until
from tidegate.errors import NotFound, Rejected
from tidegate.guard.capacity import CapacityLimits, FillLevel, own_sends
from tidegate.guard.policy import TargetRules
from tidegate.jobs import actions as job_actions
from tidegate.jobs import explain as job_explain
from tidegate.jobs.bulk import service
from tidegate.jobs.bulk.service import BulkOutcome
from tidegate.jobs.function import Enqueued, JobKind, id_of, lane_of
from tidegate.jobs.job import Job, JobEvent
from tidegate.jobs.listing import Filter
from tidegate.store.base import Store, Tx, now_of
from tidegate.targets import actions, explain, table
from tidegate.targets.explain import WaitReason
from tidegate.targets.table import TargetEvent

# A target whose state is in the store: what people ask of it and do to it, for all workers at once.

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStatus:
    """What a target with a capacity said of itself: *depth* of *cap*, and *own* sends that do not show there yet."""

    depth: int
    own: int
    cap: int
    at: float


class QueueTargetKey:
    """One key of a target of jobs."""

    def __init__(self, target: QueueTarget, key: Hashable) -> None:
        self._target, self._key = target, lane_of(key)

    def explain(self) -> list[WaitReason]:
        """What stands before its jobs; empty when nothing does."""
        return self._target.ask(lambda tx: explain.target(tx, self._target.name, self._key))

    def clear(self, by: str = "person", *, noted: bool = True) -> bool:
        """Forgets all state of the key, as after new credentials: its jobs go at once. False when there was none.

        *noted*: whether it is an action of its own on the page Activity, and not a part of one.
        """
        return self._target.act(lambda tx: actions.clear_key(tx, self._target.name, self._key, by, noted=noted))

    def disable(self, until: Until | None = None, by: str = "person", reason: str = "manual") -> None:
        """No job of this key until then, or until `enable()`."""
        self._target.act(lambda tx: actions.disable_key(tx, self._target.name, self._key, by, until, reason))

    def enable(self, by: str = "person") -> bool:
        """Ends a rest, whoever ordered it; False when there was none."""
        return self._target.act(lambda tx: actions.enable_key(tx, self._target.name, self._key, by))


class QueueTarget:
    """A target of jobs, by name.

    q.target("spotify").pause("2h", by="ada")
    q.target("spotify").key(7).clear()
    """

    def __init__(self, queue: QueueAdmin, name: str, *, declared: bool) -> None:
        self._queue, self.name, self._declared = queue, name, declared

    def key(self, key: Hashable) -> QueueTargetKey:
        """The part of it that the jobs with this key belong to."""
        return QueueTargetKey(self, key)

    def explain(self) -> list[WaitReason]:
        """What stands before all of its jobs, and those without a key; empty when nothing does."""
        return self.ask(lambda tx: explain.target(tx, self.name, ""))

    def fullness(self) -> CapacityStatus | None:
        """How full it was when it was last asked, and what was sent since; None when it was never asked."""

        def read(tx: Tx) -> CapacityStatus | None:
            row = table.target(tx, self.name)
            known = FillLevel.load(None if row is None else row.capacity)
            limits = None if row is None or not row.rules else json.loads(row.rules).get("capacity")
            if known.depth is None or limits is None:
                return None
            own = own_sends(known, CapacityLimits(**limits), now_of(tx))
            return CapacityStatus(depth=known.depth, own=len(own), cap=int(limits["cap"]), at=known.at)

        return self.ask(read)

    def pause(self, until: Until, by: str = "person") -> float:
        """No job of it is claimed until then; returns when that is."""
        return self.act(lambda tx: actions.pause_target(tx, self.name, until, by))

    def resume(self, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        return self.act(lambda tx: actions.resume_target(tx, self.name, by))

    def force(self, state: str, until: Until | None = None, by: str = "person") -> str:
        """Opens its breaker until a time, or closes it now; returns the state that it had."""
        return self.act(lambda tx: actions.force_breaker(tx, self.name, state, by, until))

    def reset(self, by: str = "person") -> str:
        """Closes its breaker and forgets its counts; returns the state that it had."""
        return self.act(lambda tx: actions.reset_breaker(tx, self.name, by))

    def events(self, limit: int = 100) -> list[TargetEvent]:
        """What happened to it, the newest first."""
        return self.ask(lambda tx: table.events(tx, "target", self.name, limit))

    def ask(self, work: Callable[[Tx], T]) -> T:
        self._known()
        return self._queue.store.read(work)

    def act(self, work: Callable[[Tx], T]) -> T:
        self._known()
        return self._queue.run_in_transaction(work)

    def _known(self) -> None:
        """One that is declared here exists, even if no worker has been there yet."""
        name, store = self.name, self._queue.store
        if self._declared and store.read(lambda tx: table.target(tx, name)) is None:
            store.write(lambda tx: tx.query("target_new", {"name": name}))


# What people ask of a queue's jobs and targets, and do to them.

JobRef = Enqueued[Any] | int


class QueueAdmin(ABC):
    """The half of a queue that is not about putting in and working."""

    _kinds: Mapping[str, JobKind]
    _targets: Mapping[str, TargetRules]

    @property
    @abstractmethod
    def store(self) -> Store:
        """The database."""

    @abstractmethod
    def run_in_transaction(self, work: Callable[[Tx], T], connection: Any = None) -> T:
        """Runs *work* in a transaction; wakes the workers."""

    @abstractmethod
    def notify_workers(self) -> None:
        """There may be something new to do."""

    @abstractmethod
    def queues(self) -> frozenset[str]:
        """The names of the queues that jobs are declared for."""

    def get(self, job: JobRef) -> Job:
        """The job as it stands; NotFound when there is none."""
        return self.row(job).read()

    def row(self, job: JobRef) -> Job:
        """As `get`, with its JSON as it is kept."""
        found = self.store.read(lambda tx: job_actions.get(tx, id_of(job)))
        if found is None:
            raise NotFound(f"there is no job {id_of(job)}")
        return found

    def events(self, job: JobRef) -> list[JobEvent]:
        """What happened to it, oldest first."""
        return self.store.read(lambda tx: job_actions.events(tx, id_of(job)))

    def retry(self, job: JobRef, by: str = "person") -> bool:
        """Queues a failed job again: attempts restart, history stays. False when it has not failed, or is barred."""
        return self.run_in_transaction(lambda tx: job_actions.try_retry(tx, id_of(job), by))

    def cancel(self, job: JobRef, by: str = "person") -> str | None:
        """'cancelled', or 'asked' when it runs and its handler was told, or None when it has ended.

        Refused when jobs of its kind cannot be cancelled.
        """
        found = self.row(job)
        done = self.run_in_transaction(lambda tx: job_actions.try_cancel(tx, found.id, by))
        if done is None and not found.state.final and not found.cancellable:
            raise Rejected(job_actions.why_not_cancelled(found))
        return done

    def forget(self, job: JobRef, by: str = "person", *, connection: Any = None) -> bool:
        """Removes a final job with its history, and frees its unique.

        False when it has not ended, or when it is done and a job that depends on it has not ended.
        """

        def work(tx: Tx) -> bool:
            try:
                job_actions.forget(tx, id_of(job), by)
            except (NotFound, Rejected):
                return False
            return True

        return self.run_in_transaction(work, connection)

    def release_unique(self, job: JobRef, *, connection: Any = None) -> bool:
        """Frees the unique of a final job whose result is gone, so that the same may be put in again.

        The job stays, with its history. False when it has not ended, or holds none.
        """
        return self.run_in_transaction(lambda tx: job_actions.release_unique(tx, id_of(job)), connection)

    def forbid_retry(self, job: JobRef, by: str = "", *, connection: Any = None) -> bool:
        """Keeps a final job whose input is gone from being retried: what it needs must be put in anew.

        The job stays, with its history. False when it has not ended, or is barred already.
        """
        return self.run_in_transaction(lambda tx: job_actions.forbid_retry(tx, id_of(job), by), connection)

    def explain(self, job: JobRef) -> list[WaitReason]:
        """Why it is not running, the first reason first; empty when it runs or has ended.

        A running job whose worker has disappeared has a reason, too: it waits for the end of its lease.
        """
        return self.store.read(lambda tx: job_explain.job(tx, id_of(job)))

    def retry_many(self, expected: int | None = None, *, by: str = "person", **which: str) -> BulkOutcome:
        """Retries the failed jobs of a *queue*, *kind*, *target* or *code*, if they are as many as *expected*.

        Without a number it only counts them.
        """
        wanted = Filter(**which)  # type: ignore[arg-type]
        if expected is None:
            return BulkOutcome(self.store.read(lambda tx: service.preview(tx, "retry", wanted)).n)
        found = service.run(self.store, "retry", wanted, by, expected=expected)
        self.notify_workers()
        return found

    def pause(self, queue: str, until: Until, by: str = "person") -> float:
        """No job of this queue is claimed until then ("2h", a datetime, UNIX time); returns when that is."""
        return self.run_in_transaction(lambda tx: job_actions.pause_queue(tx, queue, until, by, self.queues()))

    def resume(self, queue: str, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        return self.run_in_transaction(lambda tx: job_actions.resume_queue(tx, queue, by, self.queues()))

    def target(self, name: str) -> QueueTarget:
        """A target of jobs, for all workers at once: to pause, to clear a key of, to reset its breaker."""
        return QueueTarget(self, name, declared=name in self._targets)
