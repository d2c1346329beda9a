"""Operator actions of a queue: on jobs, queues and targets."""

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

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStatus:
    """The fill level of a target: *depth* of *cap*, and *own* sends that the depth does not include yet."""

    depth: int
    own: int
    cap: int
    at: float


class QueueTargetKey:
    """Operator actions on one key of a job target."""

    def __init__(self, target: QueueTarget, key: Hashable) -> None:
        self._target, self._key = target, lane_of(key)

    def explain(self) -> list[WaitReason]:
        """Why its jobs wait; empty when nothing holds them."""
        return self._target.ask(lambda tx: explain.target(tx, self._target.name, self._key))

    def clear(self, by: str = "person", *, noted: bool = True) -> bool:
        """Removes all state of the key, for example after new credentials, so that its jobs can run now.

        Returns False when there was none. *noted*: whether the audit log gets an entry; False as part of another
        action.
        """
        return self._target.act(lambda tx: actions.clear_key(tx, self._target.name, self._key, by, noted=noted))

    def disable(self, until: Until | None = None, by: str = "person", reason: str = "manual") -> None:
        """Stops claims of jobs with this key until *until*, or until `enable()`."""
        self._target.act(lambda tx: actions.disable_key(tx, self._target.name, self._key, by, until, reason))

    def enable(self, by: str = "person") -> bool:
        """Ends a cooldown, automatic or manual. Returns False when there was none."""
        return self._target.act(lambda tx: actions.enable_key(tx, self._target.name, self._key, by))


