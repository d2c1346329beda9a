"""Runs workers on a queue: until a stop, or for one drain."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from tidegate.durations import Duration
from tidegate.jobs import explain, settle
from tidegate.jobs.claim import DrainSnapshot
from tidegate.jobs.declare import retention_of
from tidegate.jobs.function import no_loop
from tidegate.jobs.gates import ClaimGates
from tidegate.jobs.in_flight import InFlightAttempts
from tidegate.jobs.job import StoredState
from tidegate.jobs.producer import WakeSignal
from tidegate.jobs.queue_admin import QueueAdmin
from tidegate.jobs.scheduler import Schedule, run_scheduler
from tidegate.jobs.threads import Executors, InlineExecutors, ThreadExecutors
from tidegate.jobs.worker import Worker, WorkerPolicy, WorkerStats
from tidegate.process import Watchdog, on_signals, run_loop
from tidegate.store import open as store_open
from tidegate.store.base import Tx
from tidegate.store.clock import SteadyClock
from tidegate.store.migrate import Migration, Schema
from tidegate.validation import JsonObject, did_you_mean, valid_name, whole

# An inline queue has no other writers, and frequent polls would slow down simulated days.
_ALONE = {"poll_every": 30.0, "sweep_every": 30.0}


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of one `drain`, in jobs."""

    done: int
    again: int
    failed: int
    held: int  # by a gate before the claim, or by a guard inside the handler
    remaining: int  # not final: held, waiting for a time or a parent, or inserted meanwhile


