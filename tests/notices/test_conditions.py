"""What no event tells of: work without a worker, jobs that get no turn, forgotten pauses, and jobs that gave up."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.databases import APSW, Database
from tests.jobs.gating import Refusal, Service
from tests.notices.telling import Outside, Scene
from tests.text import numbers
from tidegate import Backoff, Target
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound, Rejected
from tidegate.jobs import actions as job_actions
from tidegate.jobs.queue import Queue
from tidegate.notices import messages
from tidegate.notices.deliveries import NoticeRow
from tidegate.notices.policy import SuppressReason
from tidegate.targets import actions

pytestmark = pytest.mark.parametrize("db", [APSW], indirect=True)

ONCE = Backoff(1, cap=1, jitter=0)


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def scene(db: Database, outside: Outside) -> Iterator[Scene]:
    clock = VirtualClock()
    service = Service(clock, takes=0)

    def declare(q: Queue) -> Any:
        target = Target("gateway", breaker={"consecutive": 2, "timeout": 30.0}, backoff=None)

        @q.job(queue="convert", target=target, name="convert", attempts=500, backoff=ONCE)
        async def convert(n: int) -> None:
            if n < 0:
                raise Refusal(400)
            await service.call(n)

        @q.job(queue="mail", name="send", attempts=1, backoff=ONCE)
        async def send(n: int) -> None:
            if n < 0:
                raise ValueError(f"there is no template {n}")
            await asyncio.sleep(n)

        return {"convert": convert, "send": send, "service": service}

    with Scene(db, clock, outside, declare=declare) as found:
        yield found


def lines(scene: Scene) -> list[tuple[str, str, bool]]:
    return [(line.kind, line.name, line.open) for line in scene.lines()]


def test_work_without_a_worker_is_told_after_two_minutes_and_so_is_its_end(scene: Scene, outside: Outside) -> None:
    scene.jobs["send"].enqueue(0)
    scene.pass_(100, work=False)
    assert lines(scene) == []
    scene.pass_(60, work=False)
    assert lines(scene) == [("no_worker", "mail", True)]

    scene.pass_(120)
    assert lines(scene) == [("no_worker", "mail", False), ("recovered", "mail", False)]
    assert outside.told("hook") == ["no_worker mail", "recovered mail"]


def test_a_server_that_is_started_again_does_not_take_it_for_over(scene: Scene, db: Database, outside: Outside) -> None:
    scene.jobs["send"].enqueue(0)
    scene.pass_(160, work=False)
    with Scene(db, scene.clock, outside) as again:
        again.pass_(60, work=False)

        assert lines(again) == [("no_worker", "mail", True)]


def test_a_gap_between_two_workers_is_not_told(scene: Scene) -> None:
    scene.jobs["service"].ill = Refusal(503)
    for n in range(3):
        scene.jobs["convert"].enqueue(n)
    for _ in range(4):
        scene.pass_(60)
        scene.pass_(30, every=10, work=False)

    assert "no_worker" not in scene.kinds()


def test_a_job_that_gets_no_turn_is_told_and_one_that_a_gate_holds_is_not(scene: Scene, outside: Outside) -> None:
    scene.q.store.write(lambda tx: tx.query("target_new", {"name": "gateway"}))
    scene.q.store.write(lambda tx: actions.force_breaker(tx, "gateway", "open", "ada", "10h"))
    scene.jobs["convert"].enqueue(1)

    async def busy() -> None:
        stop = asyncio.Event()
        for _ in range(3):
            scene.jobs["send"].enqueue(3000)
        looking = asyncio.create_task(scene.telling.run(stop, 30.0))
        working = asyncio.create_task(scene.q.arun_worker(1, stop=stop, grace=1))
        await asyncio.sleep(1800)
        stop.set()
        await asyncio.gather(looking, working)

    scene.clock.run(busy())
    assert ("stuck", "mail") in [(line.kind, line.name) for line in scene.lines()]
    assert ("stuck", "convert") not in [(line.kind, line.name) for line in scene.lines()]


def test_a_pause_that_was_forgotten_is_told_and_ends_with_it(scene: Scene) -> None:
    scene.jobs["send"].enqueue(0)
    scene.q.store.write(lambda tx: job_actions.pause_queue(tx, "mail", "3d", "ada"))
    scene.pass_(86000, every=3600, work=False)
    assert lines(scene) == []
    scene.pass_(3700, every=3600, work=False)
    assert lines(scene) == [("paused", "mail", True)]
    assert "ada" in scene.lines()[0].message

    scene.q.store.write(lambda tx: job_actions.resume_queue(tx, "mail", "ada"))
    scene.pass_(60)
    assert lines(scene) == [("paused", "mail", False)]


def test_jobs_that_gave_up_for_the_same_reason_are_one_notice(scene: Scene, outside: Outside) -> None:
    for n in range(1, 31):
        scene.jobs["send"].enqueue(-n)
    scene.jobs["convert"].enqueue(-1)
    scene.pass_(120)
    assert [(kind, name) for kind, name, _ in lines(scene)] == [("gave_up", "gateway"), ("gave_up", "mail")]
    assert outside.sent == []  # more may come
    for n in range(31, 41):
        scene.jobs["send"].enqueue(-n)
    scene.pass_(300)

    assert [numbers(letter.title) for name, letter in outside.sent if name == "mail"] == [[30]]
    assert [line.why for line in scene.lines() if line.name == "gateway"] == [
        SuppressReason.NO_CHANNEL
    ]  # one item, refused
    assert any("40 jobs" in letter.text for _, letter in outside.sent)
    # Whoever deals with all of them ends it.
    for job in range(1, 50):
        try:
            scene.q.forget(job)
        except (NotFound, Rejected):  # those of the deliveries are none of them
            continue
    scene.pass_(60)
    assert not any(open_ for _, _, open_ in lines(scene))


def test_the_end_of_an_outage_says_what_became_of_the_work(scene: Scene, outside: Outside) -> None:
    scene.jobs["service"].ill = Refusal(503)
    for n in range(-2, 31):
        scene.jobs["convert"].enqueue(n)
    scene.pass_(400)
    (opened,) = [letter for name, letter in outside.sent if name == "hook" and letter.about["kind"] == "breaker"]
    assert opened.about["name"] == "gateway"
    assert "31 jobs" in opened.text

    scene.jobs["service"].ill = None
    scene.pass_(60)
    scene.jobs["convert"].enqueue(-3)
    scene.pass_(1200)
    (closed,) = [letter for name, letter in outside.sent if name == "hook" and letter.about["kind"] == "recovered"]
    assert re.search(r"0 lost.* 3 ", closed.text)


def test_what_is_still_held_at_the_end_is_counted(scene: Scene) -> None:
    scene.q.store.write(lambda tx: tx.query("target_new", {"name": "gateway"}))
    scene.jobs["convert"].enqueue_many([(each,) for each in range(31)])
    known = NoticeRow(
        7, "recovered", "success", "target", "gateway", "", "", 0.0, None, "It works again", "It does.", "", None,
        0.0, 0.0, None, None, None, None, None, 0,
    )  # fmt: skip

    assert numbers(scene.q.store.read(lambda tx: messages.became(tx, known, 0.0))) == [31, 0, 0]
