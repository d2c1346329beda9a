"""Notices become deliveries: once for each channel, whatever is started again, and the next channel where one fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.channels.telling import HOOK, MAIL, Outside, Scene
from tests.databases import APSW, BOTH, Database
from tests.runtime_jobs.gating import Refusal, Service
from tests.store.jobs import rows
from tidegate import Backoff, Target
from tidegate.core.channel import Webhook
from tidegate.core.events import Notice, NoticeKind
from tidegate.face.queue import Queue
from tidegate.machine.telling import TellingPolicy
from tidegate.ops import actions, channels, notices
from tidegate.ops.figures import figures
from tidegate.runtime.channels import NotSent
from tidegate.runtime.clock import VirtualClock
from tidegate.store import backups, notice_rows, telling_rows

EVEN = Backoff(30, cap=120, jitter=0)
on_sqlite = pytest.mark.parametrize("db", [APSW], indirect=True)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def scene(db: Database, clock: VirtualClock, outside: Outside) -> Iterator[Scene]:
    with Scene(db, clock, outside) as found:
        yield found


def raise_fatal(scene: Scene, name: str = "spotify", key: str = "7", episode: float | None = None) -> None:
    at = scene.clock.now() if episode is None else episode
    about = Notice(
        kind=NoticeKind.FATAL, target=name, key=key, episode=at, title=f"{name} needs your attention",
        message="The service refused the credentials.", advice="Connect it again.", code="unauthorized",
    )  # fmt: skip
    scene.q.store.write(lambda tx: notice_rows.told(tx, notice_rows.of_target(about, key, key)))


def recover(scene: Scene, name: str = "spotify", key: str = "7") -> None:
    about = Notice(
        kind=NoticeKind.RECOVERED, target=name, key=key, episode=scene.clock.now(), title=f"{name} works again",
        message="The service answers again; there is nothing more to do.",
    )  # fmt: skip
    scene.q.store.write(lambda tx: notice_rows.told(tx, notice_rows.of_target(about, key, key)))


# -- once --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("db", BOTH, indirect=True)
def test_a_fatal_fault_over_50_ticks_and_10_restarts_is_one_notice_one_delivery_per_channel_and_one_recovery(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    service = Service(clock, takes=0, ill=Refusal(401))

    def declare(q: Queue) -> Any:
        @q.job(target=Target("spotify", backoff=EVEN), key=lambda who: who, name="call", attempts=100)
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
        assert outside.titles("hook") == outside.titles("mail") == [
            "spotify needs your attention", "spotify has not failed again",
        ]  # fmt: skip


@on_sqlite
def test_trouble_and_its_end_are_told_once_to_each_channel(scene: Scene, outside: Outside) -> None:
    raise_fatal(scene)
    scene.pass_(60)
    recover(scene)
    scene.pass_(300)
    assert outside.titles() == ["spotify needs your attention"] * 2  # it must last first

    scene.pass_(600)
    assert outside.titles("hook") == outside.titles("mail") == ["spotify needs your attention", "spotify works again"]
    letter = outside.sent[0][1]
    assert letter.text.splitlines() == [
        "The service refused the credentials.", "", "Since 22:13 UTC.", "", "Connect it again.", "",
        "https://t.example/targets/spotify",
    ]  # fmt: skip
    assert len({letter.id for _, letter in outside.sent}) == 2  # the same for both channels


@on_sqlite
def test_a_channel_is_told_no_less_than_its_level(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside, channels=(HOOK, replace(MAIL, level="error"))) as scene:
        scene.q.store.write(lambda tx: actions.pause_queue(tx, "mail", "5d", "ada", known=["mail"]))
        scene.pass_(86400, every=3600, work=False)
        scene.pass_(60)

        assert [(line.kind, line.level) for line in scene.lines()] == [("paused", "warning")]
        assert (len(outside.titles("hook")), outside.titles("mail")) == (1, [])


@on_sqlite
def test_without_a_channel_it_is_said_why_nobody_was_told(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside, channels=()) as scene:
        raise_fatal(scene)
        scene.pass_(60, work=False)

        assert [(line.told_at, line.why) for line in scene.lines()] == [(None, "no channel takes it")]


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


@on_sqlite
def test_of_two_processes_that_look_one_decides(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside) as one, Scene(db, clock, outside) as other:
        for n in range(5):
            raise_fatal(one, f"service-{n}")
        assert [one.telling.look(), other.telling.look(), one.telling.look(), other.telling.look()] == [
            True, False, False, False,
        ]  # fmt: skip
        one.pass_(60)
        other.pass_(60)

    assert sorted(outside.titles("mail")) == [f"service-{n} needs your attention" for n in range(5)]


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
    scene.telling.look()
    raise_fatal(scene, "lastfm")
    scene.q.store.write(lambda tx: backups.restored(tx, scene.q.store.dialect))
    scene.pass_(120)
    assert outside.sent == []

    raise_fatal(scene, "deezer")
    scene.pass_(60)
    assert outside.titles("mail") == ["deezer needs your attention"]


# -- flapping ----------------------------------------------------------------------------------------------------------


@on_sqlite
def test_a_breaker_that_flaps_ten_times_an_hour_makes_two_notices_and_two_deliveries_at_most(
    scene: Scene, outside: Outside
) -> None:
    scene.q.store.write(lambda tx: tx.all("target_new", {"name": "gateway"}))
    for _ in range(10):
        scene.q.store.write(lambda tx: actions.force_breaker(tx, "gateway", "open", "test", "1d"))
        scene.pass_(180)
        scene.q.store.write(lambda tx: actions.force_breaker(tx, "gateway", "closed", "test"))
        scene.pass_(180)

    assert scene.kinds() == ["flapping"]
    assert outside.titles("mail") == ["gateway comes and goes"]
    scene.pass_(3600, every=300)
    assert scene.kinds() == ["flapping", "recovered"]
    assert outside.titles("mail") == ["gateway comes and goes", "gateway is steady again"]


@on_sqlite
def test_a_key_that_flaps_is_told_of_once_and_why_the_rest_is_not(scene: Scene, outside: Outside) -> None:
    for _ in range(10):
        raise_fatal(scene)
        scene.pass_(180)
        recover(scene)
        scene.pass_(180)
    scene.pass_(3600, every=300)

    assert outside.titles("mail") == ["spotify needs your attention", "spotify works again"]
    whys = [line.why for line in scene.lines()]
    assert whys.count("it was told already, and no end of it since") == 9
    assert whys.count("the trouble came back, or goes on") == 9


# -- a channel that fails ----------------------------------------------------------------------------------------------


@on_sqlite
def test_what_a_channel_cannot_deliver_goes_to_the_next_and_the_page_says_so(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    spare = replace(MAIL, standby=True)
    with Scene(db, clock, outside, channels=(HOOK, spare)) as scene:
        outside.ill["hook"] = NotSent("network", "refused")
        raise_fatal(scene)
        scene.pass_(120)
        assert (outside.sent, outside.tries > 1) == ([], True)  # it is tried again first

        scene.pass_(1800)
        assert outside.titles("mail")[0] == "spotify needs your attention"
        assert scene.deliveries()[:2] == [(1, "hook", "failed", None), (1, "mail", "delivered", "hook")]
        (channel,) = [line for line in scene.lines() if line.kind == "channel"]
        assert channel.title == "The channel hook does not deliver"
        assert channel.title in outside.titles("mail")  # though it only gets what others cannot deliver
        counted = scene.q.store.read(figures)
        assert counted.failing == {"hook": True, "mail": False}
        assert counted.deliveries == {
            ("hook", "delivered"): 0, ("hook", "failed"): 1, ("hook", "snoozed"): 0,
            ("mail", "delivered"): 2, ("mail", "failed"): 0, ("mail", "snoozed"): 0,
        }  # fmt: skip

        del outside.ill["hook"]
        scene.telling.test("hook")
        recover(scene)
        scene.pass_(3600, every=300)
        assert not any(line.open for line in scene.lines())
        # Who was told of the trouble is told of its end, and nobody else.
        assert "spotify works again" in outside.titles("mail")
        assert "spotify works again" not in outside.titles("hook")


@on_sqlite
def test_what_was_to_go_through_a_channel_that_was_taken_out_goes_to_the_next(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    spare = replace(MAIL, standby=True)
    with Scene(db, clock, outside, channels=(HOOK, spare)) as scene:
        outside.ill["hook"] = NotSent("network", "refused")
        raise_fatal(scene)
        scene.pass_(60)
    with Scene(db, clock, outside, channels=(spare,)) as scene:
        scene.pass_(1800)

        assert scene.deliveries() == [(1, "hook", "failed", None), (1, "mail", "delivered", "hook")]
        assert outside.titles() == ["spotify needs your attention"]
        why = scene.q.store.read(lambda tx: telling_rows.deliveries(tx, [1]))[1][0].why
        assert why == "The service could not be reached."  # that its job has expired would help nobody


@on_sqlite
def test_a_channel_that_fails_its_test_does_not_work_until_it_delivers(scene: Scene, outside: Outside) -> None:
    def states() -> list[str]:
        return [each.token for each in scene.q.store.read(channels.channels)]

    raise_fatal(scene)
    scene.pass_(90)
    assert states() == ["ok", "ok"]
    outside.ill["hook"] = NotSent("network", "refused")
    scene.telling.test("hook")
    assert states() == ["failing", "ok"]

    del outside.ill["hook"]
    raise_fatal(scene, name="plex")
    scene.pass_(90)
    assert states() == ["ok", "ok"]


@on_sqlite
def test_a_channel_that_refuses_for_good_hands_over_at_once(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    with Scene(db, clock, outside, channels=(HOOK, replace(MAIL, standby=True))) as scene:
        outside.ill["hook"] = NotSent("unauthorized", "535 no")
        raise_fatal(scene)
        scene.pass_(90)

        assert scene.deliveries()[:2] == [(1, "hook", "failed", None), (1, "mail", "delivered", "hook")]
        assert sorted(outside.titles("mail")) == [
            "channel hook needs your attention", "spotify needs your attention",
        ]  # fmt: skip


@on_sqlite
def test_an_answer_of_410_disables_a_channel_until_it_leads_elsewhere(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    def off(scene: Scene) -> dict[str, Any]:
        return {row.name: row.disabled_why for row in scene.q.store.read(telling_rows.channel_rows)}

    with Scene(db, clock, outside) as scene:
        outside.ill["hook"] = Refusal(410)
        raise_fatal(scene)
        scene.pass_(60)
        assert off(scene) == {"hook": "The address of this channel says that it is gone for good.", "mail": None}
        tries = outside.tries
        raise_fatal(scene, "lastfm")
        scene.pass_(7200, every=300)
        assert "lastfm needs your attention" in outside.titles("mail")
        assert outside.tries == tries + 1
    outside.ill.clear()
    moved = replace(HOOK, way=Webhook(url="http://127.0.0.1:2/"))
    with Scene(db, clock, outside, channels=(moved, MAIL)) as scene:
        scene.pass_(60)
        assert off(scene) == {"hook": None, "mail": None}
        raise_fatal(scene, "deezer")
        scene.pass_(60)

    assert "deezer needs your attention" in outside.titles("hook")


# -- people ------------------------------------------------------------------------------------------------------------


@on_sqlite
def test_a_snooze_silences_until_its_end_and_then_it_is_told_once_more(scene: Scene, outside: Outside) -> None:
    raise_fatal(scene)
    scene.pass_(60)
    scene.q.store.write(lambda tx: notices.snooze(tx, 1, "15m", "ada"))
    assert scene.q.store.read(notices.unread) == 0
    scene.pass_(600)
    assert len(outside.titles("mail")) == 1

    scene.pass_(600)
    assert len(outside.titles("mail")) == 2
    assert scene.q.store.read(notices.unread) == 1
    scene.pass_(3600, every=300)
    assert len(outside.titles("mail")) == 2


@on_sqlite
def test_what_waits_to_be_delivered_when_it_is_snoozed_is_told_at_the_end_of_that_and_once(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    with Scene(db, clock, outside, channels=(HOOK,), policy=TellingPolicy(patience=7200.0)) as scene:
        outside.ill["hook"] = NotSent("network", "refused")
        raise_fatal(scene)
        scene.pass_(60)
        assert outside.tries > 0
        scene.q.store.write(lambda tx: notices.snooze(tx, 1, "1h", "ada"))
        tries = outside.tries
        del outside.ill["hook"]
        scene.pass_(1800)

        assert (outside.sent, outside.tries) == ([], tries)
        (first,) = scene.q.store.read(lambda tx: telling_rows.deliveries(tx, [1]))[1]
        assert channels.what_became(first) == "not delivered: It was snoozed before it was sent."
        # It says nothing about the channel, which was not asked.
        assert [each.token for each in scene.q.store.read(channels.channels)] == ["new"]

        scene.pass_(3600)
        assert outside.titles() == ["spotify needs your attention"]
        counted = scene.q.store.read(figures).deliveries
        assert counted == {("hook", "delivered"): 1, ("hook", "failed"): 0, ("hook", "snoozed"): 1}


@on_sqlite
def test_what_is_still_on_its_way_at_the_end_of_a_snooze_is_not_told_twice(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    with Scene(db, clock, outside, channels=(HOOK,), policy=TellingPolicy(patience=7200.0)) as scene:
        raise_fatal(scene)
        scene.pass_(60, work=False)
        scene.q.store.write(lambda tx: notices.snooze(tx, 1, "15m", "ada"))
        scene.pass_(1000, work=False)  # no worker is there until it is over
        scene.pass_(120)

        assert outside.titles() == ["spotify needs your attention"]
        rounds = scene.q.store.read(lambda tx: telling_rows.deliveries(tx, [1]))[1]
        assert [(each.round_no, each.state) for each in rounds] == [(0, "failed"), (1, "delivered")]


@on_sqlite
def test_what_is_read_stays_silent_until_it_works_again(scene: Scene, outside: Outside) -> None:
    raise_fatal(scene)
    scene.pass_(60)
    scene.q.store.write(lambda tx: notices.acknowledge(tx, 1, "ada"))
    scene.q.store.write(lambda tx: notices.snooze(tx, 1, "15m", "ada"))
    scene.pass_(1200)
    assert len(outside.titles("mail")) == 1

    recover(scene)
    scene.pass_(900)
    assert outside.titles("mail") == ["spotify needs your attention", "spotify works again"]


@on_sqlite
def test_the_person_whose_account_it_is_gets_one_mail_a_week(scene: Scene, outside: Outside) -> None:
    scene.q.store.write(lambda tx: tx.all("address_put", {"who": "7", "mail": "ada@example.org"}))

    def fails_anew(code: str) -> None:
        about = Notice(
            kind=NoticeKind.FATAL, target="spotify", key="7", episode=scene.clock.now(), title="Spotify", message="No.",
            code=code,
        )  # fmt: skip
        scene.q.store.write(lambda tx: notice_rows.told(tx, notice_rows.of_target(about, "7", "7")))
        scene.pass_(60)

    def personal() -> int:
        return outside.to.count(("ada@example.org",))

    fails_anew("unauthorized")
    fails_anew("quota_exhausted")
    assert personal() == 1
    scene.pass_(7 * 86400, every=86400, work=False)
    fails_anew("unauthorized")
    assert personal() == 2

    scene.q.store.write(lambda tx: notice_rows.dealt_with(tx, "spotify", "7"))  # connected again
    fails_anew("unauthorized")
    assert personal() == 3
    counted = scene.q.store.read(figures).deliveries
    assert counted["@people", "delivered"] == 3
    assert {name for name, _ in counted} == {"hook", "mail", "@people"}  # nobody's name is a label


@on_sqlite
def test_a_mail_that_was_not_sent_is_not_counted(scene: Scene, outside: Outside) -> None:
    scene.q.store.write(lambda tx: tx.all("address_put", {"who": "7", "mail": "ada@example.org"}))
    outside.ill["mail"] = NotSent("misconfigured", "550 no")
    raise_fatal(scene)
    scene.pass_(60)

    assert scene.q.store.read(lambda tx: tx.all("mailed", {"who": "7", "target": "spotify"})) == []


@on_sqlite
def test_the_numbers_can_be_others(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside, policy=TellingPolicy(grace=60.0, steady=60.0)) as scene:
        scene.q.store.write(lambda tx: tx.all("target_new", {"name": "gateway"}))
        scene.q.store.write(lambda tx: actions.force_breaker(tx, "gateway", "open", "test", "1d"))
        scene.pass_(120)
        assert scene.kinds() == ["breaker"]
