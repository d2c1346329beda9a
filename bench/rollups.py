"""What the charts cost: a drain whose batches are settled in turns with what charts are drawn from, and without.

With: how long each attempt took is added to its bucket. Beside that the numbers of all queues are put down every five
minutes. Batches in turns, because two drains one after the other differ by more than what is looked for.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from bench.job_loops import BATCH, Counting, counting
from bench.row import Row, at_most
from tidegate.jobs import claim, history, outcome, settle

DRAINS = 6
QUEUES = 50  # whose numbers are put down each time
_MOST = 2.0  # percent


def run(drains: int = DRAINS) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        own = counting(f"sqlite:///{Path(folder) / 'jobs.db'}")
        with own.queue:
            _others(own)
            took: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(drains):
                own.fill()
                _drain(own, took)
            once = _once(own)
    without, of_life = median(took[False]), once / history.SLOT
    share = median(took[True]) / without - 1 + of_life
    return [
        Row(f"SQLite, claim and settle {BATCH} jobs without rollups, CPU", f"{without * 1000:.2f} ms"),
        Row(f"rollups: the numbers of {QUEUES} queues, once", f"{once * 1000:.1f} ms, {of_life:.2%} of five minutes"),
        at_most(f"rollups: CPU that they add, median of {len(took[True])} batches", share * 100, _MOST, " %"),
    ]


def _drain(own: Counting, took: dict[bool, list[float]]) -> None:
    """The queue's own statements, batch by batch; notes the CPU of each batch, with and without."""
    lane, store = claim.ReadyKey("bench", "", ""), own.queue.store
    with_them = False
    while True:
        began = time.process_time()
        taken = store.write(lambda tx: claim.claim(tx, lane, BATCH, "raw", 30))
        if not taken:
            return
        ends = [outcome.done(job, None) for job in taken]
        with nullcontext() if with_them else _no_buckets():
            store.write(lambda tx, ends=ends: settle.settle(tx, ends, "raw"))  # type: ignore[misc]
        took[with_them].append(time.process_time() - began)
        with_them = not with_them


@contextmanager
def _no_buckets() -> Iterator[None]:
    """Settling as it would be if nobody asked how long attempts took."""
    real = settle.count_durations
    settle.count_durations = lambda spans: Counter()
    try:
        yield
    finally:
        settle.count_durations = real


def _once(own: Counting) -> float:
    """Seconds that it takes to put the numbers down, the best of some."""
    took = []
    for n in range(20):
        began = time.perf_counter()
        own.queue.store.write(lambda tx, n=n: history.take(tx, time.time() + n * history.SLOT))  # type: ignore[misc]
        took.append(time.perf_counter() - began)
    return min(took)


def _others(own: Counting) -> None:
    """Many other queues, each with one job that is done."""

    async def nothing(_: Any) -> None: ...

    for n in range(QUEUES):
        own.queue.job(queue=f"other-{n}", name=f"other-{n}")(nothing).enqueue(n)
    asyncio.run(own.queue.adrain())
