"""The producer of a worker: when it fetches, what it does with the result, and the signal that wakes it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from tidegate.errors import StoreBusy, StoreFull
from tidegate.jobs.claim import START
from tidegate.jobs.fetch import FetchRequest, FetchResult, FinishedAttempt, fetch
from tidegate.jobs.gates import ClaimGates
from tidegate.jobs.job import Claimed, OutcomeKind
from tidegate.logs import logger

if TYPE_CHECKING:
    from tidegate.jobs.worker import Worker


_log = logger("tidegate.worker")

_UNKNOWN_OUTCOME_SECONDS = 15.0  # a fetch whose commit is unknown may show its claims this much later
_ADOPT_EVERY = 1.0  # seconds between two checks for such claims


class Producer:
    """Runs the fetches of one worker. Each settles finished attempts and claims as many jobs as there is room for."""

    def __init__(self, worker: Worker, gates: ClaimGates) -> None:
        self._worker, self._in_flight, self._gates = worker, worker.in_flight, gates
        self._given_up: set[tuple[int, int]] = set()
        self._cursor = START
        self._next_due: float | None = None
        self._next_poll = -math.inf
        self._next_cancel_check = -math.inf
        self._next_adopt = -math.inf
        self._unknown_until = -math.inf
        self._said_outdated = False

    # -- when to fetch -------------------------------------------------------------------------------------------

    def news(self) -> None:
        """Makes the next fetch claim now: there may be new work."""
        self._next_poll = -math.inf

    def should_fetch(self) -> bool:
        """Whether a fetch has something to do now."""
        now = self._worker.clock.monotonic()
        if (
            self._in_flight.ended
            or self._in_flight.clearable()
            or (self._in_flight.attempts and now >= self._next_cancel_check)
        ):
            return True
        return not self._worker.stopping and self._in_flight.room() > 0 and self._due(now)

    def next_fetch_in(self) -> float:
        """Seconds until the next fetch if no signal arrives."""
        now = self._worker.clock.monotonic()
        waits = [self._worker.policy.poll_every]
        if self._in_flight.attempts:
            waits.append(self._next_cancel_check - now)
        if not self._worker.stopping and self._in_flight.room() > 0:
            waits.append(self._next_poll - now)
            if self._next_due is not None:
                waits.append(self._next_due - self._worker.heartbeat.store_now())
        return min(waits)

    def _due(self, now: float) -> bool:
        if now >= self._next_poll:
            return True
        return self._next_due is not None and self._worker.heartbeat.store_now() >= self._next_due

    def _due_at(self, moment: float) -> None:
        self._next_due = moment if self._next_due is None else min(moment, self._next_due)

    # -- one fetch -----------------------------------------------------------------------------------------------

    async def fetch_once(self) -> FetchResult | None:
        """Runs one fetch. Returns None when it failed and the outcomes were settled one by one instead."""
        ended = self._in_flight.take_ended()
        now = self._worker.clock.monotonic()
        request = self._request(len(ended), now)
        try:
            done = await self._run_fetch(ended, request)
        except BaseException as error:
            self._in_flight.ended = ended + self._in_flight.ended
            self._unknown_until = self._worker.clock.monotonic() + _UNKNOWN_OUTCOME_SECONDS
            if not ended or not isinstance(error, Exception) or isinstance(error, (StoreBusy, StoreFull)):
                raise
            await self._one_by_one()
            return None
        if request.adopt:
            self._next_adopt = now + _ADOPT_EVERY
        if request.check_cancellations:
            self._next_cancel_check = now + self._worker.policy.listen_every
        if request.promote:
            self._next_due = done.next_due
        if request.room and len(done.claimed) < request.room:
            self._next_poll = now + self._worker.policy.poll_every  # no more jobs; a signal ends the wait
        for key in request.cleared:
            if key in self._in_flight.attempts:
                self._in_flight.attempts[key].suspect = False
        self._in_flight.in_flight.wait_to_be_alone(self._in_flight, waits=done.waits_to_be_alone)
        self._say_if_outdated()
        self._after(ended, done, now)
        return done

    def _say_if_outdated(self) -> None:
        """Logs once that the schema is newer than this worker, which claims nothing from then on."""
        if self._worker.outdated and not self._said_outdated:
            self._said_outdated = True
            hint = "it claims nothing more, and settles what it has; update and restart it"
            _log.error("schema_too_new reason=%s hint=%s", self._worker.schema.too_new, hint)

    def _request(self, ended: int, now: float) -> FetchRequest:
        worker, held = self._worker, len(self._in_flight.attempts)
        room = 0 if worker.stopping else self._in_flight.room(ended)
        return FetchRequest(
            worker=worker.id,
            queues=worker.queues,
            room=room,
            slots=min(room, max(0, worker.policy.concurrency - held + ended)),
            lease=worker.policy.lease,
            cursor=self._cursor,
            promote=self._due(now) and worker.cycle is None,
            adopt=self._next_adopt <= now < self._unknown_until,
            given_up=frozenset(self._given_up),
            check_cancellations=held > 0 and now >= self._next_cancel_check,
            cycle=worker.cycle,
            alone=self._in_flight.in_flight.admits_suspect(self._in_flight, now),
            cleared=tuple(attempt.key for attempt in self._in_flight.clearable()),
        )

    async def _run_fetch(self, ended: list[FinishedAttempt], request: FetchRequest) -> FetchResult:
        now = self._worker.heartbeat.store_now()
        return await self._worker.at_store(lambda tx: fetch(tx, self._gates, ended, request, now, self._worker.schema))

    async def _one_by_one(self) -> None:
        """Settles outcomes one by one after a batch failed, so that one bad outcome does not block the others.

        The bad one is replaced by a failure.
        """
        in_flight, worker = self._in_flight, self._worker
        ended, in_flight.ended = in_flight.ended, []
        request = FetchRequest(worker=worker.id, queues=worker.queues, room=0, lease=worker.policy.lease, promote=False)
        for finished in ended:
            if not await self._alone(finished, request) and not await self._alone(
                in_flight.unwritable(finished), request
            ):
                in_flight.settled(finished)
                # Its lease expires. Adopting the job again under that lease would run it twice.
                self._given_up.add((finished.outcome.job.id, finished.outcome.job.fence))

    async def _alone(self, finished: FinishedAttempt, request: FetchRequest) -> bool:
        try:
            self._after([finished], await self._run_fetch([finished], request), self._worker.clock.monotonic())
        except (StoreBusy, StoreFull):
            self._in_flight.ended.append(finished)
        except Exception:
            _log.exception("outcome_not_written job=%s ending=%s", finished.outcome.job.id, finished.outcome.ending)
            return False
        return True

    # -- after a fetch -------------------------------------------------------------------------------------------

    def _after(self, ended: list[FinishedAttempt], done: FetchResult, sent: float) -> None:
        self._cursor = done.cursor
        now = self._worker.heartbeat.store_now()
        late = {id(outcome) for outcome in done.settled.late}
        for finished in ended:
            self._in_flight.settled(finished)
            self._count(finished, late=id(finished.outcome) in late)
            if finished.after is not None and id(finished.outcome) not in late:
                _call(finished.after, finished.outcome.job)
            if finished.outcome.wait is not None:
                self._due_at(now + finished.outcome.wait)
        if done.opens_at is not None:
            self._due_at(done.opens_at)
        self._gates.tell(done.events)
        self._worker.prober.ask(done.asks)
        for job in done.claimed:
            self._in_flight.start(job, done, sent)
        for job in done.mine:
            if (job.id, job.fence) not in self._in_flight.attempts:
                _log.warning("claim_adopted job=%s fence=%s", job.id, job.fence)
                self._in_flight.start(job, done, sent)
        if done.asked:
            asked = set(done.asked)
            for attempt in [held for held in self._in_flight.attempts.values() if held.job.id in asked]:
                attempt.request_cancel()

    def _count(self, finished: FinishedAttempt, *, late: bool) -> None:
        stats, ending = self._worker.stats, finished.outcome.ending
        if late:
            stats.lost += 1
            _log.warning("lease_lost job=%s fence=%s", finished.outcome.job.id, finished.outcome.job.fence)
            return
        name = OutcomeKind.AGAIN if ending is OutcomeKind.TRIAL else ending
        setattr(stats, name, getattr(stats, name) + 1)
        stats.held += finished.held


def _call(after: Callable[[], object], job: Claimed) -> None:
    try:
        after()
    except Exception:  # the application's callback failed; the outcome is committed, and others are left to settle
        _log.exception("after_raised kind=%s job=%s", job.kind, job.id)


class WakeSignal:
    """Wakes the loop of a worker. It distinguishes finished attempts from signals that there may be new work."""

    def __init__(self, watch: Callable[[Callable[[], None], threading.Event], None] | None = None) -> None:
        self._watch = watch  # blocks in its own thread, and calls back when another process has written
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        self._news = False
        self._asked = False  # a callback is scheduled on the loop and has not run yet

    @contextlib.asynccontextmanager
    async def listening(self, *, others: bool = True) -> AsyncIterator[None]:
        """Receives signals of this process, and of *others*, while the block runs."""
        self._asked = False
        self._loop = loop = asyncio.get_running_loop()
        stop = threading.Event()
        thread = None
        if self._watch is not None and others:
            thread = threading.Thread(
                target=self._watch, args=(self.signal_new_work, stop), name="tidegate-wake", daemon=True
            )
            thread.start()
        try:
            yield
        finally:
            stop.set()
            self._loop = None
            if thread is not None:
                await loop.run_in_executor(None, thread.join, 2)

    def signal_finished(self) -> None:
        """Signals that an attempt has finished. Call it on the loop's thread."""
        self._event.set()

    def signal_new_work(self) -> None:
        """Signals that there may be new work. Call it from any thread."""
        loop = self._loop
        if loop is None or self._asked:
            return
        self._asked = True
        with contextlib.suppress(RuntimeError):  # the loop was closed a moment ago
            loop.call_soon_threadsafe(self._heard)

    def _heard(self) -> None:
        self._asked = False
        self._news = True
        self._event.set()

    def take(self) -> bool:
        """Whether new work was signalled. Resets both signals."""
        was, self._news = self._news, False
        self._event.clear()
        return was

    async def wait(self, timeout: float | None) -> None:
        """Waits for a signal, or for *timeout* seconds."""
        if self._event.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()
