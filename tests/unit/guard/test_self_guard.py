"""The self guard on targets: nothing is counted while our own link is down, one notice says so, and it ends."""

from __future__ import annotations

import pytest

from tests.unit.guard.scene import Answered, Scene, down
from tidegate.guard import NetworkGuardPolicy, network_guard
from tidegate.testing import VirtualClock


def ten(clock: VirtualClock, *, self_guard: bool = True) -> list[Scene]:
    breaker = {"consecutive": 1}
    return [Scene(name=f"target-{n}", clock=clock, breaker=breaker, self_guard=self_guard) for n in range(12)]


def quiet(clock: VirtualClock) -> list[Scene]:
    return [Scene(name=f"target-{n}", clock=clock, self_guard=True) for n in range(12)]


def test_when_ten_targets_fail_at_once_nobody_is_charged_from_then_on() -> None:
    scenes = ten(VirtualClock())
    for scene in scenes:
        scene.fail(down())

    charged = [bool(scene.target.unhealthy()) for scene in scenes]
    opened = [scene.target.breaker is not None and scene.target.breaker.state == "open" for scene in scenes]
    assert charged == opened == [True] * 9 + [False] * 3
    assert [len(scene.events.of("own_link_lost")) for scene in scenes] == [0] * 9 + [1, 0, 0]
    assert [notice for scene in scenes for notice in scene.notices()] == ["own_link"]
    assert scenes[11].events.assert_one("call_failed").fields == {"own_link": True}


def test_it_is_back_when_the_hosts_answer_again_and_then_everybody_is_charged_again() -> None:
    clock = VirtualClock()
    scenes = quiet(clock)
    for scene in scenes:
        scene.fail(down())
    for scene in scenes[9:]:
        scene.fail("ok")
    for scene in scenes[:6]:
        scene.fail("ok")

    assert sum(len(scene.events.of("own_link_back")) for scene in scenes) == 1
    scenes[11].fail(down())
    assert scenes[11].holds() == ["backoff"]
    assert sum(len(scene.notices()) for scene in scenes) == 1


def test_quiet_guards_tell_of_their_successes_while_a_host_fails_and_not_before_or_after() -> None:
    clock = VirtualClock()
    scenes = quiet(clock)
    guarded = [scene.target.key(7).guard(operation="recent")(lambda: "ok") for scene in scenes]
    link = network_guard.of(clock)

    assert [fn() for fn in guarded] == ["ok"] * 12
    assert not link.armed
    scenes[0].fail(down())
    for fn in guarded[1:]:
        fn()
    for scene in scenes[1:5]:
        scene.fail(down())
    assert not link.lost, "5 of 12 are not half"
    clock.advance("61s")
    guarded[11]()
    assert not link.armed


def test_a_call_that_was_under_way_when_the_first_host_failed_is_told_too() -> None:
    clock = VirtualClock()
    one, other = Scene(name="one", clock=clock, self_guard=True), Scene(name="other", clock=clock, self_guard=True)

    def slow() -> str:
        other.fail(down())
        return "ok"

    one.target.guard()(slow)()
    for n in range(8):
        Scene(name=f"target-{n}", clock=clock, self_guard=True).fail(down())
    assert network_guard.of(clock).lost, "nine hosts fail, and one is known to answer: that makes ten"


def test_an_answer_of_any_kind_shows_that_the_link_works() -> None:
    clock = VirtualClock()
    scenes = quiet(clock)
    for scene in scenes[:10]:
        scene.fail(Answered(500))

    assert not network_guard.of(clock).lost
    assert [scene.holds() for scene in scenes[:10]] == [["backoff"]] * 10


def test_it_can_be_turned_off() -> None:
    scenes = ten(VirtualClock(), self_guard=False)
    for scene in scenes:
        scene.fail(down())

    assert all(scene.target.unhealthy() for scene in scenes)
    assert sum(len(scene.notices()) for scene in scenes) == 0


def test_targets_on_another_clock_are_another_world() -> None:
    for n in range(30):
        scene = Scene(name=f"target-{n}", self_guard=True)
        scene.fail(down())
        assert scene.target.unhealthy()


def test_a_target_with_many_hosts_may_have_numbers_of_its_own() -> None:
    scene = Scene(self_guard=NetworkGuardPolicy(hosts=3, share=1, within="10s"))

    def fetch(host: str) -> None:
        error = down()
        error.request = type("Request", (), {"url": f"https://{host}/feed"})()  # type: ignore[attr-defined]
        raise error

    for n in range(4):
        with pytest.raises(ConnectionRefusedError):
            scene.target.key(n).call(fetch, f"host-{n}.test")
    assert [bool(scene.holds(key=n)) for n in range(4)] == [True, True, False, False]
