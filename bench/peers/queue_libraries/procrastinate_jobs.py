"""Procrastinate on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import procrastinate

from bench.peers import queue_jobs

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=queue_jobs.POSTGRES))
tasks = {kind: app.task(name=kind, queue="bench")(body) for kind, body in queue_jobs.ASYNC.items()}


async def setup() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


@asynccontextmanager
async def client() -> AsyncIterator[queue_jobs.Client]:
    async with app.open_async():
        yield queue_jobs.Client(
            one=lambda kind, i: tasks[kind].defer_async(i=i),
            many=lambda kind, numbers: tasks[kind].batch_defer_async(*[{"i": i} for i in numbers]),
        )


def worker(mode: str) -> list[str]:
    more = {"one": ["-c", "10"], "two": ["-c", "10"], "sleep": ["-c", "200"]}
    return ["procrastinate", "--app", f"{__name__}.app", "worker", *more.get(mode, [])]


def remaining() -> int:
    return queue_jobs.count_rows("select count(*) from procrastinate_jobs where status in ('todo', 'doing')")
