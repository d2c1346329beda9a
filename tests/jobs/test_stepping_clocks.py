"""The wall clock of a worker's host steps, the store's does not: nothing ends, and nothing goes, before its time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.databases import POSTGRES, Database
from tests.jobs.building import at_work, worker
from tidegate import Queue
from tidegate.clock import VirtualClock
from tidegate.store.clock import SteadyClock

FAR = 400 * 86400.0  # seconds; as when a machine without a battery learns the time

pytestmark = pytest.mark.parametrize("db", [POSTGRES], indirect=True)


@pytest.fixture
def q(db: Database) -> Iterator[Queue]:
    """By the server's clock."""
    with Queue(db.url) as found:
        yield found


def test_a_job_does_not_expire_by_a_step_of_the_workers_clock(q: Queue, clock: VirtualClock) -> None:
    @q.job(expires="1h")
    async def slow(n: int) -> None:
        await asyncio.sleep(3)

    jobs = slow.enqueue_many([(1,), (2,)])

    async def main() -> None:
        async with at_work(worker(q, slow, clock=clock, concurrency=1)):
            await asyncio.sleep(1)
            clock.step_wall(FAR)
            await asyncio.sleep(8)
            clock.step_wall(-FAR)

    clock.run(main())

    assert [job.state() for job in jobs] == ["done", "done"]


def test_history_is_kept_over_a_step_of_the_workers_clock(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def quick(n: int) -> None: ...

    job = quick.enqueue(1)

    async def main() -> None:
        async with at_work(worker(q, quick, clock=clock)):
            await asyncio.sleep(1)
            clock.step_wall(FAR)
            await asyncio.sleep(60)  # several sweeps, before a heartbeat and after
            clock.step_wall(-FAR)

    clock.run(main())

    assert job.state() == "done"
    assert [event.kind for event in q.events(job)] == ["queued", "processing", "done"]


def test_how_long_a_job_waits_and_lives_is_counted_by_the_clock_of_the_database(q: Queue, clock: VirtualClock) -> None:
    assert q.store.now() > clock.now() + FAR
    q.clock = SteadyClock(clock)  # that of a host which is years behind

    @q.job(expires="1h")
    def send(n: int) -> None: ...

    for each in (send.options(due="5m").enqueue(1), *send.options(due=300).enqueue_many([(2,), (3,)])):
        job = each.get()
        assert job.expires_at is not None
        assert (job.due_at - job.created_at, job.expires_at - job.created_at) == pytest.approx((300, 3600))
        assert job.stage == "waiting"
    assert send.options(due=0).enqueue(4).get().stage == "ready"
