"""The words for states, reasons and the overview."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.test_target_status import CASES, NOW
from tests.admin.workers import seen
from tests.databases import APSW, database
from tests.jobs.gating import Service, play, queue_on, working
from tests.wording import catalogue
from tidegate import Backoff, Capacity, Rate, Target, audit
from tidegate.accounts import users
from tidegate.admin import overview
from tidegate.clock import VirtualClock
from tidegate.guard.breaker_policy import OpenedBy
from tidegate.jobs.outcome import Fail
from tidegate.jobs.queue import Queue
from tidegate.labels import JOBS, TARGETS
from tidegate.store.base import Tx
from tidegate.targets import actions, breaker, table
from tidegate.targets.status import standing
from tidegate.targets.table import StoredKeyHealth

START = 1_700_000_000.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def q(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    with database(APSW, tmp_path) as db, queue_on(db, clock) as found:
        yield found


def test_states() -> None:
    found = {f"target/{token}": word.word for token, word in TARGETS.items()}
    found |= {f"job/{token}": word.word for token, word in JOBS.items()}
    found |= {
        f"job/{token}/{situation or 'plain'}": word.line(
            situation, attempt=2, most=5, code=" (timeout)", age="5 min", when="in 3 min", target="api"
        )
        for token, word in JOBS.items()
        for situation in word.lines
    }
    found |= {f"standing/{key}": standing(row, keys, NOW, tried=tried).reason for row, keys, tried, _, key, _ in CASES}
    catalogue.compare("states", found)


def test_events_and_deeds() -> None:
    fields = {"role": "operator", "was": "viewer", "sessions": "2"}
    found = {
        f"account/{kind}": f"bob {users.AccountEvent(1, NOW, kind, 'bob', 'ada', fields).text}" for kind in users.KINDS
    }
    found |= {f"deed/{action}": text for action, text in audit.ACTIONS.items()}
    found |= {f"subject/{subject}": text for subject, text in audit.SUBJECTS.items()}
    found |= {f"origin/{origin}": text for origin, text in audit.ORIGINS.items()}
    catalogue.compare("deeds", found)


# -- why a job waits ---------------------------------------------------------------------------------------------------


def declared(q: Queue, target: Target | None = None, **options: Any) -> Any:
    @q.job(queue="mail", target=target, key=(lambda n: n) if target else None, name="send", **options)
    async def send(n: int) -> None: ...

    return send


def there(q: Queue) -> None:
    q.store.write(lambda tx: seen(tx, ["mail"]))


def no_worker(q: Queue, _: VirtualClock) -> int:
    return int(declared(q).enqueue(1).id)


def next_in_line(q: Queue, _: VirtualClock) -> int:
    there(q)
    return int(declared(q).enqueue(1).id)


def in_line(q: Queue, _: VirtualClock) -> int:
    there(q)
    return int(declared(q).enqueue_many([(1,), (2,), (3,)])[-1].id)


def in_a_long_line(q: Queue, _: VirtualClock) -> int:
    there(q)
    return int(declared(q).enqueue_many([(each,) for each in range(1500)])[-1].id)


def scheduled(q: Queue, _: VirtualClock) -> int:
    there(q)
    return int(declared(q).options(due="90m").enqueue(1).id)


def next_cycle(q: Queue, clock: VirtualClock) -> int:
    there(q)
    q.next_cycle("mail", clock.now() + 100)
    return int(declared(q).enqueue(1).id)


def dependency(q: Queue, _: VirtualClock) -> int:
    there(q)
    send = declared(q)
    return int(send.options(after=[send.enqueue(1)]).enqueue(2).id)


def dependency_cancelled(q: Queue, _: VirtualClock) -> int:
    there(q)
    send = declared(q)
    parent = send.enqueue(1)
    child = send.options(after=[parent]).enqueue(2)
    q.cancel(parent)
    q.retry(child)
    return int(child.id)


def queue_paused(q: Queue, _: VirtualClock) -> int:
    job = declared(q).enqueue(1)
    q.pause("mail", "1h", by="ada")
    return int(job.id)


WAITS: list[Callable[[Queue, VirtualClock], int]] = [
    no_worker, next_in_line, in_line, in_a_long_line, scheduled, next_cycle, dependency, dependency_cancelled,
    queue_paused,
]  # fmt: skip


def hold(tx: Tx, **fields: Any) -> None:
    about: dict[str, Any] = {
        "target": "svc", "lane": "7", "reason": "backoff", "since": START, "until": START + 3600, "failures": 3,
        "code": "timeout", "message": "",
    }  # fmt: skip
    table.put_hold(tx, StoredKeyHealth(**{**about, **fields}))


def shut(until: float | None = None) -> Callable[[Queue], None]:
    def opened(tx: Tx) -> None:
        row, now = actions.require_target(tx, "svc")
        after = breaker.force_open(row.breaker, now, until, rule=OpenedBy.CONSECUTIVE)
        table.put_breaker(tx, "svc", row.breaker, after)

    return lambda q: q.store.write(opened)


def probed(q: Queue) -> None:
    shut()(q)
    q.store.write(lambda tx: tx.query("target_rules", {"name": "svc", "rules": '{"probe_every": 90}'}))


# What is done to the target svc or to its key 7, which then say why they are held.
HELD: dict[str, Callable[[Queue], object]] = {
    "target_paused": lambda q: q.target("svc").pause("2h", by="bob"),
    "breaker_forced": lambda q: q.target("svc").force("open", "4h", by="joe"),
    "breaker_until_person": shut(),
    "breaker_until_time": shut(START + 60),
    "breaker_until_probe": probed,
    "key_disabled": lambda q: q.target("svc").key("7").disable("3h", by="eve"),
    "key_disabled_for_good": lambda q: q.target("svc").key("7").disable(by="eve"),
    "key_backoff": lambda q: q.store.write(hold),
    "key_backoff_once": lambda q: q.store.write(lambda tx: hold(tx, failures=1)),
    "key_cooldown": lambda q: q.store.write(lambda tx: hold(tx, reason="cooldown")),
    "key_fatal": lambda q: q.store.write(
        lambda tx: hold(tx, reason="fatal", until=None, message="It said no.", code="unauthorized")
    ),
}


def explained(name: str, tmp_path: Path, ask: Callable[[Queue, VirtualClock], str]) -> str:
    folder = tmp_path / name
    folder.mkdir()
    clock = VirtualClock()
    with database(APSW, folder) as db, queue_on(db, clock) as q:
        return ask(q, clock)


def of_job(case: Callable[[Queue, VirtualClock], int]) -> Callable[[Queue, VirtualClock], str]:
    return lambda q, clock: q.explain(case(q, clock))[0].message


def of_target(act: Callable[[Queue], object]) -> Callable[[Queue, VirtualClock], str]:
    def ask(q: Queue, _: VirtualClock) -> str:
        q.store.write(lambda tx: tx.query("target_new", {"name": "svc"}))
        act(q)
        svc = q.target("svc")
        (why,) = svc.explain() or svc.key("7").explain()
        return why.message

    return ask


def while_running(target: Target | None, jobs: int, after: float, **options: Any) -> Callable[..., str]:
    """Why the last of some jobs waits while a worker has been at work for *after* seconds."""

    def ask(q: Queue, clock: VirtualClock) -> str:
        service = Service(clock, takes=100 if "ill" not in options else 0, ill=options.pop("ill", None))
        forced = options.pop("forced", False)

        @q.job(queue="mail", target=target, name="send", **options)
        async def send(n: int) -> None:
            await service.call(n)

        last = send.enqueue_many([(each,) for each in range(jobs)])[-1]

        async def main() -> str:
            if forced:
                q.target("svc").force("open", "1s", by="ada")
            async with working(q):
                await asyncio.sleep(after)
                return q.explain(last)[0].message

        return play(clock, main)

    return ask


RUNNING: dict[str, Callable[..., str]] = {
    "retry": while_running(
        None, 1, 2, ill=ConnectionError("x"), backoff=Backoff(60, cap=60, jitter=0), attempts=4
    ),
    "capacity": while_running(Target("svc", capacity=Capacity(5, depth=lambda: 7)), 1, 2),
    "concurrency": while_running(Target("svc", concurrency=2), 3, 10),
    "rate": while_running(Target("svc", rate=Rate(1, "60s")), 2, 10),
    "half_open": while_running(Target("svc", breaker={"max_requests": 1}), 2, 5, forced=True),
}  # fmt: skip


def test_reasons(tmp_path: Path) -> None:
    cases: dict[str, Callable[[Queue, VirtualClock], str]] = {each.__name__: of_job(each) for each in WAITS}
    cases |= {name: of_target(act) for name, act in HELD.items()}
    cases |= RUNNING
    catalogue.compare("reasons", {name: explained(name, tmp_path, ask) for name, ask in cases.items()})


# -- the overview ------------------------------------------------------------------------------------------------------


COUNTS: dict[str, dict[str, int]] = {
    "none": {}, "one_ok": {"ok": 1}, "all_ok": {"ok": 2}, "one_new": {"new": 1}, "all_new": {"new": 3},
    "some_new": {"ok": 2, "new": 3}, "need_you": {"action": 2}, "recovering": {"probing": 1},
    "held_up": {"open": 1, "degraded": 2}, "paused": {"paused": 1}, "full": {"full": 1},
    "many": {"action": 1, "probing": 2, "silent": 1, "paused": 3, "full": 2, "ok": 9},
}  # fmt: skip


def test_overview(q: Queue, clock: VirtualClock) -> None:
    found = {f"sentence/{name}": overview.sentence(Counter(tokens), []) for name, tokens in COUNTS.items()}

    def keep(name: str) -> None:
        now = q.store.read(overview.overview)
        found[f"sentence/{name}"] = now.sentence
        for need in now.needs:
            found[f"need/{name}/{need.kind}"] = f"{need.title}\n{need.message}\n[{need.action}]"

    async def drain() -> None:
        await q.adrain()

    @q.job(queue="mail", name="send", backoff=Backoff("10s"), attempts=5)
    async def send(n: int) -> None:
        raise Fail("gone") if n < 9 else RuntimeError("what?")

    @q.job(queue="post", name="post")
    async def post(n: int) -> None:
        raise Fail("gone")

    first = send.enqueue(1)
    clock.advance(720)
    keep("no_worker")
    clock.advance(300)
    there(q)
    keep("stuck")
    q.pause("mail", "1h", by="ada")
    keep("queue_paused")
    q.resume("mail")
    play(clock, drain)
    keep("failed")
    others = post.enqueue_many([(1,), (2,)])
    play(clock, drain)
    keep("failed_of_two_queues")
    for job in (first, *others):
        q.forget(job)
    send.refuse((1,), "bad_request")
    keep("refused")
    second = send.refuse((2,), "bad_request")
    keep("refused_two")
    q.forget(second)
    send.enqueue(9)
    play(clock, drain)
    keep("unclassified")
    q.store.write(lambda tx: tx.query("target_new", {"name": "svc"}))
    q.store.write(lambda tx: hold(tx, reason="fatal", until=None, message="It said no.", code="unauthorized"))
    q.store.write(lambda tx: tx.query("target_new", {"name": "api"}))
    q.target("api").pause("1h", by="ada")
    keep("targets")
    catalogue.compare("overview", found)


def test_more_targets_than_are_shown(q: Queue) -> None:
    found: dict[str, str] = {}
    for n in range(14):
        name = f"svc{n:02}"
        q.store.write(lambda tx, name=name: tx.query("target_new", {"name": name}))  # type: ignore[misc]
        q.store.write(lambda tx, name=name: hold(tx, target=name, reason="fatal", until=None))  # type: ignore[misc]
        if n >= 12:
            need = q.store.read(overview.overview).needs[-1]
            found[f"{n - 11}_more"] = f"{need.title}\n{need.message}\n[{need.action}]"
    catalogue.compare("overview_more", found)
