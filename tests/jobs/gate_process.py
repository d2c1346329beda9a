"""A worker process for the tests of shared gates: python gate_process.py URL DRIVER FOLDER.

Its handler fails while there is a file called `ill`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tidegate import Backoff, Target
from tidegate.jobs.queue import Queue

FOLDER = Path(sys.argv[3]) if len(sys.argv) > 3 else Path()


def declare(q: Queue) -> object:
    target = Target("svc", backoff=None, breaker={"consecutive": 3, "timeout": 0.6, "max_requests": 3})

    @q.job(target=target, key=lambda n: n % 25, name="call", backoff=Backoff(0.3, cap=0.3, jitter=0), attempts=1000)
    async def call(n: int) -> None:
        await asyncio.sleep(0.08)
        if (FOLDER / "ill").exists():
            raise ConnectionError("it is ill")

    return call


if __name__ == "__main__":
    queue = Queue(sys.argv[1], driver=sys.argv[2] or None)
    declare(queue)
    queue.run_worker(concurrency=2)  # fewer than the permits of half-open: no process can take them all
