"""SAQ on Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from saq import Queue

from bench.peers import queue_jobs

setup = queue_jobs.empty_redis


async def nothing(_: Any, *, i: int) -> None:
    await queue_jobs.anothing(i)


async def sleep(_: Any, *, i: int) -> None:
    await queue_jobs.asleep(i)


async def kill(_: Any, *, i: int) -> None:
    await queue_jobs.akill(i)


def settings(**more: int) -> dict[str, Any]:
    return {"queue": Queue.from_url(queue_jobs.REDIS), "functions": [nothing, sleep, kill], **more}


def ten() -> dict[str, Any]:
    return settings(concurrency=10)


def two_hundred() -> dict[str, Any]:
    return settings(concurrency=200)


@asynccontextmanager
async def opened() -> AsyncIterator[Any]:
    queue = Queue.from_url(queue_jobs.REDIS)
    await queue.connect()
    try:
        yield queue
    finally:
        await queue.disconnect()


@asynccontextmanager
async def client() -> AsyncIterator[queue_jobs.Client]:
    async with opened() as queue:
        yield queue_jobs.Client(one=lambda kind, i: queue.enqueue(kind, i=i))


def worker(mode: str) -> list[str]:
    chosen = {"one": "ten", "two": "ten", "sleep": "two_hundred"}.get(mode, "settings")
    return ["saq", "-q", *(["--workers", "2"] if mode == "two" else []), f"{__name__}.{chosen}"]


async def remaining() -> int:
    async with opened() as queue:
        return int(await queue.count("incomplete"))
