"""Celery on Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import redis
from celery import Celery

from bench.peers import queue_jobs

app = Celery("bench", broker=queue_jobs.REDIS)
app.conf.task_ignore_result = True
tasks = {kind: app.task(name=kind)(body) for kind, body in queue_jobs.SYNC.items()}
setup = queue_jobs.empty_redis


@contextmanager
def client() -> Iterator[queue_jobs.Client]:
    yield queue_jobs.Client(one=lambda kind, i: tasks[kind].delay(i))
    app.close()


def worker(mode: str) -> list[str]:
    command = ["celery", "-A", __name__, "worker"]
    lean = [*command, "--without-gossip", "--without-mingle", "--loglevel", "ERROR"]
    return {
        "one": [*lean, "-P", "solo", "--prefetch-multiplier", "64"],
        "two": [*lean, "-c", "2", "--prefetch-multiplier", "64"],
        "sleep": [*lean, "-P", "threads", "-c", "200"],
    }.get(mode, command)


def remaining() -> int:
    with closing(redis.Redis.from_url(queue_jobs.REDIS)) as server:
        return int(server.llen("celery")) + int(server.hlen("unacked"))
