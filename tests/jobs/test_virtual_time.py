"""Days on a virtual clock: many retries in seconds, the same run from the same dice, no write for what is held."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from tidegate import Backoff, Queue, Target
from tidegate.clock import VirtualClock
from tidegate.guard import Tuning
from tidegate.jobs.job import JobState
from tidegate.store.base import Tx
from tidegate.store.sql import Statement
from tidegate.testing import ScriptedTarget, work_for


@pytest.mark.full
def test_a_day_of_retries_takes_little_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    with Queue(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock, inline=True) as q:

        @q.job(attempts=50, backoff=Backoff("1m", cap="1h"))
        async def fails(n: int) -> None:
            raise ConnectionError

        put = fails.enqueue_many([(each,) for each in range(50)])
        began = time.process_time()
        tally = clock.run(work_for(q, "24h"))
        took = time.process_time() - began

        assert {q.get(job).state for job in put} == {JobState.QUEUED}
        assert 50 * 24 < tally.again < 50 * 32
    assert took < 120


@pytest.mark.full
def test_the_same_dice_give_the_same_day(tmp_path: Path) -> None:
    def day(name: str, seed: int) -> list[tuple[float, int, int]]:
        clock = VirtualClock()
        service = ScriptedTarget(outage="2h down, 30m down at 3h", clock=clock)
        seen: list[tuple[float, int, int]] = []
        target = Target("svc", breaker={"consecutive": 4, "timeout": "3m"}, concurrency=3, clock=clock)
        url = f"sqlite:///{tmp_path / name}"
        with Queue(url, clock=clock, inline=True, tuning=Tuning(rng=random.Random(seed).random)) as q:

            @q.job(target=target, key=lambda n: n % 5, attempts=40, backoff=Backoff("30s", cap="20m"))
            async def call(n: int) -> None:
                await asyncio.sleep(0.1 + n / 10)
                seen.append((clock.monotonic(), n, 0))
                service()

            call.enqueue_many([(each,) for each in range(30)])
            clock.run(work_for(q, "6h"))
            assert all(q.get(id_).state is JobState.DONE for id_ in range(1, 31))
        return seen

    one, same, other = day("a.db", 1), day("b.db", 1), day("c.db", 2)
    assert one == same
    assert one != other


COUNT = [
    f"create trigger {table}_{verb} after {verb} on {table} begin insert into written values ('{table} {verb}'); end"
    for table in ("tg_job", "tg_event")
    for verb in ("insert", "update", "delete")
]


def held_for_an_hour(folder: Path, jobs: int) -> list[tuple[str]]:
    """What was written to jobs and events while so many jobs stood behind an open breaker."""
    clock = VirtualClock()
    service = ScriptedTarget(outage="24h down", clock=clock)
    target = Target("svc", breaker={"consecutive": 3, "timeout": "2h"})
    with Queue(f"sqlite:///{folder / 'jobs.db'}", clock=clock, inline=True) as q:

        @q.job(target=target, key=lambda n: n % 7, backoff=Backoff("3h", cap="3h", jitter=0))
        async def call(n: int) -> None:
            service()

        for first in range(0, jobs, 10_000):
            call.enqueue_many([(each,) for each in range(first, min(jobs, first + 10_000))])

        async def main() -> None:
            stop = asyncio.Event()
            worker = asyncio.create_task(q.arun_worker(3, stop=stop, poll_every=1.0, sweep_every=5.0))
            await asyncio.sleep(60)  # it opens
            assert len(service.calls) == 3
            q.store.write(count)
            await asyncio.sleep(3600)
            found.extend(q.store.read(lambda tx: tx.query("written")))
            q.cancel(jobs)
            assert len(q.store.read(lambda tx: tx.query("written"))) == len(found) + 2  # it does count
            stop.set()
            await worker

        def count(tx: Tx) -> None:
            tx.execute("create table written (what text)")
            for each in COUNT:
                tx.execute(each)

        found: list[tuple[str]] = []
        q.store.add([Statement("written", "select what from written")])
        clock.run(main())
        assert len(service.calls) == 3
        return found


def test_what_is_held_for_an_hour_costs_no_write(tmp_path: Path) -> None:
    assert held_for_an_hour(tmp_path, 20_000) == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_million_jobs_that_are_held_for_an_hour_cost_no_write(tmp_path: Path) -> None:
    assert held_for_an_hour(tmp_path, 1_000_000) == []
