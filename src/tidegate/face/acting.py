"""What people ask of a queue's jobs and targets, and do to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tidegate.core.job import Job, JobEvent
from tidegate.core.until import Until
from tidegate.errors import NotFound, Rejected
from tidegate.face.enqueued import Enqueued, id_of
from tidegate.face.stored_target import QueueTarget
from tidegate.ops import actions, bulk, explain, job_actions
from tidegate.ops.bulk import BulkOutcome
from tidegate.ops.listing import Filter
from tidegate.ops.whys import WaitReason
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.job_target import TargetRules
from tidegate.store import people
from tidegate.store.tx import Store, Tx

T = TypeVar("T")
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
        found = self.store.read(lambda tx: people.get(tx, id_of(job)))
        if found is None:
            raise NotFound(f"there is no job {id_of(job)}")
        return found

    def events(self, job: JobRef) -> list[JobEvent]:
        """What happened to it, oldest first."""
        return self.store.read(lambda tx: people.events(tx, id_of(job)))

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
        return self.run_in_transaction(lambda tx: people.release_unique(tx, id_of(job)), connection)

    def forbid_retry(self, job: JobRef, by: str = "", *, connection: Any = None) -> bool:
        """Keeps a final job whose input is gone from being retried: what it needs must be put in anew.

        The job stays, with its history. False when it has not ended, or is barred already.
        """
        return self.run_in_transaction(lambda tx: people.forbid_retry(tx, id_of(job), by), connection)

    def explain(self, job: JobRef) -> list[WaitReason]:
        """Why it is not running, the first reason first; empty when it runs or has ended.

        A running job whose worker has disappeared has a reason, too: it waits for the end of its lease.
        """
        return self.store.read(lambda tx: explain.job(tx, id_of(job)))

    def retry_many(self, expected: int | None = None, *, by: str = "person", **which: str) -> BulkOutcome:
        """Retries the failed jobs of a *queue*, *kind*, *target* or *code*, if they are as many as *expected*.

        Without a number it only counts them.
        """
        wanted = Filter(**which)  # type: ignore[arg-type]
        if expected is None:
            return BulkOutcome(self.store.read(lambda tx: bulk.preview(tx, "retry", wanted)).n)
        found = bulk.run(self.store, "retry", wanted, by, expected=expected)
        self.notify_workers()
        return found

    def pause(self, queue: str, until: Until, by: str = "person") -> float:
        """No job of this queue is claimed until then ("2h", a datetime, UNIX time); returns when that is."""
        return self.run_in_transaction(lambda tx: actions.pause_queue(tx, queue, until, by, self.queues()))

    def resume(self, queue: str, by: str = "person") -> bool:
        """Ends a pause; False when there was none."""
        return self.run_in_transaction(lambda tx: actions.resume_queue(tx, queue, by, self.queues()))

    def target(self, name: str) -> QueueTarget:
        """A target of jobs, for all workers at once: to pause, to clear a key of, to reset its breaker."""
        return QueueTarget(self, name, declared=name in self._targets)
