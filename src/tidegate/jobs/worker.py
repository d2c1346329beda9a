"""The worker: its policy, its tasks and its shutdown."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidegate.clock import Clock
from tidegate.errors import StoreError
from tidegate.jobs import claim
from tidegate.jobs.claim import DrainSnapshot
from tidegate.jobs.executor import InFlightJobs
from tidegate.jobs.fetch import FetchResult
from tidegate.jobs.function import JobKind
from tidegate.jobs.gates import ClaimGates
from tidegate.jobs.heartbeat import Heartbeat
from tidegate.jobs.in_flight import InFlightAttempts
from tidegate.jobs.job import StoredState
from tidegate.jobs.maintenance import Maintenance
from tidegate.jobs.prober import Prober
from tidegate.jobs.producer import Producer, WakeSignal
from tidegate.jobs.tasks import protected
from tidegate.jobs.threads import Executors
from tidegate.logs import logger
from tidegate.store.base import Store, Tx, now_of
from tidegate.store.migrate import Schema, core_migrations


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPolicy:
    """Limits and intervals of a worker, in seconds except for `concurrency`."""

    concurrency: int = 20
    lease: float = 30.0
    renew_every: float = 10.0
    margin: float = 5.0  # a handler is interrupted this long before its lease ends
    poll_every: float = 1.0  # maximum time between fetches if no signal arrives
    sweep_every: float = 5.0
    listen_every: float = 1.0  # time between checks for cancelled jobs
    grace: float = 20.0  # time that running handlers have to finish after a stop
    retention: Mapping[str, Mapping[StoredState, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("lease", "renew_every", "margin", "poll_every", "sweep_every", "listen_every"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: {getattr(self, name)!r} is no number of seconds above 0")
        if not 0 <= self.grace < math.inf:
            raise ValueError(f"grace: {self.grace!r} is no number of seconds")
        if self.renew_every + self.margin >= self.lease:
            raise ValueError(
                f"lease: {self.lease:g} s end before a renewal every {self.renew_every:g} s and "
                f"{self.margin:g} s of margin; give a longer one"
            )

    @property
    def unwind(self) -> float:
        """Seconds that a cancelled handler has to clean up before its job is released."""
        return min(5.0, max(0.5, self.grace / 4))

    @property
    def longest_stop(self) -> float:
        """The maximum duration of a shutdown in seconds, even if handlers hang."""
        return self.grace + self.unwind + 2.0


@dataclass(slots=True)
class WorkerStats:
    """How many attempts of a worker ended in each outcome."""

    done: int = 0
    again: int = 0
    failed: int = 0
    cancelled: int = 0
    given_back: int = 0
    held: int = 0  # of those given back: a guard inside the handler raised Held
    lost: int = 0


class Shutdown:
    """The shutdown of a worker: stop claiming, cancel handlers after the grace, release their jobs, give up."""

    def __init__(self, worker: Worker, grace: float) -> None:
        self._worker = worker
        now, unwind = worker.clock.monotonic(), worker.policy.unwind
        self._steps = [now + grace, now + grace + unwind, now + grace + unwind + 1.0]
        worker.stopping = True
        worker.in_flight.release_unstarted(all_of_it=True)
        for attempt in worker.in_flight.attempts.values():
            attempt.context.stopping = True

    @property
    def next_step(self) -> float:
        return self._steps[0]

    def over(self) -> bool:
        worker = self._worker
        now = worker.clock.monotonic()
        while len(self._steps) > 1 and now >= self._steps[0]:
            self._steps.pop(0)
            if len(self._steps) == 2:
                self._cut_short()
            else:
                worker.in_flight.release_all()
        if worker.in_flight.attempts and now >= self._steps[0]:
            _log.error("leases_not_given_back n=%s", len(worker.in_flight.attempts))
            return True
        return not worker.in_flight.attempts

    def _cut_short(self) -> None:
        for attempt in list(self._worker.in_flight.attempts.values()):
            if not attempt.ended:
                attempt.interrupt("shutdown")


# A worker: claims what may go, runs it, settles it, keeps its leases, and stops gently.

T = TypeVar("T")
_log = logger("tidegate.worker")

_RETRY_DELAYS = (0.05, 5.0)  # seconds between tries at a store that does not answer, first and longest
_BATCH_WAIT = 0.004  # seconds to wait for more outcomes, while every slot has something to do
_CLOCK_MARGIN = 0.001
_MIN_WAIT = 0.001  # seconds: a wait that is no spin


class Worker:
    """Runs jobs until it is stopped. There is one per event loop, and any number of them over any number of hosts."""

    def __init__(
        self,
        store: Store,
        kinds: Mapping[str, JobKind],
        gates: ClaimGates,
        *,
        clock: Clock,
        executors: Executors,
        wake: WakeSignal,
        policy: WorkerPolicy,
        queues: frozenset[str],
        store_id: str,
        rng: Callable[[], float] = random.random,
        background_tasks: Sequence[Callable[[Worker], Coroutine[Any, Any, None]]] = (),
        batch_only_queues: frozenset[str] = frozenset(),
        in_flight: InFlightAttempts | None = None,
        schema: Schema | None = None,
    ) -> None:
        self.id = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.policy, self.queues = policy, queues
        self.batch_only_queues = (
            batch_only_queues  # queues that only `drain` claims from; this worker only maintains them
        )
        self.store, self.clock, self.executors, self.wake, self.rng = store, clock, executors, wake, rng
        self.stats = WorkerStats()
        self.stopping = False
        self.cycle: DrainSnapshot | None = None  # set while the worker drains
        self._gates = gates
        self._more = background_tasks
        self.kinds = kinds
        self.schema = schema or Schema(core_migrations())
        self.in_flight = InFlightJobs(self, kinds, gates, store_id, in_flight or InFlightAttempts())
        self._producer = Producer(self, gates)
        self.heartbeat = Heartbeat(self)
        self.maintenance = Maintenance(self)
        self.prober = Prober(self, gates)

    async def run(self, stop: asyncio.Event) -> None:
        """Works until *stop* is set, then finishes or releases its jobs. A cancelled worker releases them at once."""
        await protected(self._run(stop))

    async def _run(self, stop: asyncio.Event) -> None:
        async with self.wake.listening():
            waiting = asyncio.create_task(stop.wait())
            waiting.add_done_callback(lambda _: self.wake.signal_finished())
            try:
                others = [self.maintenance.run(), self.prober.run(), *(task(self) for task in self._more)]
                await self._beside(self._pump(stop, self.policy.grace), *others)
            finally:
                waiting.cancel()

    async def drain(self, stop: asyncio.Event | None = None) -> WorkerStats:
        """Runs every job once that is ready now, and the children that this unblocks. Then it returns.

        After *stop* the worker claims nothing more, and running jobs finish normally.
        """
        return await protected(self._drain(stop))

    async def _drain(self, stop: asyncio.Event | None) -> WorkerStats:
        await self.maintenance.rescue_and_expire()
        await self.clock.asleep(
            _CLOCK_MARGIN
        )  # so that observations of an earlier drain are older than this one, also on a virtual clock
        self.cycle = await self.at_store(_begin_cycle)
        self._gates.cycle = self.cycle.began
        async with self.wake.listening(others=False):
            await self.prober.once()
            await self._beside(self._cycle(stop or asyncio.Event()))
        if stop is None or not stop.is_set():
            await self.maintenance.tidy()
        return self.stats

    async def _beside(self, main: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
        """Runs *main*, the heartbeat and *others*. If one of them raises, all of them end and the error propagates."""
        with self.in_flight.in_flight.joined(self.in_flight):
            await self._work_beside(main, others)

    async def _work_beside(self, main: Coroutine[Any, Any, None], others: Sequence[Coroutine[Any, Any, None]]) -> None:
        await self._publish()
        await self.heartbeat.try_to_beat()  # before the first claim: it also reads the store's clock
        always = (self.heartbeat.run(), self.heartbeat.watch(), self.in_flight.slots.broken())
        background = {asyncio.create_task(coroutine) for coroutine in (*always, *others)}
        pump = asyncio.create_task(main)
        try:
            done, _ = await asyncio.wait({pump, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except BaseException:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            await self._hurry()
            raise
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self.in_flight.slots.close()
            await self.prober.close()
            await self.heartbeat.sign_off()

    async def _publish(self) -> None:
        try:
            self._gates.tell(await self.at_store(self._gates.publish))
        except StoreError as error:
            _log.warning("numbers_not_published error=%s", type(error).__name__)

    async def _hurry(self) -> None:
        """Releases all jobs without a grace period, before the worker ends with an error."""
        now = asyncio.Event()
        now.set()
        try:
            await self._pump(now, 0.0)
        except Exception:
            _log.exception("leases_not_given_back n=%s", len(self.in_flight.attempts))

    async def _pump(self, stop: asyncio.Event, grace: float) -> None:
        delay = _RETRY_DELAYS[0]
        ending: Shutdown | None = None
        while True:
            if stop.is_set():
                ending = ending or Shutdown(self, grace)
                if ending.over():
                    return
            if self.wake.take():
                self._producer.news()
            if not self._producer.should_fetch():
                step = math.inf if ending is None else ending.next_step - self.clock.monotonic()
                await self.wake.wait(max(_MIN_WAIT, min(step, self._producer.next_fetch_in())))
                continue
            if ending is None and self.in_flight.slots.fed:
                await self.clock.asleep(_BATCH_WAIT)  # lets more attempts finish, so that one fetch settles them
            try:
                await self._producer.fetch_once()
                delay = _RETRY_DELAYS[0]
            except StoreError as error:
                _log.warning("store_unavailable error=%s", type(error).__name__)
                await self._rest(delay, stop, ending)
                delay = min(delay * 2, _RETRY_DELAYS[1])

    async def _cycle(self, stop: asyncio.Event) -> None:
        delay = _RETRY_DELAYS[0]
        while True:
            self.wake.take()
            self.stopping = stop.is_set()
            try:
                done = await self._producer.fetch_once()
                delay = _RETRY_DELAYS[0]
            except StoreError as error:
                if not self.in_flight.any_good:
                    raise
                _log.warning("store_unavailable error=%s", type(error).__name__)
                await self.clock.asleep(delay)
                delay = min(delay * 2, _RETRY_DELAYS[1])
                continue
            busy = bool(self.in_flight.attempts) or self.prober.busy or self._must_wait(done)
            if done is not None and not done.claimed and not done.failed_fast and not busy:
                return
            if busy and not self.in_flight.ended:
                await self.wake.wait(self.policy.poll_every)

    def _must_wait(self, done: FetchResult | None) -> bool:
        """Whether jobs of this drain wait for other workers of the process, so that a suspect can run alone."""
        held_up = done is not None and done.waits_to_be_alone
        return not self.stopping and (held_up or not self.in_flight.in_flight.admits_others(self.in_flight))

    @property
    def outdated(self) -> bool:
        """Whether the schema is newer than this worker. If so, it claims nothing and finishes its jobs."""
        return self.schema.too_new is not None

    async def _rest(self, delay: float, stop: asyncio.Event, ending: Shutdown | None) -> None:
        """Waits before the next try at the store. Returns early when *stop* is set."""
        if ending is not None:
            await self.clock.asleep(min(delay, 0.5))
            return
        try:
            await asyncio.wait_for(stop.wait(), delay)
        except TimeoutError:
            return

    async def at_store(self, work: Callable[[Tx], T]) -> T:
        return await self.executors.store(lambda: self.store.write(work))


def _begin_cycle(tx: Tx) -> DrainSnapshot:
    """Promotes due jobs and takes the snapshot. Jobs that are inserted or due later belong to the next drain."""
    while claim.promote(tx):
        pass
    return DrainSnapshot(tx.scalar(int, "newest"), now_of(tx))
