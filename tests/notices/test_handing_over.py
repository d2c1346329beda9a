"""A channel that fails: what it cannot deliver goes to the next, and people are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.databases import Database
from tests.jobs.gating import Refusal
from tests.notices.telling import HOOK, MAIL, Outside, Scene, on_sqlite, raise_fatal, recover
from tidegate.admin.metrics import figures
from tidegate.clock import VirtualClock
from tidegate.faults.codes import CORE
from tidegate.notices import channels, deliveries
from tidegate.notices.channels import Webhook
from tidegate.notices.senders import DeliveryError


@on_sqlite
def test_what_a_channel_cannot_deliver_goes_to_the_next_and_the_page_says_so(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    spare = replace(MAIL, standby=True)
    with Scene(db, clock, outside, channels=(HOOK, spare)) as scene:
        outside.ill["hook"] = DeliveryError("network", "refused")
        raise_fatal(scene)
        scene.pass_(120)
        assert (outside.sent, outside.tries > 1) == ([], True)  # it is tried again first

        scene.pass_(1800)
        assert outside.told("mail")[0] == "fatal spotify"
        assert scene.deliveries()[:2] == [(1, "hook", "failed", None), (1, "mail", "delivered", "hook")]
        (channel,) = [line for line in scene.lines() if line.kind == "channel"]
        assert f"channel {channel.name}" in outside.told("mail")  # though it only gets what others cannot deliver
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
        assert "recovered spotify" in outside.told("mail")
        assert "recovered spotify" not in outside.told("hook")


@on_sqlite
def test_what_was_to_go_through_a_channel_that_was_taken_out_goes_to_the_next(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    spare = replace(MAIL, standby=True)
    with Scene(db, clock, outside, channels=(HOOK, spare)) as scene:
        outside.ill["hook"] = DeliveryError("network", "refused")
        raise_fatal(scene)
        scene.pass_(60)
    with Scene(db, clock, outside, channels=(spare,)) as scene:
        scene.pass_(1800)

        assert scene.deliveries() == [(1, "hook", "failed", None), (1, "mail", "delivered", "hook")]
        assert outside.told() == ["fatal spotify"]
        why = scene.q.store.read(lambda tx: deliveries.deliveries(tx, [1]))[1][0].why
        assert why == CORE["network"].message  # that its job has expired would help nobody


@on_sqlite
def test_a_channel_that_fails_its_test_does_not_work_until_it_delivers(scene: Scene, outside: Outside) -> None:
    def states() -> list[str]:
        return [each.token for each in scene.q.store.read(deliveries.channels)]

    raise_fatal(scene)
    scene.pass_(90)
    assert states() == ["ok", "ok"]
    outside.ill["hook"] = DeliveryError("network", "refused")
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
        outside.ill["hook"] = DeliveryError("unauthorized", "535 no")
        raise_fatal(scene)
        scene.pass_(90)

        assert scene.deliveries()[:2] == [(1, "hook", "failed", None), (1, "mail", "delivered", "hook")]
        assert sorted(outside.told("mail")) == [
            "fatal channel hook", "fatal spotify",
        ]  # fmt: skip


@on_sqlite
def test_an_answer_of_410_disables_a_channel_until_it_leads_elsewhere(
    db: Database, clock: VirtualClock, outside: Outside
) -> None:
    def off(scene: Scene) -> dict[str, Any]:
        return {row.name: row.disabled_why for row in scene.q.store.read(channels.every)}

    with Scene(db, clock, outside) as scene:
        outside.ill["hook"] = Refusal(410)
        raise_fatal(scene)
        scene.pass_(60)
        assert {name: why is not None for name, why in off(scene).items()} == {"hook": True, "mail": False}
        tries = outside.tries
        raise_fatal(scene, "lastfm")
        scene.pass_(7200, every=300)
        assert "fatal lastfm" in outside.told("mail")
        assert outside.tries == tries + 1
    outside.ill.clear()
    moved = replace(HOOK, config=Webhook(url="http://127.0.0.1:2/"))
    with Scene(db, clock, outside, channels=(moved, MAIL)) as scene:
        scene.pass_(60)
        assert off(scene) == {"hook": None, "mail": None}
        raise_fatal(scene, "deezer")
        scene.pass_(60)

    assert "fatal deezer" in outside.told("hook")
