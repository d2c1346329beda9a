"""What a worker has under leases, from the claim to the outcome: begun in a slot, ended, or given back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.codes import CORE
from tidegate.core.fault import Reach
from tidegate.core.job import Claimed, StoredState
from tidegate.errors import StoreBusy, StoreFull
from tidegate.machine import lifecycle
from tidegate.runtime import job_attempts as trying
from tidegate.runtime.context import Context
from tidegate.runtime.cycle import FetchResult, FinishedAttempt
from tidegate.runtime.in_flight import Holder, InFlightAttempts, current_attempt, seconds_alone
from tidegate.runtime.job_attempts import Attempt
from tidegate.runtime.job_gates import ClaimGates
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.slots import ExecutorSlots
from tidegate.store import claims

if TYPE_CHECKING:
    from tidegate.runtime.worker import Worker

_log = logging.getLogger("tidegate.worker")

_BUFFERED = 1.0  # seconds that a job may wait for a slot here, while another worker may be free
_COMPANY_WAIT = 1.0  # seconds that a job waits which another worker of the process left no place for
_SAVE_AGAIN = 0.05  # seconds between tries to save at a store that does not answer


class InFlightJobs(Holder):
    """The attempts of one worker. Every claim comes in here, and leaves as an outcome to be settled."""

    def __init__(
        self,
        worker: Worker,
        kinds: Mapping[str, JobKind],
        gates: ClaimGates,
        store_id: str,
        in_flight: InFlightAttempts,
    ) -> None:
        super().__init__()  # its attempts are everything under a lease of ours, until it is settled
        self._worker, self._kinds, self._gates, self._store_id = worker, kinds, gates, store_id
        self.in_flight = in_flight
        self.slots = ExecutorSlots(worker.policy.concurrency, self._attempt)
        self.ended: list[FinishedAttempt] = []  # to be settled

    def start(self, job: Claimed, done: FetchResult, sent: float) -> None:
        """Begins an attempt at a job that was just claimed, or buffers it until a slot is free."""
        parents = trying.parent_results(done.parent_results.get(job.id, {}))
        context = Context(job, self._store_id, parents, self)
        context.in_cycle = self._worker.cycle is not None
        kind = self._kinds.get(job.kind)
        attempt = Attempt(job, kind, context, done.generations.get(job.id, 0), sent, self._worker.policy.lease)
        attempt.outer = self.outer
        fits = self.in_flight.start(self, attempt, self._worker.clock.monotonic())
        if self._worker.stopping:
            self._release(attempt)
        elif not fits:
            self._release(attempt, wait=_COMPANY_WAIT)
        else:
            self.slots.put(attempt)

    def clearable(self) -> list[Attempt]:
        """Suspects that have run alone for long enough."""
        now = self._worker.clock.monotonic()
        return [
            attempt for attempt in self.attempts.values()
            if attempt.suspect and not attempt.ended and now >= attempt.claimed + seconds_alone(attempt.job.deaths)
        ]  # fmt: skip

    async def _attempt(self, attempt: Attempt) -> None:
        """What a slot does with an attempt."""
        worker = self._worker
        began = worker.clock.monotonic()
        ended = self._unstarted(attempt, began)
        if ended is None and attempt.stop != "lost":
            task = attempt.task = asyncio.current_task()
            rules = self._gates.rules.get(attempt.job.target)
            current_attempt.set(attempt)
            try:
                ended = await trying.run(attempt, worker.executors, rules, worker.rng)
            except GeneratorExit:
                ended = trying.abandon(attempt, rules, worker.rng())
                if ended is not None:
                    self._end(attempt, ended)
                raise  # python closes this coroutine, too; its slot goes on
            finally:
                attempt.task = None
            if attempt.stop is not None and task is not None:
                while task.cancelling():
                    task.uncancel()  # the attempt was cancelled, not the slot
            self.slots.took(worker.clock.monotonic() - began)
        if ended is not None:
            self._end(attempt, ended)
        else:
            self.attempts.pop(attempt.key, None)
            worker.stats.lost += 1
            worker.wake.signal_finished()

    def _unstarted(self, attempt: Attempt, now: float) -> FinishedAttempt | None:
        """Why an attempt is over before it has begun."""
        job = attempt.job
        if attempt.stop == "person":
            return FinishedAttempt(lifecycle.cancelled(job, unsent=True))
        if attempt.stop == "fenced" or now + self._worker.policy.margin >= attempt.deadline:
            return FinishedAttempt(lifecycle.released(job, unsent=True))
        if job.attempt > job.most_attempts:
            return FinishedAttempt(
                lifecycle.not_started(job, attempt.lost_code, "It was cut short, and no attempt is left.")
            )
        if job.expires_at is not None and self._worker.heartbeat.store_now() >= job.expires_at:
            code = CORE["expired"]
            return FinishedAttempt(lifecycle.not_started(job, code.name, code.message))
        return None

    def _end(self, attempt: Attempt, ended: FinishedAttempt) -> None:
        attempt.ended = True
        if ended.note is not None and ended.note.fault is not None:
            self._worker.prober.on_fault(ended.note.target, ended.note.fault)
        if self._worker.cycle is not None and ended.outcome.stage is StoredState.READY:
            # In a cycle each job has one turn: what is ready again waits for the next one.
            ended = replace(ended, outcome=replace(ended.outcome, stage=StoredState.WAITING, wait=0.0))
        self.ended.append(ended)
        self._worker.wake.signal_finished()

    def _release(self, attempt: Attempt, *, wait: float | None = None) -> None:
        """Ends an attempt that has not begun; the job gets its attempt back."""
        self._end(attempt, FinishedAttempt(lifecycle.released(attempt.job, unsent=True, wait=wait)))

    def release_unstarted(self, *, all_of_it: bool = False) -> None:
        """What was claimed ahead and found no slot in time: another worker may be free."""
        limit = None if all_of_it else self._worker.clock.monotonic() - _BUFFERED
        for attempt in self.slots.unstarted(limit):
            self._release(attempt)

    def release_all(self) -> None:
        """Gives back what has not ended in time. A thread cannot be stopped: what it still does counts no more."""
        for attempt in list(self.attempts.values()):
            if not attempt.ended:
                _log.warning("handler_hangs kind=%s job=%s", attempt.job.kind, attempt.job.id)
                self._end(
                    attempt, FinishedAttempt(lifecycle.released(attempt.job, unsent=False, lost_code=attempt.lost_code))
                )

    def take_ended(self) -> list[FinishedAttempt]:
        """What is to be settled, one outcome per job: one that was lost and taken again may have ended twice."""
        taken, self.ended = _one_each(self.ended)
        return taken

    def settled(self, each: FinishedAttempt) -> None:
        self.attempts.pop((each.outcome.job.id, each.outcome.job.fence), None)

    def unwritable(self, each: FinishedAttempt) -> FinishedAttempt:
        """What is written instead of an outcome that the store refuses."""
        job = each.outcome.job
        kind = self._kinds.get(job.kind)
        fault = CORE["unexpected"].fault("settle", reach=Reach.SELF)
        policy = lifecycle.KindPolicy() if kind is None else kind.policy
        return FinishedAttempt(lifecycle.after_fault(job, fault, policy, self._worker.rng()), each.note)

    def room(self, ended: int = 0) -> int:
        """How many jobs may be claimed, once so many that have *ended* are settled."""
        if self._worker.outdated or not self.in_flight.admits_others(self):
            return 0
        ahead = self.slots.prefetch_limit if self._worker.cycle is None else 0
        return max(0, self._worker.policy.concurrency + ahead - len(self.attempts) + ended)

    async def save(self, job: Claimed, saved: str) -> bool:
        """Keeps what a handler saves; a store that is away for a moment is waited for, as long as the lease lasts."""
        while True:
            try:
                return await self._worker.at_store(lambda tx: claims.save(tx, job.id, job.fence, saved))
            except (StoreBusy, StoreFull):
                if not self._still_held(job):
                    raise
                await self._worker.clock.asleep(_SAVE_AGAIN)

    def save_now(self, job: Claimed, saved: str) -> bool:
        while True:
            try:
                return self._worker.store.write(lambda tx: claims.save(tx, job.id, job.fence, saved))
            except (StoreBusy, StoreFull):
                if not self._still_held(job):
                    raise
                self._worker.clock.sleep(_SAVE_AGAIN)

    @property
    def any_good(self) -> bool:
        """Whether a lease of ours may still be good."""
        now = self._worker.clock.monotonic()
        return any(now < attempt.deadline for attempt in self.attempts.values())

    def _still_held(self, job: Claimed) -> bool:
        attempt = self.attempts.get((job.id, job.fence))
        return attempt is not None and self._worker.clock.monotonic() + self._worker.policy.margin < attempt.deadline


def _one_each(ended: list[FinishedAttempt]) -> tuple[list[FinishedAttempt], list[FinishedAttempt]]:
    """One outcome per job, and the rest."""
    seen: set[int] = set()
    now: list[FinishedAttempt] = []
    later: list[FinishedAttempt] = []
    for each in ended:
        (later if each.outcome.job.id in seen else now).append(each)
        seen.add(each.outcome.job.id)
    return now, later
