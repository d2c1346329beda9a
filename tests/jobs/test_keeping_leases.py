"""Leases: kept while a handler works, given up in time, and worth nothing when they are lost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.building import Flaky, at_work, worker
from tidegate.clock import VirtualClock
from tidegate.errors import LeaseLost
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Done
from tidegate.jobs.queue import Queue
from tidegate.jobs.worker import WorkerPolicy
from tidegate.store.sql import statements

# As if another worker had taken a job over: a newer fence.
STEAL = "-- name: steal\nupdate tg_job set fence = fence + 1 where id = :id;"


def kinds(q: Queue, job: Any) -> list[str]:
    return [event.kind for event in q.events(job)]


def test_a_lease_is_kept_as_long_as_the_handler_works(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def long(n: int) -> str:
        await asyncio.sleep(3600)
        return "done"

    job = long.enqueue(1)
    one, other = worker(q, long), worker(q, long)

    async def main() -> None:
        async with at_work(one), at_work(other):
            await asyncio.sleep(3700)

    clock.run(main())
    assert job.result() == "done"
    assert (q.get(job).fence, q.get(job).deaths) == (1, 0)


def test_a_worker_stops_touching_the_outside_before_its_lease_ends(q: Queue, clock: VirtualClock) -> None:
    touched: list[tuple[int, float]] = []

    @q.job()
    async def touches(n: int, job: Context) -> None:
        while True:
            touched.append((job.fence, clock.monotonic()))
            await asyncio.sleep(1)

    job = touches.enqueue(1)
    flaky = Flaky(q.store)
    cut_off, other = worker(q, touches, store=flaky), worker(q, touches)

    async def main() -> None:
        async with at_work(cut_off):
            await asyncio.sleep(1)
            async with at_work(other):
                await asyncio.sleep(4)
                flaky.away = True
                await asyncio.sleep(60)
                flaky.away = False

    clock.run(main())
    old = max(at for fence, at in touched if fence == 1)
    new = min(at for fence, at in touched if fence == 2)
    assert old <= 25.5  # the lease of 30 s was taken at 0 and never renewed
    assert new >= 30
    assert kinds(q, job)[:4] == ["queued", "processing", "lost", "processing"]


def test_a_worker_that_fenced_itself_gives_the_job_back_when_nobody_took_it(q: Queue, clock: VirtualClock) -> None:
    begun: list[float] = []

    @q.job()
    async def job(n: int) -> None:
        begun.append(clock.monotonic())
        await asyncio.sleep(1000 if len(begun) == 1 else 1)

    put = job.enqueue(1)
    flaky = Flaky(q.store)
    alone = worker(q, job, store=flaky)

    async def main() -> None:
        async with at_work(alone):
            await asyncio.sleep(5)
            flaky.away = True
            await asyncio.sleep(40)
            flaky.away = False
            await asyncio.sleep(20)

    clock.run(main())
    found = q.get(put)
    # An outage of the store is no death of a worker.
    assert (found.state, found.attempt, found.deaths) == (JobState.DONE, 2, 0)
    assert kinds(q, put) == ["queued", "processing", "given_back", "processing", "done"]


@pytest.mark.parametrize(
    ("attempts", "state", "begins"), [(1, JobState.FAILED, 1), (2, JobState.DONE, 3), (3, JobState.DONE, 3)]
)
def test_an_outage_of_the_store_fails_only_a_job_with_a_single_attempt(
    q: Queue, clock: VirtualClock, attempts: int, state: JobState, begins: int
) -> None:
    begun: list[float] = []

    @q.job(attempts=attempts)
    async def job(n: int) -> None:
        begun.append(clock.monotonic())
        await asyncio.sleep(1000 if len(begun) < 3 else 1)

    put = job.enqueue(1)
    flaky = Flaky(q.store)

    async def main() -> None:
        async with at_work(worker(q, job, store=flaky)):
            for _ in range(2):
                await asyncio.sleep(5)
                flaky.away = True
                await asyncio.sleep(40)
                flaky.away = False
                await asyncio.sleep(20)

    clock.run(main())
    found = q.get(put)
    assert (found.state, len(begun)) == (state, begins)
    assert found.error_code == ("worker_lost" if state is JobState.FAILED else None)


def test_a_result_counts_as_long_as_nobody_else_took_the_job(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    def slept(n: int, job: Context) -> str:
        clock.sleep(100)  # the machine slept, and the lease ran out
        return f"by {job.fence}"

    put = slept.enqueue(1)

    async def main() -> None:
        async with at_work(worker(q, slept)):
            await asyncio.sleep(1)

    clock.run(main())
    assert put.result() == "by 1"


def test_a_result_that_comes_too_late_is_refused_and_recorded(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def job(n: int, job: Context) -> str:
        if job.fence == 1:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                return "late"
        return f"by {job.fence}"

    put = job.enqueue(1)
    flaky = Flaky(q.store)
    one, two = worker(q, job, store=flaky), worker(q, job)

    async def main() -> None:
        async with at_work(one):
            await asyncio.sleep(1)
            flaky.away = True
            async with at_work(two):
                await asyncio.sleep(60)
                flaky.away = False
                await asyncio.sleep(5)

    clock.run(main())
    assert put.result() == "by 2"
    assert kinds(q, put) == ["queued", "processing", "lost", "processing", "done", "stale_result"]
    assert (one.stats.lost, one.stats.done, two.stats.done) == (1, 0, 1)


def test_a_worker_can_take_a_job_again_that_it_lost_itself(q: Queue, clock: VirtualClock) -> None:
    ran: list[int] = []

    @q.job()
    async def stubborn(n: int, job: Context) -> str:
        ran.append(job.fence)
        until = clock.monotonic() + 100
        while clock.monotonic() < until:
            try:
                await asyncio.sleep(until - clock.monotonic())
            except asyncio.CancelledError:
                continue  # the old attempt goes on beside the new one
        return f"by {job.fence}"

    put = stubborn.enqueue(1)
    flaky = Flaky(q.store)
    alone = worker(q, stubborn, store=flaky)

    async def main() -> None:
        async with at_work(alone):
            await asyncio.sleep(1)
            flaky.away = True
            await asyncio.sleep(35)
            assert await worker(q, stubborn).maintenance.rescue_and_expire() == 1
            flaky.away = False
            await asyncio.sleep(140)

    clock.run(main())
    assert ran == [1, 2]
    assert put.result() == "by 2"
    assert q.get(put).deaths == 1
    assert kinds(q, put) == ["queued", "processing", "lost", "processing", "stale_result", "done"]


def test_a_handler_is_cancelled_when_its_lease_is_lost(q: Queue, clock: VirtualClock) -> None:
    seen: list[tuple[float, bool, bool]] = []

    @q.job()
    async def waits(n: int, job: Context) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            seen.append((clock.monotonic(), job.cancelled, job.lost))

    put = waits.enqueue(1)
    each = worker(q, waits)

    async def main() -> None:
        async with at_work(each):
            await asyncio.sleep(1)
            # As if another worker had taken it over: a newer fence.
            q.store.add(statements(STEAL, q.store.dialect))
            q.store.write(lambda tx: tx.query("steal", {"id": put.id}))
            await asyncio.sleep(20)

    clock.run(main())
    assert len(seen) == 1
    at, cancelled, lost = seen[0]
    assert at < 11
    assert cancelled
    assert lost
    assert q.get(put).state is JobState.RUNNING  # and nothing of it was written


def test_what_is_saved_after_the_lease_is_lost_is_refused(q: Queue, clock: VirtualClock) -> None:
    raised: list[type[BaseException]] = []
    q.store.add(statements(STEAL, q.store.dialect))

    @q.job()
    async def saves(n: int, job: Context) -> None:
        await job.save(good=1)
        q.store.write(lambda tx: tx.query("steal", {"id": job.id}))
        try:
            await job.save(late=1)
        except LeaseLost as lost:
            raised.append(type(lost))
            raise

    put = saves.enqueue(1)
    each = worker(q, saves)

    async def main() -> None:
        async with at_work(each):
            await asyncio.sleep(5)

    clock.run(main())
    assert raised == [LeaseLost]
    assert q.get(put).saved == {"good": 1}
    assert each.stats.lost == 1
    assert q.get(put).state is JobState.RUNNING


def test_saving_waits_for_a_store_that_is_away_for_a_moment(q: Queue, clock: VirtualClock) -> None:
    flaky = Flaky(q.store)

    @q.job()
    async def saves(n: int, job: Context) -> None:
        flaky.away = True
        asyncio.get_running_loop().call_later(8, lambda: setattr(flaky, "away", False))
        await job.save(step=1)

    put = saves.enqueue(1)

    async def main() -> None:
        async with at_work(worker(q, saves, store=flaky)):
            await asyncio.sleep(20)

    clock.run(main())
    assert (q.get(put).state, q.get(put).saved, q.get(put).attempt) == (JobState.DONE, {"step": 1}, 1)


def test_a_job_that_kills_its_worker_three_times_alone_is_failed_and_those_beside_it_are_not(
    q: Queue, clock: VirtualClock
) -> None:
    killers: dict[str, asyncio.Event] = {}
    begun: list[int] = []

    @q.job()
    async def job(n: int) -> None:
        begun.append(n)
        if n == 3:
            killers["now"].set()
            await asyncio.sleep(1000)
        await asyncio.sleep(5)

    put = job.enqueue_many([(each,) for each in range(8)])

    async def life() -> None:
        """One life of the only worker: it ends when it meets the third job."""
        killers["now"] = asyncio.Event()
        flaky = Flaky(q.store)
        each = worker(q, job, store=flaky, concurrency=8)
        task = asyncio.create_task(each.run(asyncio.Event()))
        killed = asyncio.create_task(killers["now"].wait())
        await asyncio.wait({killed}, timeout=60)
        if killed.done():
            flaky.away = True
        task.cancel()
        killed.cancel()
        await asyncio.gather(task, killed, return_exceptions=True)
        await asyncio.sleep(31)

    async def main() -> None:
        for _ in range(12):
            await life()

    clock.run(main())
    states = {n: q.get(each).state for n, each in enumerate(put)}
    assert begun.count(3) == 4  # once among the others
    assert max(q.get(each).deaths for n, each in enumerate(put) if n != 3) == 1
    assert states.pop(3) is JobState.FAILED
    assert q.get(put[3]).error_code == "worker_lost"
    assert set(states.values()) == {JobState.DONE}


def test_leases_must_outlast_their_renewal() -> None:
    with pytest.raises(ValueError, match="lease: 10 s"):
        WorkerPolicy(lease=10)
    with pytest.raises(ValueError, match="grace"):
        WorkerPolicy(grace=-1)
    with pytest.raises(ValueError, match="poll_every"):
        WorkerPolicy(poll_every=0)


def test_a_handler_that_blocks_the_loop_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:

        @q.job()
        async def blocks(n: int) -> None:
            time.sleep(3.5)  # noqa: ASYNC251 - the mistake that is to be seen

        put = blocks.enqueue(1)

        async def main() -> None:
            stop = asyncio.Event()
            task = asyncio.create_task(q.arun_worker(stop=stop))
            await put.wait("60s")
            async with asyncio.timeout(60):
                while "loop_stood_still" not in caplog.text:  # noqa: ASYNC110 - the log alone knows
                    await asyncio.sleep(0.05)
            stop.set()
            await task

        asyncio.run(main())


def test_a_long_handler_in_a_thread_does_not_keep_the_heart_from_beating(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:

        @q.job()
        def long(n: int, job: Context) -> Done[str]:
            seen = {q.get(job.id).lease_until}
            while len(seen) < 4:  # until it was renewed three times
                time.sleep(0.02)
                seen.add(q.get(job.id).lease_until)
            return Done("kept")

        put = long.enqueue(1)

        async def main() -> None:
            stop = asyncio.Event()
            short: dict[str, Any] = {"lease": 30.0, "renew_every": 0.2, "margin": 1.0, "sweep_every": 0.2}
            task = asyncio.create_task(q.arun_worker(stop=stop, **short))
            other = asyncio.create_task(q.arun_worker(stop=stop, **short))
            await put.wait("60s")
            stop.set()
            await asyncio.gather(task, other)

        asyncio.run(main())
        assert (put.result(), q.get(put).fence) == ("kept", 1)
