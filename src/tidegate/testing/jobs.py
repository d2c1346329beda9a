"""Durable jobs on virtual time: a worker that works for a day, in seconds."""

from __future__ import annotations

import asyncio
from typing import Any

from tidegate.core.duration import Duration, seconds
from tidegate.face.queue import Queue
from tidegate.runtime.worker_policy import WorkerStats


async def work_for(queue: Queue, duration: Duration, concurrency: int = 20, **numbers: Any) -> WorkerStats:
    """Runs a worker for *duration* of the queue's own time, then stops it gently; returns what it did.

    queue = Queue("sqlite:///test.db", clock=clock, inline=True)
    clock.run(work_for(queue, "24h"))
    """
    wanted = seconds(duration, field="duration")
    stop = asyncio.Event()
    worker = asyncio.create_task(queue.arun_worker(concurrency, stop=stop, **numbers))
    await asyncio.wait({worker}, timeout=wanted)  # a worker that breaks must not be waited for all day
    stop.set()
    return await worker
