"""The health probe of a target of jobs: one worker asks for all, and it never moves further than half-open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Refusal, Service, breaker_of, moves, play, queue_on, states, working
from tidegate import Backoff, BreakerOptions, Target
from tidegate.clock import VirtualClock
from tidegate.jobs.queue import Queue
from tidegate.targets import reports
from tidegate.web.pages import formatters

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)

LATER = Backoff(7200, cap=7200, jitter=0)


class Probe:
    """A health question that is noted, and fails as long as it is told to."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.error: BaseException | None = None
        self.hangs = False
        self.takes = 0.0
        self.asked: list[float] = []

    def now(self) -> object:
        self.asked.append(round(self._clock.monotonic(), 1))
        if self.error is not None:
            raise self.error
        return "fine"

    async def later(self) -> object:
        await asyncio.sleep(self.takes)
        answer = self.now()
        if self.hangs:
            await asyncio.Event().wait()
        return answer


def target(probe: Callable[[], Any], **options: Any) -> Target:
    breaker: BreakerOptions = {"consecutive": 3, "max_requests": 2}
    return Target("svc", backoff=None, breaker=breaker, probe=probe, probe_every="10s", **options)


def calling(q: Queue, service: Service, to: Target) -> Any:
    @q.job(target=to, name="call", backoff=LATER)
    async def call(n: int) -> None:
        await service.call(n)

    return call


@pytest.mark.parametrize("colour", ["now", "later"])
def test_only_the_probe_ends_the_open_state_and_only_into_half_open(db: Database, colour: str) -> None:
    clock = VirtualClock()
    service, probe = Service(clock, ill=ConnectionError("x")), Probe(clock)
    with queue_on(db, clock) as q:
        call = calling(q, service, target(getattr(probe, colour)))
        call.enqueue_many([(each,) for each in range(20)])
        probe.error = ConnectionError("x")

        async def main() -> None:
            async with working(q, concurrency=3):
                await asyncio.sleep(300)
                assert breaker_of(q, "svc") == "open"
                assert len(service.calls) == 3
                assert len(probe.asked) == pytest.approx(30, abs=1)
                probe.error = None
                service.takes = 20
                await asyncio.sleep(11)
                asked = len(probe.asked)
                assert breaker_of(q, "svc") == "half-open"
                await asyncio.sleep(8)
                assert len(probe.asked) == asked  # it is asked only while the breaker is open
                assert len(service.calls) == 5
                service.ill = None
                await asyncio.sleep(15)
                assert breaker_of(q, "svc") == "closed"

        play(clock, main)
        ends = [event for event in q.target("svc").events() if event.fields.get("to") == "half-open"]
        assert [event.actor for event in ends] == ["probe"]


def left_open(db: Database, clock: VirtualClock, service: Service) -> None:
    """A program that asks a probe has ended while its breaker was open, and has left work behind."""
    probe = Probe(clock)
    probe.error = service.ill = ConnectionError("x")
    with queue_on(db, clock) as q:
        call = calling(q, service, target(probe.now))
        call.enqueue_many([(each,) for each in range(6)])

        async def main() -> None:
            async with working(q, concurrency=3):
                await asyncio.sleep(60)
                assert breaker_of(q, "svc") == "open"

        play(clock, main)
    service.ill, service.calls = None, []


@pytest.mark.parametrize(
    ("after", "moved"),
    [
        (Target("svc", breaker={"max_requests": 2}), [("open", "half-open"), ("half-open", "closed")]),
        (Target("svc"), [("open", "closed")]),
        (None, []),
    ],
    ids=["no probe", "no breaker", "no such target"],
)
def test_what_was_left_open_for_a_probe_goes_on_in_a_program_that_asks_none(
    db: Database, after: Target | None, moved: list[tuple[str, str]]
) -> None:
    clock = VirtualClock()
    service = Service(clock)
    left_open(db, clock, service)
    with queue_on(db, clock) as q:

        @q.job(target=after, name="call", backoff=LATER)
        async def call(n: int) -> None:
            await service.call(n)

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(120)

        play(clock, main)
        assert sorted(service.since(0)) == [3, 4, 5]  # the first three wait for their next attempt
        assert moves(q, "svc")[1:] == moved


def test_one_that_only_a_person_ends_stays_open_when_the_program_starts_again(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock)
    left_open(db, clock, service)
    with queue_on(db, clock) as q:
        calling(q, service, Target("svc", breaker={"timeout": None}))

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(120)

        play(clock, main)
        assert (breaker_of(q, "svc"), service.calls) == ("open", [])


def test_one_worker_asks_for_all(db: Database) -> None:
    clock = VirtualClock()
    service, probe = Service(clock), Probe(clock)
    probe.error = Refusal(503)
    queues = [queue_on(db, clock) for _ in range(4)]
    calls = [calling(q, service, target(probe.later)) for q in queues]
    calls[0].enqueue(1)

    async def main() -> None:
        async with working(*queues, concurrency=3):
            service.ill = ConnectionError("x")
            calls[0].enqueue_many([(2,), (3,), (4,)])
            await asyncio.sleep(205)

    play(clock, main)
    assert len(probe.asked) <= 21
    for q in queues:
        q.close()


