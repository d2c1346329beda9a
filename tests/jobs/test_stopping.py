"""A stop: no more claims, what has not begun goes back, what runs may finish, and nothing hangs for ever."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.building import Flaky, until, worker
from tidegate.clock import VirtualClock
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Again
from tidegate.jobs.queue import Queue
from tidegate.jobs.threads import ThreadExecutors


async def stopped_after(seconds: float, q: Queue, **numbers: Any) -> float:
    """Works so long, then stops; returns how long the stop took."""
    stop = asyncio.Event()
    task = asyncio.create_task(q.arun_worker(2, stop=stop, **numbers))
    await asyncio.sleep(seconds)
    asked = q.clock.monotonic()
    stop.set()
    await task
    return q.clock.monotonic() - asked


def test_what_runs_may_finish_within_the_grace_and_nothing_else_is_begun(q: Queue, clock: VirtualClock) -> None:
    begun: list[int] = []

    @q.job()
    async def slow(n: int) -> int:
        begun.append(n)
        await asyncio.sleep(10)
        return n

    slow.enqueue_many([(each,) for each in range(5)])
    took = clock.run(stopped_after(5, q, grace=20))

    assert 4.9 < took < 5.1
    assert begun == [0, 1]
    assert [q.get(id_).state for id_ in (1, 2)] == [JobState.DONE, JobState.DONE]
    assert [(q.get(id_).state, q.get(id_).attempt) for id_ in (3, 4, 5)] == [(JobState.QUEUED, 0)] * 3


def test_what_was_claimed_ahead_is_given_back_with_its_attempt(q: Queue, clock: VirtualClock) -> None:
    slow = asyncio.Event()

    @q.job()
    async def quick(n: int) -> None:
        if slow.is_set():
            await asyncio.sleep(0.9)

    async def main() -> None:
        stop = asyncio.Event()
        quick.enqueue_many([(each,) for each in range(100)])
        task = asyncio.create_task(q.arun_worker(5, stop=stop))
        await until(lambda: q.get(100).state is JobState.DONE)
        slow.set()
        quick.enqueue_many([(each,) for each in range(20)])
        await asyncio.sleep(0.5)
        held = [q.get(id_) for id_ in range(101, 121) if q.get(id_).state is JobState.RUNNING]
        assert len(held) == 10  # five of them wait for a slot
        stop.set()
        await task

    clock.run(main())

    found = [q.get(id_) for id_ in range(101, 121)]
    assert sum(job.state is JobState.DONE for job in found) == 5
    rest = [job for job in found if job.state is not JobState.DONE]
    assert {(job.stage, job.attempt) for job in rest} == {("ready", 0)}
    assert sorted(job.fence for job in rest) == [0] * 10 + [1] * 5


def test_what_was_claimed_ahead_does_not_wait_behind_slow_jobs(q: Queue, clock: VirtualClock) -> None:
    slow = asyncio.Event()

    @q.job()
    async def job(n: int) -> None:
        if slow.is_set():
            await asyncio.sleep(600)

    async def main() -> None:
        stop = asyncio.Event()
        job.enqueue_many([(each,) for each in range(50)])
        task = asyncio.create_task(q.arun_worker(5, stop=stop))
        await until(lambda: q.get(50).state is JobState.DONE)
        slow.set()
        job.enqueue_many([(each,) for each in range(20)])
        await asyncio.sleep(5)
        assert sum(q.get(id_).state is JobState.RUNNING for id_ in range(51, 71)) == 5
        stop.set()
        await task

    clock.run(main())


@pytest.mark.parametrize("now", [0.0, 57.9, 58.1, 1_700_000_017.5])
def test_work_without_an_end_makes_room_after_an_hour_just_before_the_next_is_put_in(now: float) -> None:
    end = Context.end_of_turn(now)
    assert 3598 < end - now <= 3658
    assert end % 60 == 58


def test_work_without_an_end_ends_when_its_queue_is_paused_and_goes_on_when_that_is_over(
    q: Queue, clock: VirtualClock
) -> None:
    async def without_end(n: int, job: Context) -> None:
        while not job.stopping:  # noqa: ASYNC110 - as work without an end does
            await asyncio.sleep(1)
        raise Again(keep_attempt=True)

    polls = q.job(queue="polls", name="polls")(without_end).enqueue(1)
    others = q.job(queue="others", name="others")(without_end).enqueue(1)

    async def main() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(q.arun_worker(stop=stop))
        await until(lambda: q.get(polls).state is JobState.RUNNING)
        q.pause("polls", "10m", by="ada")
        await asyncio.sleep(30)
        assert (q.get(polls).state, q.get(polls).attempt) == (JobState.QUEUED, 0)
        assert (q.get(others).state, q.get(others).fence) == (JobState.RUNNING, 1)
        await asyncio.sleep(600)
        assert (q.get(polls).state, q.get(polls).fence) == (JobState.RUNNING, 2)
        stop.set()
        await task

    clock.run(main())


def test_after_the_grace_an_async_handler_is_cancelled_and_its_job_given_back(q: Queue, clock: VirtualClock) -> None:
    told: list[bool] = []

    @q.job(attempts=3)
    async def endless(n: int, job: Context) -> None:
        try:
            await asyncio.sleep(10_000)
        finally:
            told.append(job.cancelled)

    job = endless.enqueue(1)
    took = clock.run(stopped_after(5, q, grace=20))

    assert 19.9 < took < 20.1
    assert told == [True]
    found = q.get(job)
    assert (found.stage, found.attempt, found.deaths) == ("ready", 1, 0)  # something was sent: the attempt counts
    assert [event.kind for event in q.events(job)] == ["queued", "processing", "given_back"]


def test_a_job_that_is_cut_short_on_its_last_attempt_is_not_tried_once_more(q: Queue, clock: VirtualClock) -> None:
    begun = 0

    @q.job(attempts=1)
    async def once(n: int) -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(10_000)

    job = once.enqueue(1)
    clock.run(stopped_after(5, q, grace=1))
    clock.run(stopped_after(5, q, grace=1))

    assert begun == 1
    assert (q.get(job).state, q.get(job).error_code, q.get(job).attempt) == (JobState.FAILED, "worker_lost", 1)


def test_a_handler_that_swallows_its_cancellation_is_left_behind(
    q: Queue, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    @q.job()
    async def stubborn(n: int) -> str:
        while not release.is_set():
            try:
                await asyncio.sleep(10_000)
            except asyncio.CancelledError:
                continue
        return "at last"

    job = stubborn.enqueue(1)

    async def main() -> float:
        took = await stopped_after(5, q, grace=20)
        release.set()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return took

    took = clock.run(main())

    assert 24.9 < took < 26.1
    assert "handler_hangs" in caplog.text
    assert (q.get(job).stage, q.get(job).attempt) == ("ready", 1)


def test_a_thread_that_hangs_does_not_keep_the_worker_from_ending(tmp_path: Path) -> None:
    release, both = threading.Event(), threading.Semaphore(0)
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:

        @q.job()
        def hangs(n: int) -> None:
            both.release()
            release.wait(240)

        @q.job()
        def looks(n: int, job: Context) -> str:
            both.release()
            while not job.cancelled:
                time.sleep(0.01)
            return "stopped by itself"

        stuck, polite = hangs.enqueue(1), looks.enqueue(1)

        async def main() -> None:
            stop = asyncio.Event()
            task = asyncio.create_task(q.arun_worker(2, stop=stop, grace=0.2))
            for _ in range(2):
                assert await asyncio.to_thread(both.acquire, timeout=60)
            stop.set()
            await task

        asyncio.run(main())

        assert not release.is_set()  # it hangs still
        assert (q.get(stuck).stage, q.get(stuck).attempt) == ("ready", 1)
        assert polite.result() == "stopped by itself"
        release.set()


def test_a_worker_whose_task_is_cancelled_gives_back_what_it_holds(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def endless(n: int) -> None:
        await asyncio.sleep(10_000)

    endless.enqueue_many([(each,) for each in range(8)])

    async def main() -> float:
        task = asyncio.create_task(q.arun_worker(4))
        await asyncio.sleep(3)
        task.cancel()
        asked = clock.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return clock.monotonic() - asked

    assert clock.run(main()) < 1
    found = [q.get(id_) for id_ in range(1, 9)]
    assert {job.stage for job in found} == {"ready"}
    assert [job.attempt for job in found] == [1] * 4 + [0] * 4


def test_a_stop_ends_in_time_when_the_store_is_away(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def slow(n: int) -> None:
        await asyncio.sleep(10)

    job = slow.enqueue(1)
    flaky = Flaky(q.store)
    each = worker(q, slow, store=flaky, grace=20)

    async def main() -> float:
        stop = asyncio.Event()
        task = asyncio.create_task(each.run(stop))
        await asyncio.sleep(5)
        flaky.away = True
        stop.set()
        asked = clock.monotonic()
        await task
        return clock.monotonic() - asked

    assert clock.run(main()) < each.policy.longest_stop
    assert q.get(job).state is JobState.RUNNING  # until its lease ends, and another worker takes it


def test_a_stop_during_an_outage_writes_what_ended_when_the_store_is_back(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def slow(n: int) -> str:
        await asyncio.sleep(10)
        return "kept"

    job = slow.enqueue(1)
    flaky = Flaky(q.store)
    each = worker(q, slow, store=flaky, grace=20)

    async def main() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(each.run(stop))
        await asyncio.sleep(5)
        flaky.away = True
        await asyncio.sleep(1)
        stop.set()
        await asyncio.sleep(10)
        flaky.away = False
        await task

    clock.run(main())
    assert job.result() == "kept"


def test_a_worker_does_not_begin_what_it_finds_out_about_while_it_stops(q: Queue, clock: VirtualClock) -> None:
    begun: list[int] = []

    @q.job()
    async def slow(n: int) -> None:
        begun.append(n)
        await asyncio.sleep(10)

    slow.enqueue(0)
    flaky = Flaky(q.store)
    each = worker(q, slow, store=flaky)

    async def main() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(each.run(stop))
        await asyncio.sleep(5)
        flaky.unheard = lambda n: True  # from now on every answer is lost
        slow.enqueue(1)
        await asyncio.sleep(1.5)
        assert q.get(2).state is JobState.RUNNING  # claimed, and the worker does not know
        stop.set()
        flaky.unheard = lambda n: False
        await task

    clock.run(main())
    assert begun == [0]
    assert (q.get(2).stage, q.get(2).attempt) == ("ready", 0)


def test_real_threads_hand_over_work_and_results() -> None:
    async def main() -> None:
        threads = ThreadExecutors(3)
        names = await asyncio.gather(*(threads.handler(lambda: threading.current_thread().name) for _ in range(20)))
        assert len(set(names)) <= 3
        with pytest.raises(ZeroDivisionError):
            await threads.store(lambda: 1 // 0)
        assert await threads.beat(lambda: threading.current_thread().daemon)
        threads.close()

    asyncio.run(main())


def test_a_slot_that_breaks_ends_the_worker_loudly_and_gives_its_job_back(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def raises(n: int) -> None:
        raise ConnectionError

    put = raises.enqueue(1)
    each = worker(q, raises, sweep_every=1000)
    rolled: list[float] = []

    def dice() -> float:
        rolled.append(0.5)
        if len(rolled) > 1:  # the first roll is the sweeper's, the second asks when to try again
            raise ZeroDivisionError("a bug")
        return 0.5

    each.rng = dice
    with pytest.raises(ZeroDivisionError):
        clock.run(each.run(asyncio.Event()))
    assert clock.monotonic() < 60
    assert (q.get(put).stage, q.get(put).attempt) == ("ready", 1)


def test_a_plain_handler_that_raises_stop_iteration_has_failed_like_any_other(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:

        @q.job(attempts=1)
        def stops(n: int) -> None:
            next(iter(()))

        put = stops.enqueue(1)
        assert q.drain().failed == 1
        assert (q.get(put).state, q.get(put).error_code) == (JobState.FAILED, "unexpected")


def test_work_that_could_go_on_for_long_learns_at_once_that_its_worker_stops(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def endless(_: int, job: Context) -> None:
        while not job.stopping:  # noqa: ASYNC110 - a flag is what it has
            await asyncio.sleep(0.1)
        raise Again(keep_attempt=True)

    endless.enqueue(1)
    took = clock.run(stopped_after(5, q, grace=20))

    assert took < 1
    assert (q.get(1).state, q.get(1).attempt) == (JobState.QUEUED, 0)
