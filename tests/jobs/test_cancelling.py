"""A person cancels a job."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tests.jobs.building import at_work, until, worker
from tidegate.clock import VirtualClock
from tidegate.errors import Rejected
from tidegate.jobs import actions
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.queue import Queue
from tidegate.jobs.threads import ThreadExecutors


def test_a_running_async_handler_is_cancelled_within_about_a_second(q: Queue, clock: VirtualClock) -> None:
    ended: list[tuple[float, bool, bool]] = []

    @q.job()
    async def long(n: int, job: Context) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append((clock.monotonic(), job.cancelled, job.lost))

    put = long.enqueue(1)

    async def main() -> None:
        async with at_work(worker(q, long)):
            await asyncio.sleep(9.5)
            assert q.cancel(put, by="ada") == "asked"
            await asyncio.sleep(5)

    clock.run(main())
    assert len(ended) == 1
    at, cancelled, lost = ended[0]
    assert 9.5 < at < 10.6
    assert cancelled
    assert not lost
    assert q.get(put).state is JobState.CANCELLED
    assert [event.kind for event in q.events(put)] == ["queued", "processing", "cancel_asked", "cancelled"]


def test_a_plain_function_sees_that_it_is_cancelled(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:
        begun = threading.Event()

        @q.job()
        def looks(n: int, job: Context) -> None:
            begun.set()
            while not job.cancelled:
                time.sleep(0.01)
            raise asyncio.CancelledError

        put = looks.enqueue(1)

        async def main() -> None:
            async with at_work(worker(q, looks, threads=ThreadExecutors(1))):
                await asyncio.to_thread(begun.wait)
                q.cancel(put)
                await put.wait("60s")

        asyncio.run(main())
        assert q.get(put).state is JobState.CANCELLED


def test_a_handler_that_finishes_all_the_same_has_finished(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def cannot_stop(n: int) -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return "it was too late to stop"
        return ""

    put = cannot_stop.enqueue(1)

    async def main() -> None:
        async with at_work(worker(q, cannot_stop)):
            await asyncio.sleep(10)
            q.cancel(put)
            await asyncio.sleep(5)

    clock.run(main())
    assert q.get(put).state is JobState.DONE
    assert put.result() == "it was too late to stop"


def test_what_waits_for_a_slot_is_cancelled_without_being_begun(q: Queue, clock: VirtualClock) -> None:
    begun: list[int] = []

    @q.job()
    async def job(n: int) -> None:
        begun.append(n)
        if n >= 100:
            await asyncio.sleep(500)

    job.enqueue_many([(each,) for each in range(40)])

    async def main() -> None:
        async with at_work(worker(q, job, concurrency=1, grace=0)):
            await until(lambda: q.get(40).state is JobState.DONE)
            await asyncio.sleep(2)
            put = job.enqueue_many([(100,), (101,)])
            await until(lambda: q.get(put[1]).state is JobState.RUNNING)
            assert q.cancel(put[1]) == "asked"
            await asyncio.sleep(5)
            assert q.get(put[1]).state is JobState.CANCELLED

    clock.run(main())
    assert 101 not in begun


def test_a_kind_may_refuse_to_be_cancelled(q: Queue) -> None:
    @q.job(cancellable=False)
    async def firm(n: int) -> None: ...

    job = firm.enqueue(1)
    with pytest.raises(Rejected, match=r"job 1 .*'default\.firm'"):
        q.cancel(job)
    with pytest.raises(Rejected, match="cannot be cancelled"):  # as a page or a command does, which knows no kinds
        q.store.write(lambda tx: actions.cancel(tx, job.id, "ada"))
    q.drain()
    assert job.state() == "done"
    assert q.cancel(job) is None  # what has ended is as any other
    with pytest.raises(Rejected, match="job 1 is done"):
        q.store.write(lambda tx: actions.cancel(tx, job.id, "ada"))
