"""The explanation of all that holds the calls of a target."""

from __future__ import annotations

import pytest

from tests.unit.guard.scene import Answered, Scene, down, held
from tidegate import Held, Rate
from tidegate.faults import Reach
from tidegate.faults.rule import Pack, Rule


def shut_everything(scene: Scene) -> None:
    """Every gate at once: fatal and backoff of the operation, cooldown and backoff of the key, and so on."""
    scene.fail(Answered(403), operation="recent")
    scene.fail(down(), operation="other")
    scene.target.key(7).disable("5h")
    scene.target.pause("10h")
    assert scene.target.breaker is not None
    scene.target.breaker.force("open", "9h")


def test_it_lists_every_hold_in_the_order_of_the_gate() -> None:
    scene = Scene(breaker=True, rate=Rate(1, "8h", burst=2), concurrency=5)
    shut_everything(scene)

    holds = scene.target.key(7).explain("recent")
    assert [str(hold.reason) for hold in holds] == ["paused", "fatal", "cooldown", "backoff", "breaker", "rate"]
    assert [str(hold.ended_by) for hold in holds] == ["person", "person", "time", "time", "time", "time"]
    now = scene.clock.now()
    lefts = [None if hold.until is None else round(hold.until - now) for hold in holds]
    assert lefts == [36_000, None, 18_000, 30, 32_400, 28_800]
    assert all(hold.since <= now for hold in holds)
    assert [hold.operation for hold in holds] == [None, "recent", None, None, None, None]


def test_every_hold_that_a_call_meets_is_the_first_in_the_explanation() -> None:
    scene = Scene(breaker=True, rate=Rate(1, "8h", burst=2), concurrency=5)
    shut_everything(scene)
    breaker = scene.target.breaker
    assert breaker is not None
    met = []
    for reopen in (
        scene.target.resume,
        scene.target.key(7).clear,
        breaker.reset,
        lambda: scene.clock.advance("8h"),
    ):
        first = scene.target.key(7).explain("recent")[0]
        with pytest.raises(Held) as caught:
            scene.call()
        assert caught.value.reason == first.reason
        assert caught.value.since == pytest.approx(first.since)
        assert caught.value.until == (None if first.until is None else pytest.approx(first.until))
        met.append(caught.value.reason)
        reopen()
    assert met == ["paused", "fatal", "breaker", "rate"]
    assert scene.holds() == []
    assert scene.call() == "ok"


def test_the_fatal_state_of_an_operation_comes_before_the_backoff_of_its_key() -> None:
    scene = Scene()
    scene.fail(Answered(403), operation="recent")
    scene.fail(down(), operation="other")

    assert scene.holds(operation="recent") == ["fatal", "backoff"]
    assert scene.reason(operation="recent") == "fatal"
    assert scene.reason(operation="other") == "backoff"


def test_a_half_open_breaker_with_a_free_permit_holds_nobody() -> None:
    scene = Scene(breaker={"consecutive": 1, "timeout": "1m", "max_requests": 1})
    scene.fail(down())
    scene.clock.advance("1m")
    assert scene.holds(key=8) == []

    def probe() -> None:
        assert scene.holds(key=9) == ["breaker"]
        assert scene.target.key(9).explain()[0].ended_by == "call"

    scene.target.key(8).call(probe)


def test_times_are_shown_on_the_wall_clock_also_after_it_was_stepped() -> None:
    scene = Scene()
    scene.fail(down())
    scene.clock.step_wall(7200)

    hold = scene.target.key(7).explain()[0]
    assert hold.until == pytest.approx(scene.clock.now() + 30)
    with held("backoff") as caught:
        scene.call()
    assert caught.value.retry_after == pytest.approx(30)


def test_unhealthy_lists_keys_and_operations_with_what_holds_them() -> None:
    pack = Pack("own", [Rule(name="slow", code="upstream_failure", status=520, reach=Reach.OPERATION)])
    scene = Scene(rules=pack)
    scene.fail(down(), down(), key=7)
    scene.fail(Answered(520), key=8, operation="lists")
    scene.fail("ok", key=9)
    found = {(each.key, each.operation): each for each in scene.target.unhealthy()}

    assert set(found) == {(7, None), (8, "lists")}
    assert (found[7, None].failures, found[8, "lists"].failures) == (2, 1)
    fault, hold = found[7, None].fault, found[7, None].hold
    assert fault is not None
    assert hold is not None
    assert (fault.code, hold.reason) == ("network", "backoff")
