"""What a target that has come back is given: not everything when it hangs, not ever less, and with an end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Service, play, queue_on, states, working
from tidegate import Rate, Target
from tidegate.clock import VirtualClock
from tidegate.guard.limits import AdaptiveLimit, LimitPhase, advance, mark_limited, record_success
from tidegate.jobs.queue import Queue
from tidegate.targets import table
from tidegate.targets.breaker import StoredBreaker


def breaker_of(q: Queue) -> StoredBreaker:
    row = q.store.read(lambda tx: table.target(tx, "svc"))
    assert row is not None
    return row.breaker


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_a_service_that_hangs_at_its_limit_is_not_given_everything(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=200)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None, breaker=True))
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(200)])

        async def main() -> None:
            q.target("svc").force("closed")
            resting = AdaptiveLimit(phase=LimitPhase.STEADY, most=8, since=clock.now(), rate=20.0)
            row = breaker_of(q)
            q.store.write(lambda tx: table.put_breaker(tx, "svc", row, replace(row, adaptive_limit=resting)))
            async with working(q, concurrency=100, grace=0):
                await asyncio.sleep(70)  # a rest, and a trial
                assert service.most == 8

        play(clock, main)


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_what_a_person_opened_or_closed_holds_a_target_without_a_breaker_for_no_longer_than_they_said(
    db: Database,
) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=10)
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None, breaker=None, rate=Rate(1000, "1s")))
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue_many([(each,) for each in range(200)])

        async def main() -> None:
            q.target("svc").force("open", "1m")
            async with working(q, concurrency=50):
                await asyncio.sleep(59)
                assert not service.calls
                await asyncio.sleep(200)
                assert breaker_of(q).adaptive_limit is None

        play(clock, main)
        assert service.most == 50
        assert states(q) == {"done": 200}
        assert breaker_of(q).state == "closed"


def test_a_target_whose_answers_take_longer_is_not_given_ever_less() -> None:
    # A hundred under way brought 100 a second. From now on each takes three times as long, and it bears any number.
    climb: AdaptiveLimit | None = AdaptiveLimit(phase=LimitPhase.STEADY, most=100, since=0.0, rate=100.0)
    for second in range(600):
        climb = None if climb is None else advance(climb, float(second))
        if climb is not None:
            each = 3.0 if second < 60 else 3.1
            climb = mark_limited(record_success(climb, round(climb.allowed(float(second)) / each)))
        assert climb is None or climb.most >= 50, second
    assert climb is None or climb.most > 100
