"""What people do: checked first, done in one transaction, and an event with the one who did it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.jobs.gating import play, states, working
from tidegate import Target
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound, Rejected
from tidegate.jobs import actions
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue
from tidegate.targets import table


def failing(q: Queue, clock: VirtualClock, jobs: int, **options: Any) -> list[int]:
    """So many jobs that have failed, half of them with each of two codes."""

    @q.job(queue="mail", name="send", **options)
    async def send(n: int) -> None:
        raise Fail("bad_request" if n % 2 else "gone")

    made = [job.id for job in send.enqueue_many([(each,) for each in range(jobs)])]

    async def main() -> None:
        await q.adrain()

    play(clock, main)
    assert states(q) == {"failed": jobs}
    return made


def do(q: Queue, action: Any, *args: Any, **kwargs: Any) -> Any:
    return q.store.write(lambda tx: action(tx, *args, **kwargs))


def test_a_failed_job_is_retried_and_its_history_says_by_whom(q: Queue, clock: VirtualClock) -> None:
    (job,) = failing(q, clock, 1)

    do(q, actions.retry, job, "ada")

    assert q.get(job).state is JobState.QUEUED
    assert [(event.kind, event.actor) for event in q.events(job)][-1] == ("retried", "ada")


def test_a_job_that_has_not_failed_is_not_retried(q: Queue, clock: VirtualClock) -> None:
    (job,) = failing(q, clock, 1)
    do(q, actions.retry, job, "ada")

    with pytest.raises(Rejected, match=f"job {job} is queued"):
        do(q, actions.retry, job, "ada")


def test_a_queued_job_is_cancelled_once(q: Queue, clock: VirtualClock) -> None:
    (job,) = failing(q, clock, 1)
    do(q, actions.retry, job, "ada")

    assert do(q, actions.cancel, job, "bob") == "cancelled"
    assert [(event.kind, event.actor) for event in q.events(job)][-1] == ("cancelled", "bob")
    with pytest.raises(Rejected, match=f"job {job} is cancelled"):
        do(q, actions.cancel, job, "bob")


def test_a_forgotten_job_leaves_an_event_of_its_queue(q: Queue, clock: VirtualClock) -> None:
    (job,) = failing(q, clock, 1)

    do(q, actions.forget, job, "ada")

    with pytest.raises(NotFound):
        q.get(job)
    (event,) = q.store.read(lambda tx: table.events(tx, "queue", "mail"))
    assert (event.kind, event.actor, event.fields) == ("job_forgotten", "ada", {"job": job, "kind": "send"})


def test_only_what_has_ended_is_forgotten(q: Queue, clock: VirtualClock) -> None:
    (job,) = failing(q, clock, 1)
    do(q, actions.retry, job, "ada")

    with pytest.raises(Rejected, match=f"job {job} is queued"):
        do(q, actions.forget, job, "ada")


@pytest.mark.parametrize("action", [actions.retry, actions.cancel, actions.forget])
def test_a_job_that_is_not_there_is_said_so(q: Queue, action: Any) -> None:
    with pytest.raises(NotFound, match="no job 4711"):
        do(q, action, 4711, "ada")


def test_a_breaker_is_forced_open_until_a_time_only(q: Queue) -> None:
    @q.job(queue="mail", target=Target("svc", breaker=True), name="send")
    async def send(n: int) -> None: ...

    svc = q.target("svc")
    with pytest.raises(ValueError, match="until"):
        svc.force("open")
    with pytest.raises(ValueError, match="'half-open'"):
        svc.force("half-open", "1h")
    assert svc.force("open", "1h", by="ada") == "closed"
    assert svc.force("closed", by="ada") == "open"
    told = [(event.actor, event.fields["from"], event.fields["to"]) for event in reversed(svc.events())]
    assert told == [("ada", "closed", "open"), ("ada", "open", "closed")]


def test_a_breaker_that_was_closed_by_hand_ramps_up_and_one_that_was_reset_does_not(q: Queue) -> None:
    @q.job(queue="mail", target=Target("svc", breaker=True), name="send")
    async def send(n: int) -> None: ...

    svc = q.target("svc")
    svc.force("open", "1h")
    svc.force("closed")
    row = q.store.read(lambda tx: table.target(tx, "svc"))
    assert row is not None
    assert row.breaker.closed_at == q.clock.now()
    assert row.breaker.adaptive_limit is not None
    svc.reset()
    row = q.store.read(lambda tx: table.target(tx, "svc"))
    assert row is not None
    assert (row.breaker.closed_at, row.breaker.adaptive_limit) == (None, None)


def test_every_action_on_gates_is_an_event_with_its_actor(q: Queue) -> None:
    @q.job(queue="mail", target=Target("svc", breaker=True), key=lambda n: n, name="send")
    async def send(n: int) -> None: ...

    svc, key = q.target("svc"), q.target("svc").key(7)
    svc.pause("1h", by="a")
    svc.resume(by="b")
    key.disable("1h", by="c", reason="tidy")
    key.enable(by="d")
    key.clear(by="e")
    svc.reset(by="f")
    q.pause("mail", "1h", by="g")
    q.resume("mail", by="h")

    told = [(event.kind, event.lane, event.actor) for event in reversed(svc.events())]
    assert told == [
        ("target_paused", None, "a"), ("target_resumed", None, "b"), ("target_disabled", "7", "c"),
        ("target_enabled", "7", "d"), ("target_cleared", "7", "e"), ("breaker_reset", None, "f"),
    ]  # fmt: skip
    of_queue = q.store.read(lambda tx: table.events(tx, "queue", "mail"))
    assert [(event.kind, event.actor) for event in reversed(of_queue)] == [
        ("queue_paused", "g"),
        ("queue_resumed", "h"),
    ]


def test_what_changes_nothing_is_no_event(q: Queue) -> None:
    @q.job(queue="mail", target=Target("svc"), name="send")
    async def send(n: int) -> None: ...

    assert not q.resume("mail")
    assert not q.target("svc").resume()
    assert not q.target("svc").key(1).enable()
    assert q.target("svc").events() == []


def test_events_are_read_in_pages(q: Queue) -> None:
    @q.job(queue="mail", target=Target("svc"), name="send")
    async def send(n: int) -> None: ...

    for n in range(5):
        q.target("svc").pause("1h", by=str(n))

    first = q.store.read(lambda tx: table.events(tx, "target", "svc", 2))
    second = q.store.read(lambda tx: table.events(tx, "target", "svc", 2, first[-1].id))
    assert [event.actor for event in (*first, *second)] == ["4", "3", "2", "1"]


def test_a_retried_job_is_worked_on_at_once(q: Queue, clock: VirtualClock) -> None:
    (job,) = failing(q, clock, 1)

    async def main() -> None:
        async with working(q):
            await asyncio.sleep(3)
            q.retry_many(1, queue="mail")
            await asyncio.sleep(0.5)
            assert q.get(job).state is JobState.FAILED  # and has failed again

    play(clock, main)
    assert q.get(job).manual_retries == 1
