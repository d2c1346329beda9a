"""Rate, concurrency and pauses of queues and targets, over all workers."""

from __future__ import annotations

import asyncio

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Service, play, queue_on, states, working
from tidegate import Rate, Target
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound
from tidegate.jobs.function import JobFunction
from tidegate.jobs.queue import Queue

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)


def calling(q: Queue, service: Service, target: Target | None, keys: int = 1) -> JobFunction[[int], None]:
    @q.job(queue="work", target=target, key=(lambda n: n % keys) if target else None, name="call")
    async def call(n: int) -> None:
        await service.call(n)

    return call


def test_no_more_jobs_of_a_target_are_under_way_than_it_allows_over_workers_and_keys(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1)
    queues = [queue_on(db, clock) for _ in range(3)]
    calls = [calling(q, service, Target("svc", concurrency=7), keys=40) for q in queues]
    calls[0].enqueue_many([(each,) for each in range(140)])

    async def main() -> None:
        async with working(*queues, concurrency=30):
            await asyncio.sleep(30)

    play(clock, main)
    assert (service.most, len(service.calls)) == (7, 140)
    # The places are always taken: 140 calls of a second, seven at a time.
    assert service.calls[-1][0] <= 21
    for q in queues:
        q.close()


def test_the_places_of_a_target_are_shared_by_the_queues_that_use_it(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1)
    with queue_on(db, clock) as q:
        shared = Target("svc", concurrency=3)
        for name in ("one", "two", "three"):

            @q.job(queue=name, target=shared, key=lambda n: n % 4, name=name)
            async def call(n: int) -> None:
                await service.call(n)

            call.enqueue_many([(each,) for each in range(10)])

        async def main() -> None:
            async with working(q, concurrency=30):
                await asyncio.sleep(15)

        play(clock, main)

    assert (service.most, len(service.calls)) == (3, 30)


def test_a_rate_goes_on_when_the_clock_is_set_back(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0)
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", rate=Rate(1, "10s")))
        call.enqueue_many([(each,) for each in range(3)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(1)
                clock.step_wall(-86_400)
                assert [why.reason for why in q.target("svc").explain()] == ["rate"]  # as before the step
                await asyncio.sleep(60)

        play(clock, main)

    assert len(service.calls) == 3
    assert service.calls[2][0] - service.calls[1][0] >= 10  # nor does it let them all go


@pytest.mark.parametrize(("rate", "spacing", "at_once"), [(Rate(1, "3s"), 3.0, 1), (Rate(20, "1s", burst=5), 0.05, 5)])
def test_jobs_of_a_target_come_no_quicker_than_its_rate_and_no_slower(
    db: Database, rate: Rate, spacing: float, at_once: int
) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0)
    queues = [queue_on(db, clock) for _ in range(2)]
    calls = [calling(q, service, Target("svc", rate=rate), keys=3) for q in queues]
    calls[0].enqueue_many([(each,) for each in range(20)])

    async def main() -> None:
        async with working(*queues, concurrency=10):
            await asyncio.sleep(100)

    play(clock, main)
    times = [at for at, _ in service.calls]
    assert len(times) == 20
    assert times[at_once - 1] == 0
    for n, at in enumerate(times[at_once:], 1):
        assert n * spacing - 0.002 <= at <= n * spacing + 0.05
    for q in queues:
        q.close()


def test_a_paused_queue_waits_for_its_end_and_others_do_not(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0)
    with queue_on(db, clock) as q:
        call = calling(q, service, None)

        @q.job(queue="other", name="other")
        async def other(n: int) -> None:
            await service.call("other")

        call.enqueue_many([(1,), (2,)])
        other.enqueue(1)
        until = q.pause("work", "90s", by="ada")
        assert until == clock.now() + 90

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(200)

        play(clock, main)

    assert [who for at, who in service.calls if at < 1] == ["other"]
    # It wakes at the end of the pause, not at some next look.
    assert [at for at, who in service.calls if who != "other"] == [90.0, 90.0]


def test_a_resumed_queue_goes_on_at_once(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0)
    with queue_on(db, clock) as q:
        call = calling(q, service, None)
        call.enqueue(1)

        async def main() -> None:
            q.pause("work", "1d")
            async with working(q):
                await asyncio.sleep(10)
                assert q.resume("work")
                await asyncio.sleep(0.5)
                assert len(service.calls) == 1
                assert not q.resume("work")

        play(clock, main)


def test_a_target_without_any_limit_can_be_paused_too(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0)
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc"))
        call.enqueue_many([(1,), (2,)])

        async def main() -> None:
            q.target("svc").pause("1m", by="ada")
            async with working(q):
                await asyncio.sleep(59)
                assert not service.calls
                await asyncio.sleep(2)

        play(clock, main)
        assert states(q) == {"done": 2}


@pytest.mark.parametrize("until", [-5, 0, "0s", float("nan")])
def test_a_pause_has_an_end_that_is_ahead(db: Database, until: object) -> None:
    with queue_on(db, VirtualClock()) as q:
        calling(q, Service(VirtualClock()), Target("svc"))
        with pytest.raises(ValueError, match="until"):
            q.pause("work", until)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="until"):
            q.target("svc").pause(until)  # type: ignore[arg-type]


def test_what_does_not_exist_cannot_be_paused(db: Database) -> None:
    with queue_on(db, VirtualClock()) as q:
        calling(q, Service(VirtualClock()), Target("svc"))
        with pytest.raises(NotFound, match="'work'"):
            q.pause("wrok", "1h")
        with pytest.raises(NotFound, match="no target 'other'"):
            q.target("other").pause("1h")
