"""The store goes away, or its answers do: nothing is lost, nothing is doubled, and work goes on when it is back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.databases import POSTGRES, database
from tests.jobs.building import Flaky, at_work, until, worker
from tests.jobs.gating import queue_on, working
from tidegate.clock import VirtualClock
from tidegate.errors import StoreBusy, StoreError
from tidegate.jobs.context import Context
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Again
from tidegate.jobs.queue import Queue


def test_work_goes_on_by_itself_when_the_store_is_back(q: Queue, clock: VirtualClock) -> None:
    ran: Counter[int] = Counter()

    @q.job()
    async def job(n: int) -> int:
        ran[n] += 1
        await asyncio.sleep(0.5)
        return n

    put = job.enqueue_many([(each,) for each in range(60)])
    flaky = Flaky(q.store)
    each = worker(q, job, store=flaky, concurrency=4)

    async def main() -> None:
        async with at_work(each):
            for _ in range(5):
                await asyncio.sleep(1)
                flaky.away = True
                await asyncio.sleep(7)
                flaky.away = False
            await asyncio.sleep(20)

    clock.run(main())
    assert {q.get(each).state for each in put} == {JobState.DONE}
    assert set(ran.values()) == {1}  # what ended during an outage was written afterwards, and not run again


def test_an_answer_that_is_lost_after_the_commit_neither_loses_nor_doubles_anything(
    q: Queue, clock: VirtualClock
) -> None:
    ran: Counter[tuple[int, int]] = Counter()

    @q.job(attempts=5)
    async def job(n: int, job: Context) -> int:
        ran[n, job.attempt] += 1
        await asyncio.sleep(0.2)
        if n % 7 == 0 and job.attempt == 1:
            raise Again("2s")
        return n

    put = job.enqueue_many([(each,) for each in range(200)])
    flaky = Flaky(q.store)
    dice = random.Random(7)
    flaky.unheard = lambda n: dice.random() < 0.3
    each = worker(q, job, store=flaky, concurrency=8)

    async def main() -> None:
        async with at_work(each):
            await asyncio.sleep(60)
            flaky.unheard = lambda n: False
            await asyncio.sleep(10)

    clock.run(main())
    assert {q.get(each).state for each in put} == {JobState.DONE}
    assert set(ran.values()) == {1}
    assert {q.get(each).deaths for each in put} == {0}  # claims that were not heard of were adopted, not left to expire
    events = [event.kind for each in put for event in q.events(each)]
    assert Counter(events) == {"queued": 200, "processing": 229, "done": 200, "again": 29}


def test_an_adopted_job_knows_what_its_parents_returned(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def parent(n: int) -> str:
        return "above"

    seen: list[dict[int, str]] = []

    @q.job()
    async def child(n: int, job: Context) -> None:
        seen.append(dict(job.parent_results))

    flaky = Flaky(q.store)
    above = parent.enqueue(1)
    below = child.options(after=[above]).enqueue(1)
    each = worker(q, parent, child, store=flaky)

    async def main() -> None:
        async with at_work(each):
            flaky.unheard = lambda n: q.get(below).state is JobState.RUNNING
            await until(lambda: q.get(below).state is JobState.RUNNING)
            flaky.unheard = lambda n: False
            await asyncio.sleep(5)

    clock.run(main())
    assert seen == [{above.id: "above"}]


def test_a_cycle_waits_for_a_store_that_is_away_until_what_it_ran_is_written(q: Queue, clock: VirtualClock) -> None:
    ran = 0

    @q.job()
    async def job(n: int) -> str:
        nonlocal ran
        ran += 1
        flaky.away = True
        asyncio.get_running_loop().call_later(9, lambda: setattr(flaky, "away", False))
        return "kept"

    put = job.enqueue(1)
    flaky = Flaky(q.store)
    each = worker(q, job, store=flaky)

    tally = clock.run(each.drain())
    assert (put.result(), ran, tally.done) == ("kept", 1, 1)


def test_a_cycle_says_that_the_store_is_away_when_there_is_nothing_to_lose(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def job(n: int) -> None: ...

    job.enqueue(1)
    flaky = Flaky(q.store)
    flaky.away = True
    with pytest.raises(StoreBusy):
        clock.run(worker(q, job, store=flaky).drain())


def test_a_worker_may_start_before_its_store_is_there(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def job(n: int) -> None: ...

    put = job.enqueue(1)
    flaky = Flaky(q.store)
    flaky.away = True

    async def main() -> None:
        async with at_work(worker(q, job, store=flaky)):
            await asyncio.sleep(60)
            flaky.away = False
            await asyncio.sleep(10)

    clock.run(main())
    assert q.get(put).state is JobState.DONE


def test_a_heart_that_breaks_ends_the_worker_loudly_and_gives_back_what_it_held(q: Queue, clock: VirtualClock) -> None:
    @q.job()
    async def job(n: int) -> None:
        await asyncio.sleep(1000)

    put = job.enqueue(1)

    class Broken(Flaky):
        def write(self, work):  # type: ignore[no-untyped-def]
            if self.away and "Heartbeat.beat" in work.__qualname__:
                raise ZeroDivisionError("a bug")
            return self._store.write(work)

    broken = Broken(q.store)
    each = worker(q, job, store=broken)

    async def main() -> None:
        async with at_work(each):
            await asyncio.sleep(5)
            broken.away = True
            await asyncio.sleep(10)

    with pytest.raises(ZeroDivisionError):
        clock.run(main())
    assert (q.get(put).stage, q.get(put).attempt) == ("ready", 1)


def test_an_outcome_that_cannot_be_written_at_all_is_left_to_its_lease_and_not_begun_again_under_it(
    q: Queue, clock: VirtualClock
) -> None:
    ran: list[int] = []

    class Refuses(Flaky):
        def write(self, work):  # type: ignore[no-untyped-def]
            if self.away and "Producer." in work.__qualname__ and len(ran) == 1 and q.get(1).state is JobState.RUNNING:
                raise StoreError("this row is cursed")
            return self._store.write(work)

    @q.job()
    async def job(n: int, job: Context) -> None:
        ran.append(job.fence)
        await asyncio.sleep(1)

    put = job.enqueue(1)
    refuses = Refuses(q.store)
    refuses.away = True

    async def main() -> None:
        async with at_work(worker(q, job, store=refuses)):
            await asyncio.sleep(20)
            assert ran == [1]
            refuses.away = False
            await asyncio.sleep(60)

    clock.run(main())
    assert ran == [1, 2]
    assert (q.get(put).state, q.get(put).deaths) == (JobState.DONE, 1)


def test_workers_that_find_a_server_without_tables_wait_until_they_are_back(
    clock: VirtualClock, tmp_path: Path
) -> None:
    with database(POSTGRES, tmp_path, fresh=True) as db, queue_on(db, clock) as q:
        ran: Counter[int] = Counter()

        @q.job()
        async def job(n: int) -> None:
            ran[n] += 1
            await asyncio.sleep(1)

        put = job.enqueue_many([(each,) for each in range(10)])
        with psycopg.connect(db.url, autocommit=True) as server:
            ((name,),) = server.execute("select current_schema()").fetchall()

            def rename(old: str, new: str) -> None:
                server.execute(SQL("alter schema {} rename to {}").format(Identifier(old), Identifier(new)))

            async def main() -> None:
                async with working(q, concurrency=1):
                    await asyncio.sleep(3.5)
                    rename(name, f"{name}_gone")
                    await asyncio.sleep(300)  # many leases
                    found = ran.total()
                    rename(f"{name}_gone", name)
                    await asyncio.sleep(120)
                    assert found < 10

            clock.run(main())
        assert {q.get(each).state for each in put} == {JobState.DONE}
