"""What people do about a notice, and the mail that one of them gets."""

from __future__ import annotations

from tests.databases import Database
from tests.notices.telling import HOOK, Outside, Scene, on_sqlite, raise_fatal, recover
from tidegate import outbox
from tidegate.admin.metrics import figures
from tidegate.clock import VirtualClock
from tidegate.events import Notice, NoticeKind
from tidegate.notices import deliveries, inbox
from tidegate.notices.policy import NoticePolicy
from tidegate.notices.senders import DeliveryError
from tidegate.targets import actions, table


@on_sqlite
def test_a_snooze_silences_until_its_end_and_then_it_is_told_once_more(scene: Scene, outside: Outside) -> None:
    raise_fatal(scene)
    scene.pass_(60)
    scene.q.store.write(lambda tx: inbox.snooze(tx, 1, "15m", "ada"))
    assert scene.q.store.read(inbox.unread) == 0
    scene.pass_(600)
    assert len(outside.told("mail")) == 1

    scene.pass_(600)
    assert len(outside.told("mail")) == 2
    assert scene.q.store.read(inbox.unread) == 1
    scene.pass_(3600, every=300)
    assert len(outside.told("mail")) == 2


@on_sqlite
def test_what_waits_to_be_delivered_when_it_is_snoozed_is_told_at_the_end_of_that_and_once(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    with Scene(db, clock, outside, channels=(HOOK,), policy=NoticePolicy(patience=7200.0)) as scene:
        outside.ill["hook"] = DeliveryError("network", "refused")
        raise_fatal(scene)
        scene.pass_(60)
        assert outside.tries > 0
        scene.q.store.write(lambda tx: inbox.snooze(tx, 1, "1h", "ada"))
        counted_before = scene.q.store.read(lambda tx: table.target(tx, HOOK.target))
        assert counted_before is not None
        assert counted_before.breaker.run == outside.tries
        tries = outside.tries
        del outside.ill["hook"]
        scene.pass_(1800)

        assert (outside.sent, outside.tries) == ([], tries)
        (first,) = scene.q.store.read(lambda tx: deliveries.deliveries(tx, [1]))[1]
        assert first.state == "failed"  # and counted as snoozed, below
        # It says nothing about the channel, which was not asked: what was counted against it still is.
        after = scene.q.store.read(lambda tx: table.target(tx, HOOK.target))
        assert after is not None
        assert after.breaker.run == counted_before.breaker.run
        assert [each.token for each in scene.q.store.read(deliveries.channels)] == ["new"]

        scene.pass_(3600)
        assert outside.told() == ["fatal spotify"]
        counted = scene.q.store.read(figures).deliveries
        assert counted == {("hook", "delivered"): 1, ("hook", "failed"): 0, ("hook", "snoozed"): 1}


@on_sqlite
def test_what_is_still_on_its_way_at_the_end_of_a_snooze_is_not_told_twice(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    with Scene(db, clock, outside, channels=(HOOK,), policy=NoticePolicy(patience=7200.0)) as scene:
        raise_fatal(scene)
        scene.pass_(60, work=False)
        scene.q.store.write(lambda tx: inbox.snooze(tx, 1, "15m", "ada"))
        scene.pass_(1000, work=False)  # no worker is there until it is over
        scene.pass_(120)

        assert outside.told() == ["fatal spotify"]
        rounds = scene.q.store.read(lambda tx: deliveries.deliveries(tx, [1]))[1]
        assert [(each.round_no, each.state) for each in rounds] == [(0, "failed"), (1, "delivered")]


@on_sqlite
def test_what_is_read_stays_silent_until_it_works_again(scene: Scene, outside: Outside) -> None:
    raise_fatal(scene)
    scene.pass_(60)
    scene.q.store.write(lambda tx: inbox.acknowledge(tx, 1, "ada"))
    scene.q.store.write(lambda tx: inbox.snooze(tx, 1, "15m", "ada"))
    scene.pass_(1200)
    assert len(outside.told("mail")) == 1

    recover(scene)
    scene.pass_(900)
    assert outside.told("mail") == ["fatal spotify", "recovered spotify"]


@on_sqlite
def test_the_person_whose_account_it_is_gets_one_mail_a_week(scene: Scene, outside: Outside) -> None:
    scene.q.store.write(lambda tx: tx.query("address_put", {"who": "7", "mail": "ada@example.org"}))

    def fails_anew(code: str) -> None:
        about = Notice(
            kind=NoticeKind.FATAL, target="spotify", key="7", episode=scene.clock.now(), title="Spotify", message="No.",
            code=code,
        )  # fmt: skip
        scene.q.store.write(lambda tx: outbox.record_target_notice(tx, outbox.of_target(about, "7", "7")))
        scene.pass_(60)

    def personal() -> int:
        return outside.to.count(("ada@example.org",))

    fails_anew("unauthorized")
    fails_anew("quota_exhausted")
    assert personal() == 1
    scene.pass_(7 * 86400, every=86400, work=False)
    fails_anew("unauthorized")
    assert personal() == 2

    scene.q.store.write(lambda tx: outbox.acknowledge_recovered(tx, "spotify", "7"))  # connected again
    fails_anew("unauthorized")
    assert personal() == 3
    counted = scene.q.store.read(figures).deliveries
    assert counted["@people", "delivered"] == 3
    assert {name for name, _ in counted} == {"hook", "mail", "@people"}  # nobody's name is a label


@on_sqlite
def test_a_person_who_was_mailed_hears_of_the_end_only_while_there_is_a_channel_that_sends_mail(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    with Scene(db, clock, outside) as scene:
        scene.q.store.write(lambda tx: tx.query("address_put", {"who": "7", "mail": "ada@example.org"}))
        raise_fatal(scene)
        scene.pass_(60)
        assert outside.to.count(("ada@example.org",)) == 1
    with Scene(db, clock, outside, channels=(HOOK,)) as scene:  # the operator has taken it out
        recover(scene)
        scene.pass_(1800)

        assert outside.told("hook") == ["fatal spotify", "recovered spotify"]
        assert outside.to.count(("ada@example.org",)) == 1


@on_sqlite
def test_a_mail_that_was_not_sent_is_not_counted(scene: Scene, outside: Outside) -> None:
    scene.q.store.write(lambda tx: tx.query("address_put", {"who": "7", "mail": "ada@example.org"}))
    outside.ill["mail"] = DeliveryError("misconfigured", "550 no")
    raise_fatal(scene)
    scene.pass_(60)

    assert scene.q.store.read(lambda tx: tx.query("mailed", {"who": "7", "target": "spotify"})) == []


@on_sqlite
def test_the_numbers_can_be_others(db: Database, clock: VirtualClock, outside: Outside) -> None:
    with Scene(db, clock, outside, policy=NoticePolicy(grace=60.0, steady=60.0)) as scene:
        scene.q.store.write(lambda tx: tx.query("target_new", {"name": "gateway"}))
        scene.q.store.write(lambda tx: actions.force_breaker(tx, "gateway", "open", "test", "1d"))
        scene.pass_(120)
        assert scene.kinds() == ["breaker"]
