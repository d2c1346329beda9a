"""A queue on a real SQLite file and virtual time, and workers on it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from tidegate.clock import Clock, VirtualClock
from tidegate.errors import StoreBusy, StoreError
from tidegate.guard import Tuning
from tidegate.guard.target import Target
from tidegate.jobs.function import JobFunction
from tidegate.jobs.gates import ClaimGates
from tidegate.jobs.producer import WakeSignal
from tidegate.jobs.queue import Queue
from tidegate.jobs.threads import Executors, InlineExecutors
from tidegate.jobs.worker import Worker, WorkerPolicy, WorkerStats
from tidegate.store.base import Store, Tx
from tidegate.targets.reporter import Reporter

T = TypeVar("T")


def queue(folder: Path, clock: VirtualClock, **options: Any) -> Queue:
    return Queue(f"sqlite:///{folder / 'jobs.db'}", clock=clock, inline=True, tuning=Tuning(rng=lambda: 0.5), **options)


def worker(
    q: Queue,
    *jobs: JobFunction[..., Any],
    store: Any = None,
    threads: Executors | None = None,
    targets: Iterable[Target] = (),
    clock: Clock | None = None,
    **numbers: Any,
) -> Worker:
    """A worker of its own, as another process would have."""
    gates = ClaimGates({target.name: target.for_jobs() for target in targets}, lambda: 0.5)
    return Worker(
        store or q.store,
        {job.kind.name: job.kind for job in jobs},
        gates,
        clock=clock or q.clock,
        executors=threads or InlineExecutors(),
        wake=WakeSignal(),
        policy=WorkerPolicy(**numbers),
        store_id="test",
        rng=lambda: 0.5,
        queues=frozenset(job.kind.queue for job in jobs),
    )


@contextlib.asynccontextmanager
async def at_work(each: Worker) -> AsyncIterator[Worker]:
    """A worker that runs while the block does, and then stops gently."""
    stop = asyncio.Event()
    task = asyncio.create_task(each.run(stop))
    try:
        yield each
    finally:
        stop.set()
        await task


async def work_for(seconds: float, q: Queue, **numbers: Any) -> WorkerStats:
    """So much of virtual time with a worker on the queue."""
    stop = asyncio.Event()
    task = asyncio.create_task(q.arun_worker(stop=stop, **numbers))
    await asyncio.sleep(seconds)
    stop.set()
    return await task


async def days_pass(days: float, q: Queue) -> None:
    """So many days of virtual time, with a worker in the first hour and in the last: enough for what is swept."""
    numbers = {"poll_every": 1800.0, "sweep_every": 1200.0, "lease": 14400.0, "renew_every": 1800.0}
    await work_for(3600, q, **numbers)
    await asyncio.sleep(days * 86400 - 7200)
    await work_for(3600, q, **numbers)


async def until(true: Callable[[], bool]) -> None:
    """Waits for what the database alone knows."""
    while not true():  # noqa: ASYNC110 - there is nobody who could set an event
        await asyncio.sleep(0.001)


def end(reporter: Reporter) -> None:
    """Ends it, however long that takes: a program waits for two seconds, and what outlives a test has no database."""
    thread = reporter._thread  # noqa: SLF001 - nothing else knows it
    reporter.close()
    if thread is not None:
        thread.join(60)
        assert not thread.is_alive()


class Flaky:
    """A store that is away when it is told to be, before the commit or after it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.away = False
        self.undone: Callable[[Tx], bool] = lambda tx: False  # which writes break before their commit
        self.unheard: Callable[[int], bool] = lambda n: False  # which writes are done, and not heard of
        self.writes = itertools.count(1)
        self.slow = False  # writes are held up on their way, and nobody waits for them
        self._late = list[Callable[[Tx], Any]]()

    def write(self, work: Callable[[Tx], T]) -> T:
        if self.away:
            raise StoreBusy("the database is away")
        if self.slow:
            self._late.append(work)
            raise StoreBusy("no answer in time")
        result = self._store.write(lambda tx: self._inside(work, tx))
        if self.unheard(next(self.writes)):
            raise StoreBusy("the connection broke after the commit")
        return result

    def arrive(self) -> None:
        """What was held up is done now, as far as it still can be."""
        for work in self._late:
            with contextlib.suppress(StoreError):
                self._store.write(work)

    def _inside(self, work: Callable[[Tx], T], tx: Tx) -> T:
        result = work(tx)
        if self.undone(tx):
            raise StoreBusy("the power is gone before the commit")
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
