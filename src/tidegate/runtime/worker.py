"""A worker: claims what may go, runs it, settles it, keeps its leases, and stops gently."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tidegate.core.job import Claimed, Stage
from tidegate.errors import StoreError
from tidegate.machine import lifecycle
from tidegate.runtime import attempts
from tidegate.runtime.attempts import Attempt
from tidegate.runtime.clock import Clock
from tidegate.runtime.context import Context
from tidegate.runtime.cycle import Ended, Turn, Wish, turn
from tidegate.runtime.job_gates import JobGates
from tidegate.runtime.job_kinds import JobKind
from tidegate.runtime.keeper import Keeper
from tidegate.runtime.sweeper import Sweeper
from tidegate.runtime.threads import Threads
from tidegate.runtime.wake import Wake
from tidegate.store import claims
from tidegate.store.claims import START
from tidegate.store.tx import Store, Tx

T = TypeVar("T")
_log = logging.getLogger("tidegate.worker")

_QUICK = 0.05  # seconds: jobs shorter than this are worth claiming ahead
_PATIENCE = (0.05, 5.0)  # seconds between tries at a store that does not answer, first and longest


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPolicy:
    """The numbers of a worker."""

    concurrency: int = 20
    lease: float = 30.0
    renew_every: float = 10.0
    margin: float = 5.0  # stops touching the outside so long before the lease ends
    poll_every: float = 1.0  # looks even if nobody woke it
    sweep_every: float = 5.0
    grace: float = 20.0  # how long running handlers may finish after a stop
    retention: Mapping[str, Mapping[Stage, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Tally:
    """What a worker has done."""

    done: int = 0
    again: int = 0
    failed: int = 0
    given_back: int = 0
    lost: int = 0


class Worker:
    """Runs jobs until it is told to stop. One per event loop; any number on any number of hosts."""

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, JobKind],
        gates: JobGates,
        *,
        clock: Clock,
        threads: Threads,
        wake: Wake,
        policy: WorkerPolicy,
        queues: frozenset[str],
        store_id: str,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.id = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.policy = policy
        self.tally = Tally()
        self._store, self._kinds, self._gates = store, kinds, gates
        self._clock, self._threads, self._wake, self._dice = clock, threads, wake, dice
        self._queues, self._store_id = queues, store_id
        self._attempts: dict[int, Attempt] = {}  # everything under a lease of ours, until it is settled
        self._ended: list[Ended] = []
        self._buffer: deque[Attempt] = deque()
        self._idle: deque[asyncio.Future[Attempt]] = deque()
        self._slots: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._cursor = START
        self._next_due: float | None = None
        self._next_look = 0.0
        self._quick = True
        self._stopping = False
        self._draining = False
        self.keeper = Keeper(self)
        self.sweeper = Sweeper(self)

    # -- running -------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Until *stop* is set; then finishes or gives back what it holds."""
        await self._at_store(lambda: self._store.read(lambda tx: None))
        with self._wake.listening(asyncio.get_running_loop()):
            beside = [asyncio.create_task(each) for each in (self.keeper.run(), self.sweeper.run())]
            pump = asyncio.create_task(self._pump(stop))
            try:
                await pump
            finally:
                for task in (*beside, *self._slots):
                    task.cancel()
                await asyncio.gather(*beside, *self._slots, return_exceptions=True)
                await self.keeper.goodbye()

    async def drain(self) -> Tally:
        """One cycle: everything that may go now, and what that frees; then it returns."""
        self._draining = True
        keeper = asyncio.create_task(self.keeper.run())
        try:
            while True:
                done = await self._turn(promote=True)
                if not done.claimed and not self._attempts and not done.failed_fast:
                    return self.tally
                if not self._ended and self._attempts:
                    await self._wake.wait(None)
                self._wake.take()
        finally:
            for task in (keeper, *self._slots):
                task.cancel()
            await asyncio.gather(keeper, *self._slots, return_exceptions=True)
            await self.keeper.goodbye()

    async def _pump(self, stop: asyncio.Event) -> None:
        stopper = asyncio.create_task(stop.wait())
        stopper.add_done_callback(lambda _: self._wake.set())
        patience = _PATIENCE[0]
        deadline = None
        while True:
            if stop.is_set() and deadline is None:
                deadline = self._clock.monotonic() + self.policy.grace
                self._begin_stop()
            if deadline is not None and self._clock.monotonic() >= deadline:
                self._cut_short()
            if self._stopping and not self._attempts:
                stopper.cancel()
                return
            if self._wake.take():
                self._next_look = -math.inf
            if not self._wanted():
                await self._wake.wait(self._patience(deadline))
                continue
            try:
                await self._turn(promote=self._due())
                patience = _PATIENCE[0]
            except StoreError as error:
                _log.warning("store_unavailable error=%s", type(error).__name__)
                await self._clock.asleep(patience)
                patience = min(patience * 2, _PATIENCE[1])

    async def _turn(self, *, promote: bool) -> Turn:
        ended, self._ended = self._ended, []
        room = 0 if self._stopping else self._room()
        wish = Wish(
            worker=self.id,
            queues=self._queues,
            room=room,
            lease=self.policy.lease,
            cursor=self._cursor,
            promote=promote,
        )
        sent = self._clock.monotonic()
        now = self.keeper.store_now()
        try:
            done = await self._at_store(lambda: self._store.write(lambda tx: turn(tx, self._gates, ended, wish, now)))
        except BaseException:
            self._ended = ended + self._ended
            self.keeper.look_for_unheard()
            raise
        self._after(ended, done, sent)
        if promote:
            self._next_due = done.next_due
        if room and len(done.claimed) < room:
            self._next_look = sent + self.policy.poll_every  # nothing more for now; a wake-up ends the wait
        return done

    def _after(self, ended: list[Ended], done: Turn, sent: float) -> None:
        self._cursor = done.cursor
        for each in ended:
            self._attempts.pop(each.outcome.job.id, None)
            self._count(each, late=each.outcome.job.id not in done.settled.counted)
        for move in done.moved:
            _log.info("breaker_state_changed name=%s from=%s to=%s", move.target, move.old, move.new)
        for job in done.claimed:
            self.start(job, done.generations[job.id], sent, done.parent_results.get(job.id, {}))

    def start(self, job: Claimed, generation: int, sent: float, parents: dict[int, str | None]) -> None:
        """Begins an attempt at a job that was just claimed, or buffers it until a slot is free."""
        context = Context(job, self._store_id, attempts.parent_results(parents), self._save)
        attempt = Attempt(job, self._kinds.get(job.kind), context, generation, sent + self.policy.lease)
        self._attempts[job.id] = attempt
        while self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(attempt)
                return
        self._buffer.append(attempt)
        if len(self._slots) < self.policy.concurrency:
            slot = asyncio.create_task(self._slot())
            self._slots.add(slot)
            slot.add_done_callback(self._slots.discard)

    async def _slot(self) -> None:
        """Runs one attempt after the other; no task is made per job."""
        loop = asyncio.get_running_loop()
        while True:
            if self._buffer:
                attempt = self._buffer.popleft()
            else:
                waiting = loop.create_future()
                self._idle.append(waiting)
                attempt = await waiting
            await self._attempt(attempt)

    async def _attempt(self, attempt: Attempt) -> None:
        if attempt.stop == "lost":
            self._attempts.pop(attempt.job.id, None)
            return
        task = attempt.task = asyncio.current_task()
        attempt.started = True
        self._busy += 1
        began = self._clock.monotonic()
        rules = self._gates.rules.get(attempt.job.target)
        try:
            ended = await attempts.run(attempt, self._threads, None if rules is None else rules.pack, self._dice)
            if attempt.stop is not None and task is not None:
                while task.cancelling():
                    task.uncancel()  # the attempt was cancelled, not the slot
        finally:
            self._busy -= 1
            attempt.task = None
        self._quick = self._clock.monotonic() - began < _QUICK
        if ended is None:
            self._attempts.pop(attempt.job.id, None)
            self.tally.lost += 1
        else:
            self._ended.append(ended)
        self._wake.set()

    # -- stopping ------------------------------------------------------------------------------------------------

    def _begin_stop(self) -> None:
        """Claims no more; gives back what has not begun, with its attempt."""
        self._stopping = True
        while self._buffer:
            attempt = self._buffer.popleft()
            self._ended.append(Ended(lifecycle.given_back(attempt.job, unsent=True)))
        self._wake.set()

    def _cut_short(self) -> None:
        for attempt in self._attempts.values():
            if attempt.stop is None:
                attempt.tell("shutdown")
                if attempt.kind is not None and attempt.kind.colour != "async":
                    # A thread cannot be stopped: its lease goes back now, and what it still does counts no more.
                    self._ended.append(Ended(lifecycle.given_back(attempt.job, unsent=False)))

    # -- when to look --------------------------------------------------------------------------------------------

    def _room(self) -> int:
        ahead = self.policy.concurrency if self._quick and not self._draining else 0
        return max(0, self.policy.concurrency + ahead - len(self._attempts) + len(self._ended))

    def _due(self) -> bool:
        now = self._clock.monotonic()
        return now >= self._next_look or (self._next_due is not None and self.keeper.store_now() >= self._next_due)

    def _wanted(self) -> bool:
        """Whether a turn at the store would do something."""
        if self._ended:
            return True
        return not self._stopping and self._room() > 0 and self._due()

    def _patience(self, deadline: float | None) -> float:
        """Seconds to wait for a wake-up."""
        now = self._clock.monotonic()
        waits = [self.policy.poll_every if self._stopping else max(0.0, self._next_look - now)]
        if self._next_due is not None and not self._stopping:
            waits.append(max(0.0, self._next_due - self.keeper.store_now()))
        if deadline is not None:
            waits.append(max(0.0, deadline - now))
        return max(0.001, min(waits)) if self._room() or self._stopping else self.policy.poll_every

    # -- small things --------------------------------------------------------------------------------------------

    def _count(self, each: Ended, *, late: bool) -> None:
        ending = each.outcome.ending
        if late:
            self.tally.lost += 1
            _log.warning("lease_lost job=%s fence=%s", each.outcome.job.id, each.outcome.job.fence)
        elif hasattr(self.tally, ending):
            setattr(self.tally, ending, getattr(self.tally, ending) + 1)

    async def _save(self, job: Claimed, saved: str) -> bool:
        def work(tx: Tx) -> bool:
            return claims.save(tx, job.id, job.fence, saved)

        return await self._at_store(lambda: self._store.write(work))

    async def _at_store(self, work: Callable[[], T]) -> T:
        return await self._threads.store(work)
