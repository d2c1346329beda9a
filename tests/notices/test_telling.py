"""Notices become deliveries: once for each channel, whatever is started again, and not at each flap."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.databases import BOTH, Database
from tests.jobs.gating import Refusal, Service
from tests.notices.telling import HOOK, MAIL, MESSAGE, Outside, Scene, on_sqlite, raise_fatal, recover
from tests.store.jobs import rows
from tidegate import Backoff, Target
from tidegate.clock import VirtualClock
from tidegate.jobs import actions as job_actions
from tidegate.jobs import restore
from tidegate.jobs.queue import Queue
from tidegate.notices.policy import NoticePolicy, SuppressReason
from tidegate.targets import actions

EVEN = Backoff(30, cap=120, jitter=0)


# -- once --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_a_fatal_fault_over_50_ticks_and_10_restarts_is_one_notice_one_delivery_per_channel_and_one_recovery(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    service = Service(clock, takes=0, ill=Refusal(401))

    def declare(q: Queue) -> Any:
        @q.job(target=Target("spotify", "jobs", backoff=EVEN), key=lambda who: who, name="call", attempts=100)
        async def call(who: str) -> None:
            await service.call(who)

        return call

    for _ in range(10):
        with Scene(db, clock, outside, declare=declare) as scene:
            for _ in range(5):
                scene.jobs.enqueue("7")
                scene.pass_(60)
    with Scene(db, clock, outside, declare=declare) as scene:
        service.ill = None
        scene.q.store.write(lambda tx: actions.clear_key(tx, "spotify", "7", "ada"))
        scene.jobs.enqueue("7")
        scene.pass_(2400)

        assert scene.kinds() == ["fatal", "recovered"]
        for channel in ("hook", "mail"):
            sent = [letter.about["kind"] for name, letter in outside.sent if name == channel]
            assert sent == ["fatal", "recovered"]


@on_sqlite
def test_trouble_and_its_end_are_told_once_to_each_channel(scene: Scene, outside: Outside) -> None:
    raise_fatal(scene)
    scene.pass_(60)
    recover(scene)
    scene.pass_(300)
    assert outside.told() == ["fatal spotify"] * 2  # it must last first

    scene.pass_(600)
    assert outside.told("hook") == outside.told("mail") == ["fatal spotify", "recovered spotify"]
    letter = outside.sent[0][1]
    assert letter.text.splitlines() == [
        MESSAGE, "", "Since 22:13 UTC.", "", "Connect it again.", "",
        "https://t.example/targets/spotify",
    ]  # fmt: skip
    assert len({letter.id for _, letter in outside.sent}) == 2  # the same for both channels


@on_sqlite
def test_a_channel_is_told_no_less_than_its_level(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside, channels=(HOOK, replace(MAIL, level="error"))) as scene:
        scene.q.store.write(lambda tx: job_actions.pause_queue(tx, "mail", "5d", "ada", known=["mail"]))
        scene.pass_(86400, every=3600, work=False)
        scene.pass_(60)

        assert [(line.kind, line.level) for line in scene.lines()] == [("paused", "warning")]
        assert (len(outside.told("hook")), outside.told("mail")) == (1, [])


@on_sqlite
def test_without_a_channel_it_is_said_why_nobody_was_told(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside, channels=()) as scene:
        raise_fatal(scene)
        scene.pass_(60, work=False)

        assert [(line.told_at, line.why) for line in scene.lines()] == [(None, SuppressReason.NO_CHANNEL)]


@on_sqlite
def test_what_was_decided_once_is_not_told_when_a_channel_comes_later(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    with Scene(db, clock, outside, channels=()) as scene:
        raise_fatal(scene)
        scene.pass_(60, work=False)
    with Scene(db, clock, outside) as scene:
        scene.pass_(60)

    assert outside.sent == []


class BrokenOnce:
    """Quiet hours that cannot be told at the first time."""

    def __init__(self) -> None:
        self.times = 0

    def until(self, now: float) -> None:
        self.times += 1
        if self.times == 1:
            raise ArithmeticError(now)


@on_sqlite
def test_a_look_that_goes_wrong_ends_neither_the_worker_nor_the_looks_after_it(
    db: Database, clock: VirtualClock, outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    quiet: Any = BrokenOnce()
    with Scene(db, clock, outside, channels=(HOOK,), policy=NoticePolicy(quiet=quiet)) as scene:
        raise_fatal(scene)
        scene.pass_(60)
        recover(scene)
        scene.pass_(700, every=60.0)

    assert quiet.times > 1
    assert outside.told() == ["fatal spotify", "recovered spotify"]
    assert [each.getMessage() for each in caplog.records if each.exc_text] == [
        "notices_not_looked_at error=ArithmeticError"
    ]


@on_sqlite
def test_of_two_processes_that_look_one_decides(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside) as one, Scene(db, clock, outside) as other:
        for n in range(5):
            raise_fatal(one, f"service-{n}")
        assert [one.telling.evaluate(), other.telling.evaluate(), one.telling.evaluate(), other.telling.evaluate()] == [
            True, False, False, False,
        ]  # fmt: skip
        one.pass_(60)
        other.pass_(60)

    assert sorted(outside.told("mail")) == [f"fatal service-{n}" for n in range(5)]


@on_sqlite
def test_a_look_that_finds_nothing_writes_nothing(scene: Scene) -> None:
    raise_fatal(scene)
    scene.pass_(60)
    lead = "select until from tg_leader where name = 'notices'"  # it is taken before anything is written
    before = rows(scene.q.store, lead)
    scene.pass_(600, work=False)

    assert rows(scene.q.store, lead) == before != []


@on_sqlite
def test_a_database_that_was_put_back_tells_nobody_of_what_was_told_long_ago(scene: Scene, outside: Outside) -> None:
    raise_fatal(scene)
    scene.telling.evaluate()
    raise_fatal(scene, "lastfm")
    scene.q.store.write(lambda tx: restore.restored(tx, scene.q.store.dialect))
    scene.pass_(120)
    assert outside.sent == []

    raise_fatal(scene, "deezer")
    scene.pass_(60)
    assert outside.told("mail") == ["fatal deezer"]


# -- flapping ----------------------------------------------------------------------------------------------------------


@on_sqlite
def test_a_breaker_that_flaps_ten_times_an_hour_makes_two_notices_and_two_deliveries_at_most(
    scene: Scene, outside: Outside
) -> None:
    scene.q.store.write(lambda tx: tx.query("target_new", {"name": "gateway"}))
    for _ in range(10):
        scene.q.store.write(lambda tx: actions.force_breaker(tx, "gateway", "open", "test", "1d"))
        scene.pass_(180)
        scene.q.store.write(lambda tx: actions.force_breaker(tx, "gateway", "closed", "test"))
        scene.pass_(180)

    assert scene.kinds() == ["flapping"]
    assert outside.told("mail") == ["flapping gateway"]
    scene.pass_(3600, every=300)
    assert scene.kinds() == ["flapping", "recovered"]
    assert outside.told("mail") == ["flapping gateway", "recovered gateway"]


@on_sqlite
def test_a_key_that_flaps_is_told_of_once_and_why_the_rest_is_not(scene: Scene, outside: Outside) -> None:
    for _ in range(10):
        raise_fatal(scene)
        scene.pass_(180)
        recover(scene)
        scene.pass_(180)
    scene.pass_(3600, every=300)

    assert outside.told("mail") == ["fatal spotify", "recovered spotify"]
    whys = [line.why for line in scene.lines()]
    assert [n for why, n in Counter(whys).most_common(2) if why] == [9, 9]
