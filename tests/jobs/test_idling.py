"""A worker that has nothing to do costs next to nothing, and one whose jobs are held does not spin."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.jobs.building import Flaky, at_work, worker
from tidegate import Backoff, Queue, Rate, Target
from tidegate.clock import VirtualClock


@pytest.mark.alone
def test_an_idle_worker_uses_hardly_any_time_of_the_processor(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}") as q:

        @q.job()
        async def job(n: int) -> None: ...

        async def main() -> float:
            stop = asyncio.Event()
            task = asyncio.create_task(q.arun_worker(stop=stop))
            await asyncio.sleep(0.5)
            began = time.process_time()
            await asyncio.sleep(3)
            used = time.process_time() - began
            stop.set()
            await task
            return used / 3

        assert asyncio.run(main()) < 0.03


# Each holds a hundred ready jobs in another way; some let one go now and then.
HOLDS: dict[str, dict[str, object]] = {
    "an open breaker": {"breaker": {"consecutive": 2, "timeout": "2h"}},
    "a breaker that opens again and again": {"breaker": {"consecutive": 2, "timeout": "1m"}},
    "a backoff": {"backoff": Backoff("10m", cap="10m")},
    "a rate": {"rate": Rate(1, "10m")},
    "a limit that is taken": {"concurrency": 2},
}


@pytest.mark.parametrize("hold", HOLDS)
def test_a_worker_whose_jobs_are_held_does_not_spin(q: Queue, clock: VirtualClock, hold: str) -> None:
    target = Target("svc", "jobs", **HOLDS[hold])  # type: ignore[arg-type]

    @q.job(target=target, backoff=Backoff("3h", cap="3h"), attempts=100)
    async def call(n: int) -> None:
        if "limit" in hold:
            await asyncio.sleep(10_000)
        raise ConnectionError

    call.enqueue_many([(each,) for each in range(100)])
    flaky = Flaky(q.store)
    each = worker(q, call, store=flaky, targets=[target], poll_every=1.0, grace=0)

    async def main() -> None:
        async with at_work(each):
            await asyncio.sleep(1500)

    clock.run(main())
    # A look each second, one for those that are to be stopped, heartbeats and sweeps.
    assert 100 < next(flaky.writes) < 3 * 1500


def test_a_worker_with_long_jobs_and_no_room_does_not_spin(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def long(n: int) -> None:
        await asyncio.sleep(10_000)

    long.enqueue_many([(each,) for each in range(50)])
    flaky = Flaky(q.store)
    each = worker(q, long, store=flaky, concurrency=4, grace=0)

    async def main() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(each.run(stop))
        await asyncio.sleep(3600)
        stop.set()
        await task

    clock.run(main())
    assert next(flaky.writes) < 2 * 3600
