"""Testing a target now: one job that waits behind it goes at once; and an honest answer when there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.jobs.gating import Refusal, Service, breaker_of, play, working
from tests.text import names
from tidegate import Backoff, Breaker, Cooldown, Target
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound, Rejected
from tidegate.jobs import actions, explain
from tidegate.jobs.explain import TargetTest
from tidegate.jobs.queue import Queue
from tidegate.store.base import now_of

EVEN = Backoff(600, cap=7200, jitter=0)
AT_ONCE = Backoff(0.001, cap=0.001, jitter=0)  # of a job itself: only the gates of its target are looked at here
BROKEN = ConnectionError("x")


def calling(q: Queue, service: Service, target: Target, **options: Any) -> Any:
    kept = {"backoff": AT_ONCE, "attempts": 100, **options}

    @q.job(queue="calls", target=target, key=lambda who: who[0], name="call", **kept)
    async def call(who: str) -> None:
        await service.call(who[0])

    return call


def try_now(q: Queue, key: str | None = None) -> TargetTest:
    return q.target("svc").act(lambda tx: explain.begin(tx, "svc", "ada", key))


def target_with_breaker() -> Target:
    return Target("svc", backoff=None, breaker=Breaker("svc", consecutive=1, timeout=3600, max_requests=1))


def test_a_job_behind_an_open_breaker_goes_at_once_and_a_success_closes_it(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock, takes=0, ill=BROKEN)
    call = calling(q, service, target_with_breaker())

    async def main() -> TargetTest:
        async with working(q, concurrency=1):
            call.enqueue_many([("a1",), ("a2",)])
            await asyncio.sleep(60)
            assert (breaker_of(q, "svc"), len(service.calls)) == ("open", 1)
            service.ill = None
            trial = try_now(q)
            await asyncio.sleep(60)
            return trial

    trial = play(clock, main)

    assert (trial.breaker, trial.waits) == ("half-open", [])
    assert names(trial.says, trial.job, "a", "svc")
    assert breaker_of(q, "svc") == "closed"
    assert len(service.calls) == 3
    told = [(event.kind, event.actor) for event in reversed(q.target("svc").events())]
    assert ("breaker_state_changed", "ada") in told
    assert ("target_tested", "ada") in told


def test_a_test_that_fails_is_one_call_and_it_is_open_again(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock, takes=0, ill=BROKEN)
    call = calling(q, service, target_with_breaker())

    async def main() -> None:
        async with working(q, concurrency=1):
            call.enqueue_many([("a1",), ("a2",), ("b1",)])
            await asyncio.sleep(60)
            try_now(q)
            await asyncio.sleep(60)

    play(clock, main)

    assert (breaker_of(q, "svc"), len(service.calls)) == ("open", 2)


@pytest.mark.parametrize(
    ("ill", "target"),
    [
        (BROKEN, Target("svc", "jobs", backoff=EVEN)),
        (Refusal(401), Target("svc", "jobs", backoff=EVEN)),
        (Refusal(429, retry_after="3000"), Target("svc", "jobs", backoff=EVEN)),
        (Refusal(404), Target("svc", "jobs", backoff=EVEN, cooldown=Cooldown({"not_found": (1, "48h")}))),
    ],
    ids=["backoff", "fatal", "retry_after", "cooldown"],
)
def test_a_held_key_has_one_probe_and_is_free_when_it_succeeds(
    q: Queue, clock: VirtualClock, ill: Exception, target: Target
) -> None:
    service = Service(clock, takes=5, ill=ill, ill_for={"a"})
    call = calling(q, service, target)

    async def main() -> None:
        async with working(q, concurrency=1):
            call.enqueue("a1")
            await asyncio.sleep(60)
            call.enqueue_many([("a2",), ("a3",)])
            await asyncio.sleep(60)
            assert len(service.times("a")) == 1
            try_now(q, "a")
            await asyncio.sleep(2)
            assert len(service.times("a")) == 2  # one, while the others wait for it
            with pytest.raises(Rejected, match=r"job \d+ "):
                try_now(q, "a")
            await asyncio.sleep(8)
            assert len(service.times("a")) == 2
            service.ill = None
            try_now(q)
            await asyncio.sleep(60)

    play(clock, main)

    assert len(service.times("a")) >= 3
    assert q.target("svc").key("a").explain() == []


def test_a_job_that_waits_for_its_next_attempt_is_brought_forward(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock, takes=0, ill=BROKEN)
    call = calling(q, service, target_with_breaker(), backoff=Backoff(7200, cap=7200, jitter=0))

    async def main() -> None:
        async with working(q, concurrency=1):
            job = call.enqueue("a1")
            await asyncio.sleep(60)
            service.ill = None
            assert try_now(q).job == job.id
            await asyncio.sleep(60)
            assert q.get(job).state == "done"
            assert [(event.kind, event.actor) for event in q.events(job) if event.kind == "brought_forward"] == [
                ("brought_forward", "ada")
            ]

    play(clock, main)


def test_a_job_that_is_meant_for_later_is_not_used(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock)
    calling(q, service, target_with_breaker()).options(due="1h").enqueue("a1")
    q.target("svc").force("open", "2h")

    with pytest.raises(Rejected, match="job of svc"):
        try_now(q)
    assert breaker_of(q, "svc") == "open"


def test_what_cannot_be_tested_says_why_and_nothing_changes(q: Queue, clock: VirtualClock) -> None:
    call = calling(q, Service(clock), target_with_breaker())
    svc = q.target("svc")

    with pytest.raises(NotFound, match="'svx'"):
        svc.act(lambda tx: explain.begin(tx, "svx", "ada"))
    with pytest.raises(Rejected, match=" svc"):
        try_now(q)
    svc.force("open", "1h")
    with pytest.raises(Rejected, match="job of svc"):
        try_now(q)
    call.enqueue("a1")
    with pytest.raises(Rejected, match=r"\bb\b.*\bsvc\b"):
        try_now(q, "b")
    svc.pause("1h", by="bob")
    with pytest.raises(Rejected, match=r"svc .*bob"):
        try_now(q)
    assert breaker_of(q, "svc") == "open"
    svc.resume()
    try_now(q)
    with pytest.raises(Rejected, match="svc"):
        try_now(q)


def test_a_target_that_a_program_guards_by_itself_is_tested_by_that_program(q: Queue) -> None:
    q.store.write(lambda tx: tx.query("target_report", {"name": "weather", "summary": "{}"}))
    with pytest.raises(Rejected, match="weather"):
        q.store.write(lambda tx: explain.begin(tx, "weather", "ada"))


def test_what_still_stands_before_the_job_is_told(q: Queue, clock: VirtualClock) -> None:
    call = calling(q, Service(clock), target_with_breaker())
    call.enqueue("a1")
    q.target("svc").force("open", "1h")
    q.store.write(lambda tx: actions.pause_queue(tx, "calls", now_of(tx) + 60, "bob"))

    trial = try_now(q)

    assert [str(why.reason) for why in trial.waits] == ["paused", "no_worker"]
    assert names(trial.says, trial.job, "svc", trial.waits[0].message)


def test_a_job_of_a_key_that_nothing_else_holds_is_taken_first(q: Queue, clock: VirtualClock) -> None:
    call = calling(q, Service(clock), Target("svc", breaker=True))
    call.enqueue_many([("a1",), ("b1",)])
    q.target("svc").key("a").disable("1h")
    q.target("svc").force("open", "1h")

    assert try_now(q).key == "b"
    assert q.target("svc").key("a").explain() != []
