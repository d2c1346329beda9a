"""Tidegate, as docs/how-to/run-workers.md declares jobs; on SQLite or PostgreSQL, as the environment says."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.peers import queue_jobs
from tidegate import Queue

OPEN = "select count(*) from tg_job where state in ('blocked', 'waiting', 'ready', 'running')"
url = queue_jobs.POSTGRES or f"sqlite:///{queue_jobs.SQLITE / 'tidegate.db'}"
queue = Queue(url)


def declared(kind: str, body: Callable[[int], Awaitable[None]]) -> Any:
    async def run(i: int) -> None:
        await body(i)

    return queue.job(queue="bench", name=kind)(run)


jobs = {kind: declared(kind, body) for kind, body in queue_jobs.ASYNC.items()}


def setup() -> None:
    assert queue.store is not None  # makes the tables
    queue.close()


@contextmanager
def client() -> Iterator[queue_jobs.Client]:
    yield queue_jobs.Client(
        one=lambda kind, i: jobs[kind].enqueue(i),
        many=lambda kind, numbers: jobs[kind].enqueue_many([(each,) for each in numbers]),
    )
    queue.close()


def worker(mode: str) -> list[str]:
    run = "import sys; sys.argv[0] = 'tidegate'; from tidegate.cli import main; main()"
    concurrency = {"one": "100", "two": "100", "sleep": "200"}.get(mode)
    more = ["--concurrency", concurrency] if concurrency else []
    return [sys.executable, "-c", run, "worker", f"{__name__}:queue", *more]


def remaining() -> int:
    if queue_jobs.POSTGRES:
        return queue_jobs.count_rows(OPEN)
    import sqlite3

    with sqlite3.connect(queue_jobs.SQLITE / "tidegate.db") as connection:
        return int(connection.execute(OPEN).fetchone()[0])
