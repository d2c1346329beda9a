"""How long jobs wait: for a worker in this process or another one, and for each other when they sleep.

python -m bench.job_waits URL       is the worker of another process
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

from bench.job_loops import median
from bench.row import Row
from tidegate import Queue
from tidegate.jobs import Enqueued, JobFunction

_ASLEEP, _LASTS, _AT_ONCE = 8_000, 0.05, 200
_LEAST = 0.9  # of what so many at once can do
_TIMES, _PAUSE = 100, 0.02


def started(queue: Queue) -> JobFunction[[int], float]:
    @queue.job(queue="latency", name="started")
    async def started(_number: int) -> float:
        return time.time()

    return started


def waited(job: Enqueued[float], began: float) -> float:
    """Seconds until it started, as it says itself."""
    started_at: float | None = job.get().result
    if started_at is None:
        raise RuntimeError(f"job {job.id} has not begun")
    return started_at - began


def in_process(queue: Queue) -> float:
    """Median seconds from an enqueue in another thread to the start of the job, in an idle worker."""
    arrive, waits = started(queue), list[float]()

    async def one_by_one() -> None:
        stop = asyncio.Event()
        worker = asyncio.create_task(queue.arun_worker(20, queues={"latency"}, stop=stop))
        await asyncio.sleep(0.5)
        for number in range(_TIMES):
            began = time.time()
            job = await asyncio.to_thread(arrive.enqueue, number)
            await job.wait("10s")
            waits.append(waited(job, began))
            await asyncio.sleep(_PAUSE)
        stop.set()
        await worker

    asyncio.run(one_by_one())
    return median(waits)


def across_processes(queue: Queue) -> float:
    """The same with the worker in another process."""
    arrive = started(queue)
    process = subprocess.Popen([sys.executable, "-m", "bench.job_waits", queue.url])
    try:
        asyncio.run(arrive.enqueue(0).wait("30s"))
        began, jobs = list[float](), []
        for number in range(_TIMES):
            time.sleep(_PAUSE)
            began.append(time.time())
            jobs.append(arrive.enqueue(number))
        for job in jobs:
            asyncio.run(job.wait("30s"))
        return median([waited(job, at) for job, at in zip(jobs, began, strict=True)])
    finally:
        process.terminate()
        process.wait(30)


def asleep(queue: Queue, what: str) -> Row:
    """Jobs that only wait: how close a worker comes to having all of its slots in use."""
    begun, ended = list[float](), list[float]()

    @queue.job(queue="asleep", name=f"asleep-{what}")
    async def nap(_number: int) -> None:
        begun.append(time.perf_counter())
        await asyncio.sleep(_LASTS)
        ended.append(time.perf_counter())

    for start in range(0, _ASLEEP, 1000):
        nap.enqueue_many([(each,) for each in range(start, start + 1000)])

    async def until_done() -> None:
        stop = asyncio.Event()
        worker = asyncio.create_task(queue.arun_worker(_AT_ONCE, queues={"asleep"}, stop=stop))
        while len(ended) < _ASLEEP:  # noqa: ASYNC110 -- an event in the handler would be measured too
            await asyncio.sleep(0.005)
        stop.set()
        await worker

    asyncio.run(until_done())
    found, ideal = _ASLEEP / (max(ended) - min(begun)), _AT_ONCE / _LASTS
    text = f"{found:,.0f}/s, {found / ideal:.0%} of ideal"
    name = f"{what}, jobs that sleep {_LASTS * 1000:g} ms, {_AT_ONCE} at once"
    return Row(name, text, f">= {_LEAST:.0%}", found >= _LEAST * ideal)


if __name__ == "__main__":
    with Queue(sys.argv[1]) as worked:
        started(worked)
        worked.run_worker(20)