def test_when_the_one_who_asks_is_gone_another_takes_over(db: Database) -> None:
    clock = VirtualClock()
    service, probe = Service(clock, ill=ConnectionError("x")), Probe(clock)
    probe.error = ConnectionError("x")
    first, second = queue_on(db, clock), queue_on(db, clock)
    calls = [calling(q, service, target(probe.later)) for q in (first, second)]
    calls[0].enqueue_many([(1,), (2,), (3,)])

    async def main() -> None:
        async with working(first):
            await asyncio.sleep(50)
            assert probe.asked
        seen = len(probe.asked)
        async with working(second):
            await asyncio.sleep(60)  # the lease of the first one runs out after 30 s
        assert len(probe.asked) > seen

    play(clock, main)
    first.close()
    second.close()


def test_a_probe_that_hangs_is_a_probe_that_fails(db: Database) -> None:
    clock = VirtualClock()
    service, probe = Service(clock, ill=ConnectionError("x")), Probe(clock)
    probe.hangs = True
    with queue_on(db, clock) as q:
        calling(q, service, target(probe.later)).enqueue_many([(1,), (2,), (3,)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(100)
                assert breaker_of(q, "svc") == "open"
                assert len(probe.asked) > 3

        play(clock, main)


def test_what_a_person_forced_open_no_probe_ends(db: Database) -> None:
    clock = VirtualClock()
    service, probe = Service(clock, takes=0), Probe(clock)
    with queue_on(db, clock) as q:
        calling(q, service, target(probe.later)).enqueue(1)

        async def main() -> None:
            q.target("svc").force("open", "5m", by="ada")
            async with working(q):
                await asyncio.sleep(299)
                assert (breaker_of(q, "svc"), probe.asked) == ("open", [])
                await asyncio.sleep(2)
                assert states(q) == {"done": 1}

        play(clock, main)


@pytest.mark.parametrize("takes", [0.0, 2.0])
def test_after_a_failure_the_probe_is_asked_at_once_and_if_it_fails_too_the_breaker_opens(
    db: Database, takes: float
) -> None:
    clock = VirtualClock()
    service, probe = Service(clock, takes=0, ill=Refusal(503)), Probe(clock)
    probe.error, probe.takes = ConnectionError("x"), takes  # nothing is claimed while the answer is awaited
    with queue_on(db, clock) as q:
        call = calling(q, service, target(probe.later, probe_after={"overloaded"}))
        jobs = call.enqueue_many([(each,) for each in range(10)])

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(5)
                assert breaker_of(q, "svc") == "open"
                # The first job failed once; no other was sent, and no attempt burnt.
                assert [q.get(job).attempt for job in jobs] == [1, *[0] * 9]
                assert probe.asked[0] == pytest.approx(takes, abs=0.1)

        play(clock, main)
        assert moves(q, "svc") == [("closed", "open")]
        found = q.store.read(lambda tx: reports.one(tx, "svc"))
        assert found.report.opened_by == "probe"
        assert "health probe" in found.report.reason
        assert found.report.rules["probe_after"] == ["overloaded"]
        assert "health probe" in found.reasons[0].message
        assert "health probe" in formatters.describe_event(found.events[0]).text


@pytest.mark.parametrize("ill", [Refusal(503), TimeoutError("x")])
def test_with_a_healthy_probe_one_failure_changes_nothing(db: Database, ill: Exception) -> None:
    clock = VirtualClock()
    service, probe = Service(clock, takes=0, ill=ill, ill_for={0}), Probe(clock)
    with queue_on(db, clock) as q:
        call = calling(q, service, target(probe.later, probe_after={"overloaded"}))
        call.enqueue_many([(each,) for each in range(5)])

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(5)

        play(clock, main)
        assert states(q) == {"done": 4, "waiting": 1}
        assert moves(q, "svc") == []
        # Only what is named is a reason to ask.
        assert len(probe.asked) == (1 if isinstance(ill, Refusal) else 0)


def test_in_a_cycle_the_probe_is_asked_once_before_it_begins(db: Database) -> None:
    clock = VirtualClock()
    service, probe = Service(clock, takes=0, ill=ConnectionError("x")), Probe(clock)
    probe.error = ConnectionError("x")
    with queue_on(db, clock) as q:
        call = calling(q, service, target(probe.later))
        call.enqueue_many([(each,) for each in range(8)])

        async def main() -> None:
            assert (await q.adrain(concurrency=1)).again == 3
            clock.advance("5m")
            assert (await q.adrain(concurrency=1)).held == 5
            probe.error = service.ill = None
            clock.advance("5m")
            assert (await q.adrain(concurrency=1)).done >= 2
            assert breaker_of(q, "svc") == "closed"
            assert len(probe.asked) == 2

        play(clock, main)


def test_there_must_be_a_probe_to_be_asked(db: Database) -> None:
    with pytest.raises(ValueError, match="probe_after"):
        Target("svc", breaker=True, probe_after=True)
    with pytest.raises(TypeError, match="set of codes"):
        Target("svc", breaker=True, probe=lambda: None, probe_after="GW_5XX")