class WorkerRunner(QueueAdmin):
    """The part of a queue that runs jobs."""

    clock: SteadyClock
    inline: bool
    _rng: Callable[[], float]
    _retention: Mapping[str, Mapping[StoredState, float]]
    _schedules: Mapping[str, Schedule]
    _store_id: str
    _in_flight: InFlightAttempts
    _wakes: list[WakeSignal]
    _batch_only_queues: set[str]
    _background_tasks: list[Callable[[], Coroutine[Any, Any, None]]]

    def set_retention(self, queue: str, **kept: Duration) -> None:
        """Sets how long final jobs of a queue are kept (done="90d", failed="90d"), unless the settings name the queue.

        For an application whose files are kept longer than jobs usually are.
        """
        said = retention_of({queue: kept})
        self._retention = {**said, **self._retention}

    async def arun_worker(
        self,
        concurrency: int = 20,
        *,
        queues: AbstractSet[str] | None = None,
        stop: asyncio.Event | None = None,
        **numbers: Any,
    ) -> WorkerStats:
        """Runs a worker until *stop* is set or the task is cancelled."""
        stop = stop or asyncio.Event()
        worker, wake, threads = self._worker(concurrency, queues, numbers, cycle=False)
        try:
            await worker.run(stop)
        finally:
            self._wakes.remove(wake)
            threads.close()
        return worker.stats

    def run_worker(
        self, concurrency: int = 20, *, queues: AbstractSet[str] | None = None, **numbers: Any
    ) -> WorkerStats:
        """Runs a worker until SIGTERM or SIGINT. A second signal ends the process immediately."""
        no_loop("q.arun_worker")
        watchdog = Watchdog(WorkerPolicy(concurrency=concurrency, **numbers).longest_stop)

        async def main() -> WorkerStats:
            stop = asyncio.Event()
            with on_signals(stop, watchdog):
                return await self.arun_worker(concurrency, queues=queues, stop=stop, **numbers)

        try:
            return run_loop(main())
        finally:
            watchdog.disarm()

    async def adrain(
        self, queue: str | None = None, *, concurrency: int = 20, stop: asyncio.Event | None = None
    ) -> Drained:
        """Runs every job once that is ready now, and returns the counts.

        Jobs that are inserted meanwhile, and retries, wait for the next drain. *stop* ends the drain between two jobs.
        """
        names = None if queue is None else {valid_name(queue, field="queue")}
        worker, wake, threads = self._worker(concurrency, names, {}, cycle=True)
        try:
            done = await worker.drain(stop)
        finally:
            self._wakes.remove(wake)
            threads.close()
        shut, remaining = self.store.read(lambda tx: _left(tx, worker.queues, worker.cycle))
        return Drained(done.done, done.again, done.failed, done.held + shut, remaining)

    def drain(self, queue: str | None = None, *, concurrency: int = 20) -> Drained:
        """As `adrain`, for a program without an event loop."""
        no_loop("q.adrain")
        return run_loop(self.adrain(queue, concurrency=concurrency))

    def add_background_task(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Makes every worker of this queue run *run* while it works."""
        self._background_tasks.append(run)

    def batch_only(self, queue: str) -> None:
        """Reserves the jobs of *queue* for `drain`. A running worker does not claim them."""
        self._batch_only_queues.add(valid_name(queue, field="queue"))

    def next_cycle(self, queue: str, at: float) -> None:
        """Stores when the next drain of a batch-only queue starts (UNIX time), so that `explain` can show it."""
        self.store.write(lambda tx: tx.query("cycle_at", {"name": explain.CYCLE + queue, "value": repr(float(at))}))

    def _worker(
        self, concurrency: int, queues: AbstractSet[str] | None, numbers: JsonObject, *, cycle: bool
    ) -> tuple[Worker, WakeSignal, Executors]:
        whole(concurrency, field="concurrency", maximum=10_000)
        wanted, cycled = self._wanted(queues, cycle=cycle)
        if self.inline:
            numbers = {**_ALONE, **numbers}
        policy = WorkerPolicy(concurrency=concurrency, retention=self._retention, **numbers)
        threads: Executors = InlineExecutors() if self.inline else ThreadExecutors(concurrency)
        wake = WakeSignal(None if self.inline else store_open.watcher(self.store))
        self._wakes.append(wake)
        more: list[Callable[[Worker], Coroutine[Any, Any, None]]] = [
            _without_worker(run) for run in self._background_tasks
        ]
        if self._schedules:
            more.append(run_scheduler(list(self._schedules.values())))
        worker = Worker(
            self.store,
            self._kinds,
            self._gates(),
            clock=self.clock,
            executors=threads,
            wake=wake,
            policy=policy,
            queues=wanted - cycled,
            store_id=self._store_id,
            batch_only_queues=cycled,
            rng=self._rng,
            background_tasks=more,
            schema=Schema(self._migrations()),
            in_flight=self._in_flight,
        )
        return worker, wake, threads

    @abstractmethod
    def _migrations(self) -> list[Migration]:
        """The migrations that this program knows: the core's and those of its applications."""

    def check_queues(self, queues: AbstractSet[str]) -> None:
        """Raises ValueError when no worker could serve these queues: one is not declared, or all are batch-only."""
        self._wanted(queues, cycle=False)

    def _wanted(self, queues: AbstractSet[str] | None, *, cycle: bool) -> tuple[frozenset[str], frozenset[str]]:
        """The queues that a worker serves, and those of them that it leaves to `drain`."""
        if isinstance(queues, str):
            raise TypeError(f"queues: {queues!r} is a text; give a set of names, such as {{{queues!r}}}")
        if not self._kinds:
            raise ValueError("there is no job declared on this queue, so nothing to work on")
        known = self.queues()
        unknown = sorted(set(queues or ()) - known)
        if unknown:
            hint = did_you_mean(unknown[0], known)
            raise ValueError(f"queue: no job is declared for {unknown[0]!r}; known: {', '.join(sorted(known))}{hint}")
        if queues is not None and not queues:
            raise ValueError(f"queues: there is none; give one of: {', '.join(sorted(known))}")
        wanted = known if queues is None else frozenset(queues)
        cycled = frozenset[str]() if cycle else wanted & self._batch_only_queues
        if cycled == wanted and not cycle:
            raise ValueError(f"queue: {min(cycled)!r} is worked on in cycles alone; give another one, or drain it")
        return wanted, cycled

    def _gates(self) -> ClaimGates:
        codes = {name: kind.fail_fast_code for name, kind in self._kinds.items()}
        return ClaimGates(self._targets, self._rng, fail_fast=codes)


def _without_worker(run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[Worker], Coroutine[Any, Any, None]]:
    return lambda worker: run()


def _left(tx: Tx, queues: frozenset[str], cycle: DrainSnapshot | None) -> tuple[int, int]:
    """How many jobs of a drain a closed gate has held, and how many jobs are not final."""
    totals = settle.read(tx)
    ready = sum(totals.get((queue, "ready"), 0) - _came_later(tx, queue, cycle) for queue in queues)
    open_ = ("blocked", "waiting", "ready", "running")
    return ready, sum(totals.get((queue, stage), 0) for queue in queues for stage in open_)


def _came_later(tx: Tx, queue: str, cycle: DrainSnapshot | None) -> int:
    if cycle is None:
        return 0
    return tx.scalar(int, "ready_after", {"queue": queue, "newest": cycle.newest, "began": cycle.began})
