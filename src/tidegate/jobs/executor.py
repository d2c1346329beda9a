"""Executes claimed jobs in slots, from the claim to the outcome."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.errors import StoreBusy, StoreFull
from tidegate.faults.codes import CORE
from tidegate.faults.fault import Reach
from tidegate.jobs import attempt as trying
from tidegate.jobs import claim, outcome
from tidegate.jobs.attempt import Attempt, is_current
from tidegate.jobs.context import Context
from tidegate.jobs.fetch import FetchResult, FinishedAttempt
from tidegate.jobs.function import JobKind
from tidegate.jobs.gates import ClaimGates
from tidegate.jobs.in_flight import Holder, InFlightAttempts, current_attempt, seconds_alone
from tidegate.jobs.job import Claimed, StoredState
from tidegate.jobs.key_gates import NO_BREAKER
from tidegate.jobs.tasks import OwnedTask, absorb_cancellation

if TYPE_CHECKING:
    from tidegate.jobs.worker import Worker


# -- slots -----------------------------------------------------------------------------------------------------------
# A slot is one task that runs many attempts, because a task per job costs more. Prefetched jobs wait in a buffer.

_SHORT_JOB_SECONDS = 0.075  # only jobs shorter than this are worth prefetching
_SHORT_JOBS_NEEDED = 8  # consecutive short jobs before the worker prefetches


class ExecutorSlots:
    """Runs up to *limit* attempts at the same time."""

    def __init__(self, limit: int, run: Callable[[Attempt], Awaitable[None]]) -> None:
        self._limit, self._run = limit, run
        self._buffer: deque[Attempt] = deque()
        self._idle: deque[asyncio.Future[Attempt]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._quick = 0
        self._closed = False
        self._failure: asyncio.Future[None] | None = None

    @property
    def prefetch_limit(self) -> int:
        """How many jobs to claim beyond those that can run. None if they would wait for slow jobs."""
        return self._limit if self._quick >= _SHORT_JOBS_NEEDED else 0

    @property
    def fed(self) -> bool:
        """Whether a job is buffered for the next free slot."""
        return bool(self._buffer)

    def took(self, seconds: float) -> None:
        """Records the duration of an attempt."""
        self._quick = self._quick + 1 if seconds < _SHORT_JOB_SECONDS else 0

    def put(self, attempt: Attempt) -> None:
        while self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(attempt)
                return
        self._buffer.append(attempt)
        if len(self._tasks) < self._limit:
            task = asyncio.create_task(self._slot())
            self._tasks.add(task)
            task.add_done_callback(self._gone)

    def unstarted(self, claimed_before: float | None = None) -> list[Attempt]:
        """Removes and returns buffered attempts, or only those claimed before a time. Stops prefetching."""
        attempts = [attempt for attempt in self._buffer if claimed_before is None or attempt.claimed < claimed_before]
        for attempt in attempts:
            self._buffer.remove(attempt)
            self._quick = 0
        return attempts

    async def broken(self) -> None:
        """Waits for ever, and raises when a slot fails. Its job would otherwise stay under a lease that is renewed."""
        self._failure = asyncio.get_running_loop().create_future()
        await self._failure

    async def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        # A handler that suppresses its cancellation must not prevent the worker's end.
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=0.1)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _slot(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        while not self._closed:
            if self._buffer:
                attempt = self._buffer.popleft()
            else:
                waiting: asyncio.Future[Attempt] = loop.create_future()
                self._idle.append(waiting)
                attempt = await waiting
            try:
                await self._run(attempt)
            except GeneratorExit:
                if not is_current(task):
                    raise
            if not self._closed:
                await absorb_cancellation()  # the attempt was cancelled, not the slot


# -- jobs in flight --------------------------------------------------------------------------------------------------

_log = logging.getLogger("tidegate.worker")

_BUFFERED = 1.0  # seconds that a job may wait for a slot before another worker may have it
_COMPANY_WAIT = 1.0  # seconds that a job is delayed because of a suspect in the same process
_EXPIRED_WAIT = 1.0  # seconds before a job that seems to have expired since its claim may be claimed again
_SAVE_AGAIN = 0.05  # seconds between tries to save while the store does not respond


class InFlightJobs(Holder):
    """The attempts of one worker. Every claim enters here and leaves as an outcome to settle."""

    def __init__(
        self,
        worker: Worker,
        kinds: Mapping[str, JobKind],
        gates: ClaimGates,
        store_id: str,
        in_flight: InFlightAttempts,
    ) -> None:
        super().__init__()
        self._worker, self._kinds, self._gates, self._store_id = worker, kinds, gates, store_id
        self.in_flight = in_flight
        self.slots = ExecutorSlots(worker.policy.concurrency, self._attempt)
        self.ended: list[FinishedAttempt] = []  # to be settled

    def start(self, job: Claimed, done: FetchResult, sent: float) -> None:
        """Starts an attempt of a claimed job, or buffers it until a slot is free."""
        parents = trying.parent_results(done.parent_results.get(job.id, {}))
        context = Context(job, self._store_id, parents, self)
        context.in_cycle = self._worker.cycle is not None
        kind = self._kinds.get(job.kind)
        attempt = Attempt(job, kind, context, done.admissions.get(job.id, NO_BREAKER), sent, self._worker.policy.lease)
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
            attempt
            for attempt in self.attempts.values()
            if attempt.suspect and not attempt.ended and now >= attempt.claimed + seconds_alone(attempt.job.deaths)
        ]

    async def _attempt(self, attempt: Attempt) -> None:
        """Runs one attempt in a slot."""
        worker = self._worker
        began = worker.clock.monotonic()
        ended = self._unstarted(attempt, began)
        if ended is None and attempt.stop != "lost":
            task = attempt.task = asyncio.current_task()
            if isinstance(task, OwnedTask):
                task.attempt, task.owner_cancelled = attempt, False
            rules = self._gates.rules.get(attempt.job.target)
            current_attempt.set(attempt)
            try:
                ended = await trying.run(attempt, worker.executors, rules, worker.rng)
            except GeneratorExit:
                ended = trying.abandon(attempt, rules, worker.rng())
                if ended is not None:
                    self._end(attempt, ended)
                raise  # Python closes this coroutine, too; the slot continues
            finally:
                attempt.task = None
            self.slots.took(worker.clock.monotonic() - began)
        if ended is not None:
            self._end(attempt, ended)
        else:
            self.attempts.pop(attempt.key, None)
            worker.stats.lost += 1
            worker.wake.signal_finished()

    def _unstarted(self, attempt: Attempt, now: float) -> FinishedAttempt | None:
        """The outcome of an attempt that must not start; None if it may."""
        job = attempt.job
        if attempt.stop == "person":
            return FinishedAttempt(outcome.cancelled(job, unsent=True))
        if attempt.stop == "fenced" or now + self._worker.policy.margin >= attempt.deadline:
            return FinishedAttempt(outcome.released(job, unsent=True))
        if job.expires_at is not None and self._worker.heartbeat.store_now() >= job.expires_at:
            # Maintenance fails it, once the time is certain. A step of the clock may have moved its expiry since.
            return FinishedAttempt(outcome.released(job, unsent=True, wait=_EXPIRED_WAIT))
        return None

    def _end(self, attempt: Attempt, ended: FinishedAttempt) -> None:
        attempt.ended = True
        if ended.note is not None and ended.note.fault is not None:
            self._worker.prober.on_fault(ended.note.target, ended.note.fault)
        if self._worker.cycle is not None and ended.outcome.stage is StoredState.READY:
            # A drain runs each job once. A job that is ready again waits for the next drain.
            ended = replace(ended, outcome=replace(ended.outcome, stage=StoredState.WAITING, wait=0.0))
        self.ended.append(ended)
        self._worker.wake.signal_finished()

    def _release(self, attempt: Attempt, *, wait: float | None = None) -> None:
        """Ends an attempt that has not started. It does not count."""
        self._end(attempt, FinishedAttempt(outcome.released(attempt.job, unsent=True, wait=wait)))

    def release_unstarted(self, *, all_of_it: bool = False) -> None:
        """Releases prefetched jobs that got no slot in time, because another worker may be free."""
        limit = None if all_of_it else self._worker.clock.monotonic() - _BUFFERED
        for attempt in self.slots.unstarted(limit):
            self._release(attempt)

    def release_all(self) -> None:
        """Releases the jobs whose handlers did not end in time. A thread cannot be stopped, but its result is late."""
        for attempt in list(self.attempts.values()):
            if not attempt.ended:
                _log.warning("handler_hangs kind=%s job=%s", attempt.job.kind, attempt.job.id)
                self._end(
                    attempt, FinishedAttempt(outcome.released(attempt.job, unsent=False, lost_code=attempt.lost_code))
                )

    def take_ended(self) -> list[FinishedAttempt]:
        """The outcomes to settle, one per job. A job that was lost and claimed again may have two; one waits."""
        taken, self.ended = _one_each(self.ended)
        return taken

    def settled(self, finished: FinishedAttempt) -> None:
        self.attempts.pop((finished.outcome.job.id, finished.outcome.job.fence), None)

    def unwritable(self, finished: FinishedAttempt) -> FinishedAttempt:
        """The outcome to write instead of one that the store rejects."""
        job = finished.outcome.job
        kind = self._kinds.get(job.kind)
        fault = CORE["unexpected"].fault("settle", reach=Reach.SELF)
        policy = outcome.KindPolicy() if kind is None else kind.policy
        return FinishedAttempt(outcome.after_fault(job, fault, policy, self._worker.rng()), finished.note)

    def room(self, ended: int = 0) -> int:
        """How many jobs may be claimed after the *ended* ones are settled."""
        if self._worker.outdated or not self.in_flight.admits_others(self):
            return 0
        ahead = self.slots.prefetch_limit if self._worker.cycle is None else 0
        return max(0, self._worker.policy.concurrency + ahead - len(self.attempts) + ended)

    async def save(self, job: Claimed, saved: str) -> bool:
        """Saves values of a handler. Retries while the store is unavailable and the lease lasts."""
        while True:
            try:
                return await self._worker.at_store(lambda tx: claim.save(tx, job.id, job.fence, saved))
            except (StoreBusy, StoreFull):
                if not self._still_held(job):
                    raise
                await self._worker.clock.asleep(_SAVE_AGAIN)

    def save_now(self, job: Claimed, saved: str) -> bool:
        while True:
            try:
                return self._worker.store.write(lambda tx: claim.save(tx, job.id, job.fence, saved))
            except (StoreBusy, StoreFull):
                if not self._still_held(job):
                    raise
                self._worker.clock.sleep(_SAVE_AGAIN)

    @property
    def any_good(self) -> bool:
        """Whether this worker may still hold a lease."""
        now = self._worker.clock.monotonic()
        return any(now < attempt.deadline for attempt in self.attempts.values())

    def _still_held(self, job: Claimed) -> bool:
        attempt = self.attempts.get((job.id, job.fence))
        return attempt is not None and self._worker.clock.monotonic() + self._worker.policy.margin < attempt.deadline


def _one_each(ended: list[FinishedAttempt]) -> tuple[list[FinishedAttempt], list[FinishedAttempt]]:
    """Splits outcomes into one per job and the rest."""
    seen: set[int] = set()
    now: list[FinishedAttempt] = []
    later: list[FinishedAttempt] = []
    for finished in ended:
        (later if finished.outcome.job.id in seen else now).append(finished)
        seen.add(finished.outcome.job.id)
    return now, later
