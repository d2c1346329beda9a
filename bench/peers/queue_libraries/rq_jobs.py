"""RQ on Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import redis
from rq import Queue

from bench.peers import queue_jobs

FUNCTIONS = {kind: f"bench.peers.queue_jobs.{kind}" for kind in queue_jobs.SYNC}
setup = queue_jobs.empty_redis


@contextmanager
def client() -> Iterator[queue_jobs.Client]:
    with closing(redis.Redis.from_url(queue_jobs.REDIS)) as server:
        queue = Queue("bench", connection=server)
        yield queue_jobs.Client(
            one=lambda kind, i: queue.enqueue(FUNCTIONS[kind], i),
            many=lambda kind, numbers: queue.enqueue_many(
                [Queue.prepare_data(FUNCTIONS[kind], args=(i,)) for i in numbers]
            ),
        )


def worker(mode: str) -> list[str]:
    simple = ["-w", "rq.SimpleWorker", "-q"]
    start = {"one": ["worker", *simple], "two": ["worker-pool", "-n", "2", *simple], "default": ["worker"]}[mode]
    return ["rq", *start, "--url", queue_jobs.REDIS, "bench"]


def remaining() -> int:
    """A failed job counts: its user must put it in again by hand."""
    with closing(redis.Redis.from_url(queue_jobs.REDIS)) as server:
        queue = Queue("bench", connection=server)
        registries = queue.started_job_registry, queue.failed_job_registry
        return len(queue) + sum(int(registry.get_job_count(cleanup=False)) for registry in registries)
