"""pgqueuer on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

from bench.peers import queue_jobs


@asynccontextmanager
async def driver() -> AsyncIterator[Any]:
    connection = await asyncpg.connect(queue_jobs.POSTGRES)
    try:
        yield AsyncpgDriver(connection)
    finally:
        await connection.close()


async def setup() -> None:
    async with driver() as opened:
        await Queries(opened).install()


@asynccontextmanager
async def client() -> AsyncIterator[queue_jobs.Client]:
    async with driver() as opened:
        queries = Queries(opened)
        yield queue_jobs.Client(
            one=lambda kind, i: queries.enqueue(kind, str(i).encode(), 0),
            many=lambda kind, numbers: queries.enqueue(
                [kind] * len(numbers), [str(i).encode() for i in numbers], [0] * len(numbers)
            ),
        )


@asynccontextmanager
async def factory() -> AsyncIterator[Any]:
    async with driver() as opened:
        queue = PgQueuer(opened)
        for kind, body in queue_jobs.ASYNC.items():
            queue.entrypoint(kind)(entry(body))
        yield queue


def entry(body: Callable[[int], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    async def run(job: Any) -> None:
        await body(int(job.payload))

    return run


def worker(mode: str) -> list[str]:
    batch = ["--batch-size", "100"]
    more = {"one": batch, "two": batch, "sleep": [*batch, "--max-concurrent-tasks", "200"]}
    return ["pgq", "run", f"{__name__}:factory", "--log-level", "INFO", *more.get(mode, [])]


def remaining() -> int:
    return queue_jobs.count_rows("select count(*) from pgqueuer where status in ('queued', 'picked')")
