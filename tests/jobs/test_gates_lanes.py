"""The state of a key of a target: backoff, Retry-After, fatal, cooldown; one probe at the end, and what people do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Refusal, Service, play, queue_on, states, working
from tidegate import Backoff, Cooldown, Target
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound
from tidegate.jobs.job import JobState
from tidegate.jobs.outcome import Again, Done, Fail
from tidegate.jobs.queue import Queue
from tidegate.targets import table

pytestmark = pytest.mark.parametrize("db", BOTH, indirect=True)

EVEN = Backoff(30, cap=1800, jitter=0)
AT_ONCE = Backoff(0.001, cap=0.001, jitter=0)  # of a job itself: only the gate of its key is looked at here


def calling(q: Queue, service: Service, target: Target, **options: Any) -> Any:
    @q.job(target=target, key=lambda who: who[0], name="call", backoff=AT_ONCE, attempts=100, **options)
    async def call(who: str) -> None:
        await service.call(who[0])

    return call


def hold(q: Queue, key: str) -> table.StoredKeyHealth | None:
    return q.store.read(lambda tx: table.hold(tx, "svc", key))


def test_a_key_that_fails_waits_by_the_ladder_and_others_go_on(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=ConnectionError("x"), ill_for={"a"})
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", "jobs", backoff=EVEN))
        call.enqueue_many([("a1",), ("b1",)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(60)
                call.enqueue("b2")
                await asyncio.sleep(160)

        play(clock, main)

    assert [round(at) for at in service.times("a")] == [0, 30, 90, 210]
    assert len(service.times("b")) == 2


def test_a_probe_that_sent_nothing_leaves_the_key_held_and_the_next_one_goes_at_once(db: Database) -> None:
    clock = VirtualClock()
    tried: list[tuple[int, str]] = []
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", "jobs", backoff=EVEN), key=lambda who: who[0], backoff=Backoff(3600, cap=3600))
        async def call(who: str) -> Done[None]:
            tried.append((round(clock.monotonic()), who))
            if who == "a1":
                raise ConnectionError("x")
            return Done(unsent=who != "a4")

        call.enqueue("a1")

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(10)
                call.enqueue_many([("a2",), ("a3",)])
                await asyncio.sleep(30)
                held = hold(q, "a")
                assert held is not None
                assert (held.reason, held.failures) == ("backoff", 1)
                call.enqueue("a4")
                await asyncio.sleep(10)
                assert hold(q, "a") is None

        play(clock, main)
    assert tried == [(0, "a1"), (30, "a2"), (30, "a3"), (40, "a4")]


@pytest.mark.parametrize("keyed", [False, True])
def test_where_all_jobs_waited_they_come_back_slowly_and_one_key_slows_nobody(db: Database, keyed: bool) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1, ill=ConnectionError("x"))
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", "jobs", backoff=EVEN, breaker=True), key=str if keyed else None, backoff=AT_ONCE)
        async def call(n: int) -> None:
            await service.call(n)

        async def main() -> None:
            async with working(q):
                call.enqueue(0)
                await asyncio.sleep(10)
                service.ill = None
                for _ in range(20):
                    call.enqueue(0)
                await asyncio.sleep(21.5)  # the 30 s are over, and one has tried it
                service.most = 0
                await asyncio.sleep(3)
                assert (service.most == 1) is not keyed
                await asyncio.sleep(60)
                assert states(q) == {"done": 21}

        play(clock, main)


def test_when_the_time_is_over_one_job_tries_it_and_the_others_wait_for_it(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=5, ill=ConnectionError("x"))
    queues = [queue_on(db, clock) for _ in range(3)]
    calls = [calling(q, service, Target("svc", "jobs", backoff=EVEN)) for q in queues]
    calls[0].enqueue("a")

    async def main() -> None:
        async with working(*queues):
            await asyncio.sleep(10)
            calls[0].enqueue_many([(each,) for each in ["a"] * 20])
            await asyncio.sleep(24)
            service.most = 0
            await asyncio.sleep(5)  # at 35 s the first wait is over
            assert service.most == 1
            service.ill = None
            await asyncio.sleep(200)
            assert states(queues[0]) == {"done": 21}

    play(clock, main)
    assert [round(at) for at, _ in service.calls][:2] == [0, 35]
    for q in queues:
        q.close()


def test_many_failures_of_one_outage_are_counted_once(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=1, ill=ConnectionError("x"))
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", "jobs", backoff=EVEN))

        async def main() -> None:
            async with working(q):
                for _ in range(20):  # each begins a little later, and so they end in turns of their own
                    call.enqueue("a")
                    await asyncio.sleep(0.04)
                await asyncio.sleep(5)

        play(clock, main)
        found = hold(q, "a")
        assert found is not None
        assert found.failures == 1


@pytest.mark.parametrize("end", [Again("10m", keep_attempt=True), Fail("bad_request")])
def test_a_probe_that_proves_nothing_leaves_its_place_to_the_next_job(db: Database, end: Exception) -> None:
    clock = VirtualClock()
    asked: list[float] = []
    ends: list[Exception] = [ConnectionError("x")]
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", "jobs", backoff=EVEN), backoff=AT_ONCE, attempts=100)
        async def call(n: int) -> None:
            asked.append(round(clock.monotonic(), 1))
            if ends:
                raise ends[0]

        call.enqueue(1)

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(10)
                call.enqueue(2)
                ends[:] = [end]
                await asyncio.sleep(22)
                assert asked == [0, 30, 30]
                assert hold(q, "") is not None
                ends.clear()
                call.enqueue(3)
                await asyncio.sleep(1)
                assert hold(q, "") is None

        play(clock, main)


def test_what_the_service_asks_for_is_waited_even_without_a_backoff(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(429, retry_after="120"))
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", backoff=None))
        call.enqueue("a")

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(10)
                call.enqueue("a")
                found = hold(q, "a")
                assert found is not None
                assert (found.reason, round(found.until or 0)) == ("retry_after", 1_700_000_120)
                service.ill = None
                await asyncio.sleep(120)

        play(clock, main)

    assert [round(at) for at, _ in service.calls] == [0, 120, 120]


def test_without_a_backoff_a_failing_job_waits_by_itself_and_its_key_does_not(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=ConnectionError("x"), ill_for={1})
    with queue_on(db, clock) as q:

        @q.job(target=Target("svc", backoff=None), backoff=Backoff(60, cap=60, jitter=0))
        async def call(n: int) -> None:
            await service.call(n)

        call.enqueue(1)

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(5)
                call.enqueue(2)
                await asyncio.sleep(60)

        play(clock, main)
        assert hold(q, "") is None

    assert [(round(at), who) for at, who in service.calls] == [(0, 1), (5, 2), (60, 1)]


@pytest.mark.parametrize("backoff", [None, EVEN])
def test_a_refused_credential_shuts_its_key_and_the_job_waits_there_unspent(
    db: Database, backoff: Backoff | None
) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(401), ill_for={"a"})
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", "jobs", backoff=backoff))
        jobs = call.enqueue_many([("a1",), ("a2",), ("b1",)])

        async def main() -> None:
            async with working(q, concurrency=1):
                await asyncio.sleep(300)
                assert len(service.times("a")) == 1
                assert [q.get(job).state for job in jobs] == ["queued", "queued", "done"]
                assert q.get(jobs[0]).attempt == 0
                found = hold(q, "a")
                assert found is not None
                assert (found.reason, found.until, found.code) == ("fatal", None, "unauthorized")
                service.ill = None
                assert q.target("svc").key("a").clear(by="ada")
                await asyncio.sleep(1)
                assert [q.get(job).state for job in jobs] == [JobState.DONE] * 3
                assert not q.target("svc").key("a").clear()

        play(clock, main)
        kinds = [(event.kind, event.lane, event.actor) for event in reversed(q.target("svc").events())]
        assert kinds[:2] == [("target_fatal", "a", "worker"), ("target_cleared", "a", "ada")]


def test_a_refusal_of_credentials_that_were_replaced_meanwhile_counts_no_more(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=10, ill=Refusal(401))
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc"))
        job = call.enqueue("a")

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(5)
                q.target("svc").key("a").clear(by="ada")
                await asyncio.sleep(6)  # the call that was under way has been refused by now
                assert [event.kind for event in q.target("svc").events()] == ["target_cleared"]
                service.ill = None
                await asyncio.sleep(20)
                assert q.get(job).state is JobState.DONE

        play(clock, main)
        assert hold(q, "a") is None


def test_after_a_while_one_job_asks_whether_the_quota_is_back(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(402))
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc", reprobe_every="5m"))
        call.enqueue_many([(each,) for each in ["a"] * 5])

        async def main() -> None:
            async with working(q, concurrency=1, poll_every=60):
                await asyncio.sleep(299)
                assert len(service.calls) == 1
                await asyncio.sleep(3)
                assert len(service.calls) == 2
                service.ill = None
                await asyncio.sleep(301)
                assert states(q) == {"done": 5}

        play(clock, main)
        assert [event.kind for event in reversed(q.target("svc").events())] == ["target_fatal", "target_recovered"]


def test_a_fault_of_one_item_fails_its_job_and_holds_nobody(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(404), ill_for={"a"})
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc"))
        jobs = call.enqueue_many([("a1",), ("a2",)])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(1)

        play(clock, main)
        assert [q.get(job).error_code for job in jobs] == ["not_found", "not_found"]
        assert hold(q, "a") is None


def test_a_run_of_one_code_rests_its_key_and_one_probe_ends_it(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(500))
    with queue_on(db, clock) as q:
        rest = Cooldown({"upstream_failure": (3, "10m")})
        call = calling(q, service, Target("svc", "jobs", backoff=Backoff(1, cap=1, jitter=0), cooldown=rest))
        call.enqueue_many([(each,) for each in ["a"] * 4])

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(60)
                tried = len(service.calls)
                found = hold(q, "a")
                assert found is not None
                assert (found.reason, found.rest.by, found.rest.reason) == ("cooldown", "auto", "upstream_failure")
                await asyncio.sleep(600 - 61)
                assert len(service.calls) == tried
                await asyncio.sleep(10)
                assert len(service.calls) == tried + 1  # on probation one failure is enough
                service.ill = None
                await asyncio.sleep(610)
                assert states(q) == {"done": 4}

        play(clock, main)
        kinds = [event.kind for event in reversed(q.target("svc").events())]
        assert kinds == ["target_disabled", "target_disabled", "target_enabled"]


@pytest.mark.parametrize("end", [None, "10m"])
def test_a_person_disables_a_key_and_enables_it_again(db: Database, end: str | None) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0)
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc"))

        async def main() -> None:
            key = q.target("svc").key("a")
            key.disable(end, by="ada")
            call.enqueue_many([("a",), ("b",)])
            async with working(q):
                await asyncio.sleep(300)
                assert [who for _, who in service.calls] == ["b"]
                assert key.enable(by="bob")
                assert not key.enable()
                await asyncio.sleep(1)
                assert [who for _, who in service.calls] == ["b", "a"]

        play(clock, main)
        told = [(event.kind, event.actor) for event in reversed(q.target("svc").events())]
        assert told == [("target_disabled", "ada"), ("target_enabled", "bob")]


def test_enabling_does_not_end_a_fatal_fault(db: Database) -> None:
    clock = VirtualClock()
    service = Service(clock, takes=0, ill=Refusal(401))
    with queue_on(db, clock) as q:
        call = calling(q, service, Target("svc"))
        call.enqueue("a")

        async def main() -> None:
            key = q.target("svc").key("a")
            async with working(q):
                await asyncio.sleep(1)
                key.disable(by="ada")
                key.enable(by="ada")
                await asyncio.sleep(10)
                assert len(service.calls) == 1
                found = hold(q, "a")
                assert found is not None
                assert found.reason == "fatal"

        play(clock, main)


@pytest.mark.parametrize(
    "act",
    [
        lambda target: target.pause("1h"),
        lambda target: target.resume(),
        lambda target: target.reset(),
        lambda target: target.force("open", "1h"),
        lambda target: target.key(1).clear(),
        lambda target: target.key(1).disable(),
        lambda target: target.key(1).enable(),
        lambda target: target.explain(),
        lambda target: target.key(1).explain(),
    ],
)
def test_nothing_can_be_done_to_a_target_that_is_not_there(db: Database, act: Callable[[Any], object]) -> None:
    with queue_on(db, VirtualClock()) as q, pytest.raises(NotFound, match="'nobody'"):
        act(q.target("nobody"))


def test_a_job_whose_target_this_program_does_not_know_is_not_held_by_a_gate_that_nobody_shuts(db: Database) -> None:
    clock = VirtualClock()
    with queue_on(db, clock) as q:
        before = q.job(target=Target("svc"), name="call")(_nothing)
        job = before.enqueue(1).id
    service = Service(clock, takes=0, ill=Refusal(401))
    with queue_on(db, clock) as q:

        @q.job(name="call")
        async def call(n: int) -> None:
            assert len(service.calls) < 10, "it is called again and again"
            await service.call(n)

        async def main() -> None:
            async with working(q):
                await asyncio.sleep(60)

        play(clock, main)
        assert len(service.calls) == 1
        assert (q.get(job).state, q.get(job).error_code) == ("failed", "unauthorized")


async def _nothing(n: int) -> None: ...
