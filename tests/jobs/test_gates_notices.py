"""What people are told of the targets of jobs: rows, written with the change, once per episode over all processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.building import Flaky, at_work, worker
from tests.jobs.gating import Refusal, Service, play, queue_on, working
from tidegate import Backoff, Cooldown, Target, subscribe
from tidegate.clock import VirtualClock
from tidegate.events import EventKind, Notice
from tidegate.faults.codes import CORE
from tidegate.guard import Tuning
from tidegate.jobs.queue import Queue
from tidegate.notices import inbox
from tidegate.notices.inbox import NoticeLine

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)

AT_ONCE = Backoff(0.001, cap=0.001, jitter=0)
EVEN = Backoff(30, cap=120, jitter=0)


def calling(q: Queue, service: Service, target: Target) -> Any:
    @q.job(target=target, key=lambda who: who[0], name="call", backoff=AT_ONCE, attempts=100)
    async def call(who: str) -> None:
        await service.call(who[0])

    return call


def listed(q: Queue) -> list[NoticeLine]:
    """The oldest first."""
    return q.store.read(inbox.list_notices).items[::-1]


def kinds(q: Queue) -> list[tuple[str, str, bool]]:
    return [(line.kind, line.key, line.open) for line in listed(q)]


def heard(work: Callable[[], object]) -> list[Notice]:
    """The notices that are published in this process meanwhile."""
    with subscribe() as events:
        work()
        return [event.notice for event in events.drain() if event.kind is EventKind.NOTICE and event.notice]


def for_a_while(q: Queue, seconds: float) -> Callable[[], Coroutine[Any, Any, None]]:
    async def main() -> None:
        async with working(q):
            await asyncio.sleep(seconds)

    return main


def test_a_refused_key_is_one_notice_and_its_recovery_another(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1, ill=Refusal(401), ill_for={"a"})
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", "jobs", backoff=EVEN))
        call.enqueue_many([("a1",), ("a2",), ("b1",)])

        first = heard(lambda: play(clock, for_a_while(q, 5)))
        assert [(each.kind, each.key, each.code) for each in first] == [("fatal", "a", "unauthorized")]
        (line,) = listed(q)
        assert (line.kind, line.level, line.subject, line.name, line.key) == ("fatal", "error", "target", "svc", "a")
        assert (line.code, line.open, "svc" in line.title) == ("unauthorized", True, True)
        assert (line.message, line.advice) == (CORE["unauthorized"].message, CORE["unauthorized"].advice)
        assert first[0].message == f"{line.message} {line.advice}"
        assert first[0].episode == line.episode

        q.target("svc").key("a").clear(by="ada")
        assert kinds(q) == [("fatal", "a", False)]  # a person has dealt with it

        assert (
            len(heard(lambda: play(clock, for_a_while(q, 5)))) == 1
        )  # the new credentials are no better: a new episode
        assert kinds(q) == [("fatal", "a", False), ("fatal", "a", True)]


def test_a_worker_that_is_started_again_tells_nobody_twice_and_tells_of_the_end(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1, ill=Refusal(402))  # asked again after an hour
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", "jobs", backoff=EVEN))
        call.enqueue("a1")
        assert len(heard(lambda: play(clock, for_a_while(q, 5)))) == 1
    with queue_on(db, clock) as q:
        calling(q, service, Target("svc", "jobs", backoff=EVEN))
        assert heard(lambda: play(clock, for_a_while(q, 3700))) == []
        assert len(service.calls) == 2
        assert kinds(q) == [("fatal", "a", True)]
        service.ill = None
    with queue_on(db, clock) as q:
        calling(q, service, Target("svc", "jobs", backoff=EVEN))
        (back,) = heard(lambda: play(clock, for_a_while(q, 3700)))
        fatal, recovered = listed(q)
        assert (back.kind, back.episode) == ("recovered", fatal.episode)
        assert (recovered.kind, recovered.level, recovered.open) == ("recovered", "success", False)
        assert fatal.ended_at == recovered.created_at
        assert recovered.episode == fatal.episode


def test_one_outage_that_many_workers_see_is_told_once(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1, ill=Refusal(401))
    queues = [queue_on(db, clock) for _ in range(3)]
    calls = [calling(q, service, Target("svc", "jobs", backoff=EVEN)) for q in queues]
    calls[0].enqueue_many([(each,) for each in ["a"] * 9])

    async def main() -> None:
        async with working(*queues, concurrency=3):
            await asyncio.sleep(20)

    assert len(heard(lambda: play(clock, main))) == 1
    assert kinds(queues[0]) == [("fatal", "a", True)]
    for q in queues:
        q.close()


@pytest.mark.parametrize("told", [True, False])
def test_a_wait_that_has_grown_as_long_as_it_will_is_told_if_people_want_it(db: Database, told: bool) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=ConnectionError("x"))
    with queue_on(db, clock) as q:
        calling(q, service, Target("svc", "jobs", backoff=EVEN, tuning=Tuning(cap_notice=told))).enqueue("a")
        play(clock, for_a_while(q, 100))  # 30, 60 s: the next wait is the longest
        assert kinds(q) == ([("cap", "a", True)] if told else [])
        play(clock, for_a_while(q, 600))
        service.ill = None
        play(clock, for_a_while(q, 200))
        assert kinds(q) == ([("cap", "a", False), ("recovered", "a", False)] if told else [])


def test_a_key_that_rests_by_itself_is_told_and_so_is_the_end_of_it(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(410))
    cooldown = Cooldown({"gone": (1, "1h")})
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", backoff=None, cooldown=cooldown))
        call.enqueue("a")
        assert [each.kind for each in heard(lambda: play(clock, for_a_while(q, 60)))] == ["disabled"]
        (line,) = listed(q)
        assert (line.kind, line.level, line.title) == ("disabled", "warning", "svc is resting")
        call.enqueue("a")
        # The probe fails: it rests again, and people know.
        assert heard(lambda: play(clock, for_a_while(q, 3700))) == []
        assert kinds(q) == [("disabled", "a", True)]
        service.ill = None
        call.enqueue("a")
        play(clock, for_a_while(q, 3700))
        assert kinds(q) == [("disabled", "a", False), ("recovered", "a", False)]


def test_who_enables_a_key_ends_the_notice_of_its_rest(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(410))
    with queue_on(db, clock) as q:
        calling(q, service, Target("svc", backoff=None, cooldown=Cooldown({"gone": (1, "1h")}))).enqueue("a")
        play(clock, for_a_while(q, 60))
        assert kinds(q) == [("disabled", "a", True)]

        q.target("svc").key("a").disable("2h", by="ada")
        assert q.target("svc").key("a").enable(by="ada")
        assert kinds(q) == [("disabled", "a", False)]


def test_a_notice_is_written_with_its_change_or_not_at_all(db: Database) -> None:
    """When the transaction of the change fails there is neither, and nothing was heard."""
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(401))
    with queue_on(db, clock) as q:
        target = Target("svc", "jobs", backoff=EVEN)
        call = calling(q, service, target)
        call.enqueue("a")
        flaky = Flaky(q.store)

        async def work(seconds: float) -> None:
            async with at_work(worker(q, call, store=flaky, targets=[target])):
                await asyncio.sleep(seconds)

        flaky.undone = lambda tx: inbox.unread(tx) > 0
        assert heard(lambda: play(clock, lambda: work(5))) == []
        assert (kinds(q), q.target("svc").events()) == ([], [])
        flaky.undone = lambda tx: False
        assert len(heard(lambda: play(clock, lambda: work(120)))) == 1
        assert kinds(q) == [("fatal", "a", True)]
