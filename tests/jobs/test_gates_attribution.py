"""What a job does to its target: a bug of the job itself says nothing, and a late success ends no later hold."""

from __future__ import annotations

import asyncio

from tests.databases import Database
from tests.jobs.gating import breaker_of, play, queue_on, states, working
from tidegate import Backoff, Target
from tidegate.clock import VirtualClock
from tidegate.targets import table


def test_a_bug_of_a_job_counts_for_the_job_and_not_for_its_target(db: Database) -> None:
    clock = VirtualClock()
    tried: list[float] = []
    with queue_on(db, clock) as q:
        target = Target("svc", "jobs", backoff=Backoff("1h", cap="1h"), breaker={"consecutive": 2})

        @q.job(target=target, attempts=4, backoff=Backoff(10, cap=10, jitter=0))
        async def broken(who: str) -> int:
            tried.append(round(clock.monotonic()))
            return dict[str, int]()[who]

        broken.enqueue("a")

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(60)

        play(clock, main)

        assert [at - tried[0] for at in tried] == [0, 10, 20, 30], "its own ladder, not that of the target"
        assert states(q) == {"failed": 1}
        assert breaker_of(q, "svc") == "closed"
        assert q.store.read(lambda tx: table.hold(tx, "svc", "")) is None


def test_a_job_that_began_before_a_failure_does_not_end_its_hold(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", "jobs", backoff=Backoff("1h", cap="1h", jitter=0)), backoff=Backoff("1d", cap="1d"))
        async def call(takes: int) -> None:
            await asyncio.sleep(takes)
            if takes == 5:
                raise ConnectionError("down")

        call.enqueue_many([(20,), (5,)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(60)

        play(clock, main)

        hold = q.store.read(lambda tx: table.hold(tx, "svc", ""))
        assert hold is not None
        assert (hold.reason, hold.failures) == ("backoff", 1)
