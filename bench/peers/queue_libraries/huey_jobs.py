"""Huey on SQLite, or on Redis where the environment says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from huey import RedisHuey, SqliteHuey

from bench.peers import queue_jobs

if os.environ.get("PEERS_STORE") == "Redis":
    # 200 threads need more connections than a pool has by itself.
    pool = redis.ConnectionPool.from_url(queue_jobs.REDIS, max_connections=1000)
    huey = RedisHuey("bench", connection_pool=pool, results=False)
else:
    huey = SqliteHuey("bench", filename=str(queue_jobs.SQLITE / "huey.db"), results=False)
tasks = {kind: huey.task(name=kind)(body) for kind, body in queue_jobs.SYNC.items()}


def setup() -> None:
    huey.flush()


@contextmanager
def client() -> Iterator[queue_jobs.Client]:
    yield queue_jobs.Client(one=lambda kind, i: tasks[kind](i))


def worker(mode: str) -> list[str]:
    more = {
        "one": ["-w", "1", "-k", "thread", "-q"], "two": ["-w", "2", "-k", "process", "-q"],
        "sleep": ["-w", "200", "-k", "thread", "-q"], "default": [],
    }  # fmt: skip
    return ["huey_consumer", f"{__name__}.huey", *more[mode]]


def remaining() -> int:
    return int(huey.pending_count())
