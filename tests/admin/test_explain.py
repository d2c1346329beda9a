"""Why is this not running, and when will it? Every job that neither runs nor has ended has an answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.admin.workers import seen
from tests.jobs.gating import Refusal, Service, play, working
from tests.text import names, numbers
from tidegate import Backoff, Rate, Target
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound
from tidegate.faults.codes import CORE
from tidegate.guard.breaker_policy import OpenedBy
from tidegate.guard.capacity import Capacity
from tidegate.guard.hold import EndedBy, HoldReason
from tidegate.jobs import explain
from tidegate.jobs.queue import Queue
from tidegate.jobs.worker import WorkerPolicy
from tidegate.store.base import Tx
from tidegate.targets import actions, breaker, table
from tidegate.targets import explain as target_explain
from tidegate.targets.explain import WaitReason, WaitsFor

START = 1_700_000_000.0


def declared(q: Queue, target: Target | None = None, **options: Any) -> Any:
    @q.job(queue="mail", target=target, key=(lambda n: n) if target else None, name="send", **options)
    async def send(n: int) -> None: ...

    return send


def one(whys: list[WaitReason]) -> WaitReason:
    assert len(whys) == 1, whys
    return whys[0]


def test_without_a_worker_that_is_the_reason(q: Queue) -> None:
    job = declared(q).enqueue(1)

    why = one(q.explain(job))

    assert (why.reason, why.ended_by, why.until, why.subject) == ("no_worker", EndedBy.WORKER, None, "queue mail")


@pytest.mark.parametrize(("queues", "stopping", "gone"), [(["other"], 0, 0), (["mail"], 1, 0), (["mail"], 0, 60)])
def test_a_worker_for_others_one_that_stops_and_one_that_is_gone_do_not_count(
    q: Queue, clock: VirtualClock, queues: list[str], stopping: int, gone: float
) -> None:
    job = declared(q).enqueue(1)
    q.store.write(lambda tx: seen(tx, queues, stopping))
    clock.advance(gone)

    why = one(q.explain(job))

    assert why.reason is WaitsFor.NO_WORKER
    assert why.since == (None if queues == ["other"] else START)


def test_a_job_that_nothing_holds_is_next_in_line_or_has_others_before_it(q: Queue) -> None:
    send = declared(q)
    q.store.write(lambda tx: seen(tx, ["mail"]))
    first, second = send.enqueue(1), send.enqueue(2)
    urgent = send.options(priority=5).enqueue(3)

    assert numbers(one(q.explain(urgent)).message) == []
    assert numbers(one(q.explain(second)).message) == [2]
    assert one(q.explain(first)).reason is WaitsFor.NEXT


def test_a_long_line_is_not_counted_to_its_end(q: Queue) -> None:
    send = declared(q)
    q.store.write(lambda tx: seen(tx, ["mail"]))
    last = send.enqueue_many([(each,) for each in range(1500)])[-1]

    assert numbers(one(q.explain(last)).message) == [1000]


def test_a_job_with_a_time_says_when(q: Queue) -> None:
    q.store.write(lambda tx: seen(tx, ["mail"]))
    job = declared(q).options(due="90m").enqueue(1)

    why = one(q.explain(job))

    assert (why.reason, why.since, why.until) == ("scheduled", START, START + 5400)
    assert "1 h 30 min" in why.message


def test_a_job_between_two_attempts_says_which_and_why(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock, takes=0, ill=ConnectionError("x"))

    @q.job(queue="mail", name="send", backoff=Backoff(60, cap=60, jitter=0), attempts=4)
    async def send(n: int) -> None:
        await service.call(n)

    job = send.enqueue(1)

    async def main() -> None:
        async with working(q):
            await asyncio.sleep(2)
            why = one(q.explain(job))
            assert why.reason is WaitsFor.SCHEDULED
            assert names(why.message, "1 of 4", "(network)", "59 s")

    play(clock, main)


def test_a_breaker_that_nobody_asks_a_probe_for_says_that_a_person_must_close_it(q: Queue) -> None:
    q.store.write(lambda tx: tx.query("target_new", {"name": "svc"}))

    def shut(tx: Tx) -> None:
        row, now = actions.require_target(tx, "svc")
        table.put_breaker(tx, "svc", row.breaker, breaker.force_open(row.breaker, now, None, rule=OpenedBy.CONSECUTIVE))

    q.store.write(shut)
    why = one(q.target("svc").explain())
    assert (why.reason, why.ended_by) == ("breaker", EndedBy.PERSON)

    q.store.write(lambda tx: tx.query("target_rules", {"name": "svc", "rules": '{"probe_every": 90}'}))
    why = one(q.target("svc").explain())
    assert (why.reason, why.ended_by) == ("breaker", EndedBy.PROBE)
    assert "1 min 30 s" in why.message


def test_a_blocked_job_names_whom_it_waits_for_and_who_must_act(q: Queue) -> None:
    send = declared(q)
    q.store.write(lambda tx: seen(tx, ["mail"]))
    parent = send.enqueue(1)
    child = send.options(after=[parent]).enqueue(2)

    why = one(q.explain(child))
    assert (why.reason, why.subject, why.ended_by) == ("dependency", f"job {parent.id}", EndedBy.JOB)

    q.cancel(parent)
    q.retry(child)
    why = one(q.explain(child))
    assert (why.reason, why.ended_by) == ("dependency", EndedBy.PERSON)
    assert names(why.message, parent.id, "cancelled")


def test_all_that_holds_a_job_is_told_in_the_order_of_the_gate(q: Queue, clock: VirtualClock) -> None:
    target = Target(
        "svc", backoff=None, breaker={"consecutive": 3}, rate=Rate(1, "1h"), concurrency=1,
        capacity=Capacity(1, depth=lambda: 5),
    )  # fmt: skip
    service = Service(clock, takes=100)
    send = declared(q, target)
    later = send.options(due="5h").enqueue(1)

    async def main() -> None:
        async with working(q):
            await asyncio.sleep(1)
        q.pause("mail", "1h", by="ada")
        svc = q.target("svc")
        svc.pause("2h", by="bob")
        svc.key(1).disable("3h", by="eve")
        svc.force("open", "4h", by="joe")

    play(clock, main)
    whys = q.explain(later)

    assert [str(why.reason) for why in whys] == [
        "paused", "paused", "cooldown", "breaker", "scheduled", "no_worker",
    ]  # fmt: skip
    assert [why.until and round(why.until - clock.now()) for why in whys] == [3600, 7200, 10800, 14400, 17999, None]
    assert [why.subject for why in whys[:4]] == ["queue mail", "target svc", "key 1 of svc", "target svc"]
    assert names(whys[0].message, "mail", "ada", "1 h")
    assert names(whys[1].message, "svc", "bob", "2 h")
    assert names(whys[2].message, "eve", "3 h")
    assert names(whys[3].message, "svc", "joe", "4 h")
    assert all(why.since is not None for why in whys[:5])
    assert service.calls == []


def test_a_full_target_says_how_full(q: Queue, clock: VirtualClock) -> None:
    job = declared(q, Target("svc", capacity=Capacity(5, depth=lambda: 7))).enqueue(1)

    async def main() -> None:
        async with working(q):
            await asyncio.sleep(2)
            why = one(q.explain(job))
            assert why.reason is HoldReason.CAPACITY
            assert names(why.message, "svc", "7 of 5", "28 s")

    assert q.target("svc").fullness() is None
    play(clock, main)
    full = q.target("svc").fullness()
    assert full is not None
    assert (full.depth, full.own, full.cap) == (7, 0, 5)


def test_concurrency_and_rate_say_what_the_limit_is(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock, takes=100)

    @q.job(queue="mail", target=Target("busy", concurrency=2), name="busy")
    async def busy(n: int) -> None:
        await service.call(n)

    @q.job(queue="mail", target=Target("slow", rate=Rate(1, "60s")), name="slow")
    async def slow(n: int) -> None: ...

    waits = busy.enqueue_many([(1,), (2,), (3,)])[-1]
    due = slow.enqueue_many([(1,), (2,)])[-1]

    async def main() -> None:
        async with working(q):
            await asyncio.sleep(10)
            why = one(q.explain(waits))
            assert (why.reason, why.ended_by) == ("concurrency", EndedBy.CALL)
            assert numbers(why.message) == [2, 2]
            why = one(q.explain(due))
            assert (why.reason, round(why.until or 0)) == ("rate", START + 60)
            assert numbers(why.message) == [1, 1, 50]

    play(clock, main)


def test_a_fatal_fault_says_who_must_act(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock, takes=0, ill=Refusal(401))

    @q.job(queue="mail", target=Target("svc"), key=lambda n: 7, name="send")
    async def send(n: int) -> None:
        await service.call(n)

    job = send.enqueue(1)

    async def main() -> None:
        async with working(q):
            await asyncio.sleep(5)
            why = one(q.explain(job))
            assert (why.reason, why.until, why.ended_by, why.subject) == ("fatal", None, EndedBy.PERSON, "key 7 of svc")
            assert why.message.startswith(CORE["unauthorized"].message)

    play(clock, main)
    assert [why.reason for why in q.target("svc").key(7).explain()] == ["fatal"]
    assert q.target("svc").explain() == []


def test_half_open_and_the_probe_of_a_key_say_what_is_tried(q: Queue, clock: VirtualClock) -> None:
    service = Service(clock, takes=20)

    @q.job(queue="mail", target=Target("svc", breaker={"max_requests": 1}), name="send")
    async def send(n: int) -> None:
        await service.call(n)

    jobs = send.enqueue_many([(1,), (2,)])

    async def main() -> None:
        q.target("svc").force("open", "1s", by="ada")
        async with working(q):
            await asyncio.sleep(5)
            why = one(q.explain(jobs[1]))
            assert (why.reason, why.ended_by) == ("breaker", EndedBy.CALL)
            assert numbers(why.message) == [1]
            assert q.explain(jobs[0]) == []  # it runs

    play(clock, main)


def test_what_runs_or_has_ended_has_no_reason_and_what_is_not_there_is_an_error(q: Queue, clock: VirtualClock) -> None:
    job = declared(q).enqueue(1)
    q.cancel(job)

    assert q.explain(job) == []
    with pytest.raises(NotFound, match="no job 99"):
        q.explain(99)


def test_a_reason_as_json_has_all_of_it(q: Queue) -> None:
    found = one(q.explain(declared(q).enqueue(1))).as_json()

    assert set(found) == {"reason", "subject", "since", "until", "ended_by", "message"}
    assert json.loads(json.dumps(found)) == found


def test_a_worker_is_there_for_as_long_as_its_leases_may_be() -> None:
    assert WorkerPolicy().lease < explain.WORKER_GONE


@pytest.mark.parametrize(
    ("said", "reason", "until", "ended_by"),
    [({"reasons": ["backoff"], "codes": ["network"], "until": START + 8}, "backoff", START + 8, "time"),
     ({"reasons": ["fatal"]}, "fatal", None, "person"),
     ({"breakers": {"svc": {"state": "half-open"}}}, "breaker", None, "probe"),
     ({"breakers": {"svc": {"state": "closed", "requests": 3}}}, None, None, None)],
)  # fmt: skip
def test_what_a_program_holds_by_itself_stands_before_its_target(
    q: Queue, said: dict[str, Any], reason: str | None, until: float | None, ended_by: str | None
) -> None:
    told = json.dumps({"host-1": {"at": START, **said}})
    q.store.write(lambda tx: tx.query("target_report", {"name": "svc", "summary": told}))

    whys = q.store.read(lambda tx: target_explain.target(tx, "svc"))

    assert [(why.reason, why.until, why.ended_by) for why in whys] == (
        [] if reason is None else [(reason, until, ended_by)]
    )