class QueueTarget:
    """Operator actions on a job target, for all workers. Its state is in the store.

    q.target("spotify").pause("2h", by="ada")
    q.target("spotify").key(7).clear()
    """

    def __init__(self, queue: QueueAdmin, name: str, *, declared: bool) -> None:
        self._queue, self.name, self._declared = queue, name, declared

    def key(self, key: Hashable) -> QueueTargetKey:
        """One key of the target."""
        return QueueTargetKey(self, key)

    def explain(self) -> list[WaitReason]:
        """Why all of its jobs wait, or those without a key; empty when nothing holds them."""
        return self.ask(lambda tx: explain.target(tx, self.name, ""))

    def fullness(self) -> CapacityStatus | None:
        """The last observed depth and the sends since; None when the depth was never read."""

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
        """Stops claims of its jobs until *until*. Returns that time, UNIX time."""
        return self.act(lambda tx: actions.pause_target(tx, self.name, until, by))

    def resume(self, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        return self.act(lambda tx: actions.resume_target(tx, self.name, by))

    def force(self, state: str, until: Until | None = None, by: str = "person") -> str:
        """Opens its breaker until a time, or closes it now. Returns the previous state."""
        return self.act(lambda tx: actions.force_breaker(tx, self.name, state, by, until))

    def reset(self, by: str = "person") -> str:
        """Closes its breaker and resets its counts. Returns the previous state."""
        return self.act(lambda tx: actions.reset_breaker(tx, self.name, by))

    def events(self, limit: int = 100) -> list[TargetEvent]:
        """Its events, newest first."""
        return self.ask(lambda tx: table.events(tx, "target", self.name, limit))

    def ask(self, work: Callable[[Tx], T]) -> T:
        self._known()
        return self._queue.store.read(work)

    def act(self, work: Callable[[Tx], T]) -> T:
        self._known()
        return self._queue.run_in_transaction(work)

    def _known(self) -> None:
        """Creates the row of a declared target that no worker has used yet."""
        name, store = self.name, self._queue.store
        if self._declared and store.read(lambda tx: table.target(tx, name)) is None:
            store.write(lambda tx: tx.query("target_new", {"name": name}))


JobRef = Enqueued[Any] | int


class QueueAdmin(ABC):
    """The part of a queue that reads jobs and acts on jobs and targets."""

    _kinds: Mapping[str, JobKind]
    _targets: Mapping[str, TargetRules]

    @property
    @abstractmethod
    def store(self) -> Store:
        """The database."""

    @abstractmethod
    def run_in_transaction(self, work: Callable[[Tx], T], connection: Any = None) -> T:
        """Runs *work* in a transaction and wakes the workers."""

    @abstractmethod
    def notify_workers(self) -> None:
        """Wakes the workers: there may be new jobs."""

    @abstractmethod
    def queues(self) -> frozenset[str]:
        """The queues of declared jobs."""

    def get(self, job: JobRef) -> Job:
        """The current job, with decoded values. Raises NotFound."""
        return self.row(job).read()

    def row(self, job: JobRef) -> Job:
        """As `get`, with its values as stored JSON."""
        found = self.store.read(lambda tx: job_actions.get(tx, id_of(job)))
        if found is None:
            raise NotFound(f"there is no job {id_of(job)}")
        return found

    def events(self, job: JobRef) -> list[JobEvent]:
        """The history of a job, oldest first."""
        return self.store.read(lambda tx: job_actions.events(tx, id_of(job)))

    def retry(self, job: JobRef, by: str = "person") -> bool:
        """Queues a failed job again: attempts restart, the history stays.

        Returns False when it has not failed, or must not be retried.
        """
        return self.run_in_transaction(lambda tx: job_actions.try_retry(tx, id_of(job), by))

    def cancel(self, job: JobRef, by: str = "person") -> str | None:
        """Cancels a job. Returns 'cancelled', 'asked' when it runs and its handler must stop first, or None if ended.

        Raises Rejected when jobs of its kind cannot be cancelled.
        """
        found = self.row(job)
        done = self.run_in_transaction(lambda tx: job_actions.try_cancel(tx, found.id, by))
        if done is None and not found.state.final and not found.cancellable:
            raise Rejected(job_actions.why_not_cancelled(found))
        return done

    def forget(self, job: JobRef, by: str = "person", *, connection: Any = None) -> bool:
        """Removes a final job with its history, and releases its unique key.

        Returns False when it has not ended, or when it is done and one of its children has not ended.
        """

        def work(tx: Tx) -> bool:
            try:
                job_actions.forget(tx, id_of(job), by)
            except (NotFound, Rejected):
                return False
            return True

        return self.run_in_transaction(work, connection)

    def release_unique(self, job: JobRef, *, connection: Any = None) -> bool:
        """Releases the unique key of a final job, for example when its result was deleted and must be made again.

        The job and its history stay. Returns False when it has not ended, or holds no unique key.
        """
        return self.run_in_transaction(lambda tx: job_actions.release_unique(tx, id_of(job)), connection)

    def forbid_retry(self, job: JobRef, by: str = "", *, connection: Any = None) -> bool:
        """Forbids retries of a final job, for example when its input was deleted.

        The job and its history stay. Returns False when it has not ended, or retries are already forbidden.
        """
        return self.run_in_transaction(lambda tx: job_actions.forbid_retry(tx, id_of(job), by), connection)

    def explain(self, job: JobRef) -> list[WaitReason]:
        """Why a job is not running, the most important reason first; empty when it runs or has ended.

        A running job whose worker has disappeared has a reason, too: it waits until its lease ends.
        """
        return self.store.read(lambda tx: job_explain.job(tx, id_of(job)))

    def retry_many(self, expected: int | None = None, *, by: str = "person", **which: str) -> BulkOutcome:
        """Retries the failed jobs of a *queue*, *kind*, *target* or *code*, if their count equals *expected*.

        Without *expected* it only counts them.
        """
        wanted = Filter(**which)  # type: ignore[arg-type]
        if expected is None:
            return BulkOutcome(self.store.read(lambda tx: service.preview(tx, "retry", wanted)).n)
        found = service.run(self.store, "retry", wanted, by, expected=expected)
        self.notify_workers()
        return found

    def pause(self, queue: str, until: Until, by: str = "person") -> float:
        """Stops claims from *queue* until *until* ("2h", a datetime, UNIX time). Returns that time, UNIX time."""
        return self.run_in_transaction(lambda tx: job_actions.pause_queue(tx, queue, until, by, self.queues()))

    def resume(self, queue: str, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        return self.run_in_transaction(lambda tx: job_actions.resume_queue(tx, queue, by, self.queues()))

    def target(self, name: str) -> QueueTarget:
        """Operator actions on a target of this queue's jobs; see `QueueTarget`."""
        return QueueTarget(self, name, declared=name in self._targets)
