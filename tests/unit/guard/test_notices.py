"""What people are told: once per episode, in whole sentences, and never a secret."""

from __future__ import annotations

import re
import threading

import pytest

from tests.unit.guard.scene import Answered, Scene, down
from tidegate import rules
from tidegate.events import Notice, NoticeKind
from tidegate.faults import Level
from tidegate.faults.codes import CORE
from tidegate.guard import publisher
from tidegate.testing import VirtualClock


@pytest.mark.req("SYNC-09")
def test_a_fatal_fault_tells_once_and_later_ticks_tell_nothing_more() -> None:
    scene = Scene()
    for _ in range(50):
        scene.fail(Answered(401)) if not scene.holds() else scene.reason()
        scene.clock.advance("5m")

    (notice,) = scene.events.notices()
    assert (notice.kind, notice.icon, notice.code) == (NoticeKind.FATAL, "error", "unauthorized")
    assert "spotify" in notice.title
    assert notice.message.startswith(CORE["unauthorized"].message)
    assert (notice.key, notice.operation) == (7, None)
    assert notice.episode == pytest.approx(1_700_000_000.0)
    assert scene.events.assert_one("notice").user == 7


@pytest.mark.req("SYNC-09")
def test_many_calls_that_are_refused_at_the_same_time_tell_once() -> None:
    scene, together = Scene(), threading.Barrier(16)

    @scene.target.guard(key="user")
    def recent(user: int) -> None:
        together.wait()
        raise Answered(401)

    def call() -> None:
        with pytest.raises(Answered):
            recent(7)

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scene.notices() == ["fatal"]


@pytest.mark.req("SYNC-09")
def test_a_fault_of_one_operation_is_told_for_that_operation() -> None:
    scene = Scene()
    scene.fail(Answered(403), operation="recent")

    assert (scene.last_notice().operation, scene.events.assert_one("target_fatal").operation) == ("recent", "recent")


@pytest.mark.req("SYNC-11")
def test_reaching_the_cap_warns_once_per_episode() -> None:
    scene = Scene()
    scene.fail(*[down()] * 6)
    assert scene.notices() == []
    scene.fail(*[down()] * 20)

    assert scene.notices() == ["cap"]
    assert scene.last_notice().icon == "warning"
    scene.fail("ok", *[down()] * 9)
    assert scene.notices() == ["cap", "recovered", "cap"]


@pytest.mark.req("SYNC-11")
def test_the_warning_can_be_turned_off_and_then_nothing_is_recovered_from() -> None:
    scene = Scene(cap_notice=False)
    scene.fail(*[down()] * 20, "ok")

    assert scene.notices() == []


@pytest.mark.req("SYNC-11")
def test_a_recovery_after_either_notice_says_so_once() -> None:
    scene = Scene()
    scene.fail(*[down()] * 9, Answered(402), "ok", "ok", "ok")

    assert scene.notices() == ["cap", "fatal", "recovered"]
    cap, fatal, recovered = scene.events.notices()
    assert cap.episode == fatal.episode == recovered.episode
    assert recovered.icon == "success"


@pytest.mark.req("SYNC-11")
def test_a_short_trouble_is_told_to_nobody() -> None:
    scene = Scene()
    scene.fail(down(), down(), "ok")

    assert scene.notices() == []
    scene.events.assert_none("target_recovered")


@pytest.mark.req("SYNC-11")
def test_a_fault_of_one_item_is_no_reason_to_warn_of_the_cap() -> None:
    scene = Scene()
    scene.fail(*[down()] * 6)
    scene.fail(Answered(409))

    assert scene.notices() == []


def test_an_episode_has_one_name_whatever_the_wall_clock_does() -> None:
    clock = VirtualClock()
    scene = Scene(clock=clock)
    scene.fail(Answered(402))
    clock.step_wall(-86_400)
    scene.fail("ok")

    fatal, recovered = scene.events.notices()
    assert fatal.episode == recovered.episode


@pytest.mark.parametrize("code", sorted(CORE))
def test_every_text_is_made_of_whole_sentences(code: str) -> None:
    about = publisher.Subject("spotify", 7, None, 0.0)
    fault = CORE[code].fault("test", detail="token=hunter2")
    for notice in (publisher.fatal(about, fault), publisher.cap(about, fault), publisher.recovered(about)):
        assert re.fullmatch(r"(?:[A-Z][^.?!]*[.?!] ?)+", notice.message), notice.message
        assert not notice.title.endswith(".")
        assert "hunter2" not in notice.message + notice.title


def test_no_secret_of_an_exception_reaches_a_notice() -> None:
    scene = Scene(rules=rules.spotify, confirm=())
    scene.fail(Answered(401, {"Authorization": "hunter2"}, b'{"error": "invalid_grant", "token": "hunter2"}'))

    assert "hunter2" not in repr(scene.events.notices())


def test_a_function_for_users_that_raises_costs_the_user_and_not_the_call(caplog: pytest.LogCaptureFixture) -> None:
    def user(key: object) -> int:
        raise LookupError("no such key")

    scene = Scene(user=user)
    with pytest.raises(ConnectionRefusedError):
        scene.call(down())
    assert scene.events.assert_one("call_failed").user is None
    assert [record.levelname for record in caplog.records] == [Level.ERROR]


def test_the_icon_of_each_kind_of_notice() -> None:
    icons = {kind: Notice(kind=kind, target="t", episode=0, title="x", message="y").icon for kind in NoticeKind}
    assert icons == {
        "fatal": "error", "cap": "warning", "disabled": "warning", "own_link": "warning", "clock": "warning",
        "recovered": "success",
    }  # fmt: skip
