"""What the rows of jobs are made of: a queue that counts, the raw loop beside it, and clocks on the wall."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.row import Row
from tidegate import Queue
from tidegate.jobs import JobFunction, claim, outcome, settle
from tidegate.store.base import Tx

JOBS = 10_000
THREADS = 32
BATCH = 100
_OPEN = frozenset({"ready", "waiting", "running"})


def at_least(what: str, found: float, floor: float, share: float) -> Row:
    return Row(what, f"{found:,.0f}/s, {found / floor:.2f}x raw", f">= {share:g}x", found >= share * floor)


def within(what: str, seconds: float, most: float) -> Row:
    return Row(what, f"{seconds * 1000:.1f} ms", f"<= {most * 1000:g} ms", seconds <= most)


def rate(times: int, work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return times / (time.perf_counter() - start)


def in_turns(rounds: int, *loops: tuple[int, Callable[[], object]]) -> list[float]:
    """The best rate of each loop, which is how many times it does its work, and the work."""
    found = [[rate(times, work) for times, work in loops] for _ in range(rounds)]
    return [max(rates) for rates in zip(*found, strict=True)]


@dataclass(slots=True)
class Counting:
    """A queue with one kind of job, which notes when it ran."""

    queue: Queue
    note: JobFunction[[int], None]
    ran: list[float] = field(default_factory=list)

    def fill(self) -> None:
        for start in range(0, JOBS, 1000):
            self.note.enqueue_many([(each,) for each in range(start, start + 1000)])

    def raw_loop(self) -> float:
        """The queue's own statements, batch by batch: no worker, no gate and no handler."""
        lane = claim.ReadyKey("bench", "", "")
        store = self.queue.store

        def loop() -> None:
            while taken := store.write(lambda tx: claim.claim(tx, lane, BATCH, "raw", 30)):
                ends = [outcome.done(job, None) for job in taken]
                store.write(lambda tx, ends=ends: settle.settle(tx, ends, "raw"))  # type: ignore[misc]

        return rate(JOBS, loop)

    def drained(self) -> float:
        """Jobs per second from the first to the last, until the store says that all are settled."""
        self.ran.clear()
        began, took = time.perf_counter(), list[float]()

        async def until_done() -> None:
            stop = asyncio.Event()
            worker = asyncio.create_task(self.queue.arun_worker(200, queues={"bench"}, stop=stop))
            while len(self.ran) < JOBS:  # noqa: ASYNC110 -- an event in the handler would be measured too
                await asyncio.sleep(0.005)
            while self.queue.store.read(_open):  # noqa: ASYNC110 -- nobody tells of the last settle
                await asyncio.sleep(0.005)
            took.append(time.perf_counter() - began)  # to leave is no part of it: who listens is asked twice a second
            stop.set()
            await worker

        asyncio.run(until_done())
        return JOBS / took[0]

    def side_by_side(self, used: Callable[[], float] = lambda: 0.0) -> tuple[Best, Best]:
        """The raw loop and a worker, three times in turns; *used* is read before and after each, such as bytes."""
        raw, drain = Best(), Best()
        for _ in range(3):
            for best, run in ((raw, self.raw_loop), (drain, self.drained)):
                self.fill()
                before = used()
                best.rate = max(best.rate, run())
                best.cost = min(best.cost, (used() - before) / JOBS)
        return raw, drain


def _open(tx: Tx) -> int:
    """How many jobs of the queue are not at their end."""
    return sum(n for (queue, what), n in settle.read(tx).items() if queue == "bench" and what in _OPEN)


@dataclass(slots=True)
class Best:
    """The best of several runs: jobs per second, and what one of them used."""

    rate: float = 0.0
    cost: float = float("inf")


def counting(url: str) -> Counting:
    queue, ran = Queue(url), list[float]()

    @queue.job(queue="bench")
    async def note(_number: int) -> None:
        ran.append(time.perf_counter())

    return Counting(queue, note, ran)


def in_threads(put: Callable[[int], object], times: int) -> list[float]:
    """Seconds that each call took, from many threads at once."""
    took: list[float] = []

    def some() -> None:
        for number in range(times // THREADS):
            began = time.perf_counter()
            put(number)
            took.append(time.perf_counter() - began)

    threads = [threading.Thread(target=some) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def p99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100]


def median(took: list[float]) -> float:
    return sorted(took)[len(took) // 2]
