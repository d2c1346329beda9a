"""Breakers of single keys: how long they are kept, and which calls they count."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.guard.scene import Scene, down
from tidegate.guard.attempts import CallAttempts, CallSpec
from tidegate.guard.breaker_policy import BreakerPolicy
from tidegate.guard.key_breakers import KeyBreakers
from tidegate.guard.key_health import Admission

DAY = 86_400


def hosts(**settings: Any) -> Scene:
    return Scene(profile="requests", breaker_per="key", **settings)


def kept(scene: Scene) -> KeyBreakers:
    found = scene.target._pipeline.key_breakers  # noqa: SLF001
    assert found is not None
    return found


def count(scene: Scene) -> int:
    return sum(kept(scene).get(key) is not None for key in range(2_000))


def begun(scene: Scene, key: object = 7) -> Admission:
    """A call that is under way."""
    call = scene.target._pipeline.admit(key, "recent")  # noqa: SLF001
    assert isinstance(call, Admission)
    return call


def fail(scene: Scene, call: Admission) -> None:
    caller, error = scene.target._pipeline, down()  # noqa: SLF001
    fault, _ = caller.judge(call, error)
    CallAttempts(caller, CallSpec(call.key, call.operation), call).failed(error, fault)


def state(scene: Scene, key: object = 7) -> str | None:
    breaker = kept(scene).get(key)
    return None if breaker is None else breaker.state


def test_keys_that_failed_once_and_never_came_back_are_forgotten_all_the_time() -> None:
    scene = hosts()
    most = 0
    for key in range(1_000):
        scene.fail(down(), key=key)
        scene.clock.advance(10)
        most = max(most, count(scene) if key % 100 == 99 else 0)
    assert most < 30, "two minutes of one new key every ten seconds, and up to a minute until the next review"


def test_after_a_burst_a_few_failures_remove_all_breakers_that_are_idle() -> None:
    scene = hosts()
    for key in range(1_200):
        scene.fail(down(), key=key)
    assert count(scene) == 1_200

    scene.clock.advance(121)
    for _ in range(3):
        scene.fail(down(), key="another")
    assert count(scene) == 0, "500 at each failure"


def test_a_summary_removes_all_of_them_at_once() -> None:
    scene = hosts()
    for key in range(1_200):
        scene.fail(*[down()] * 5, key=key)
    scene.target.summary()
    assert count(scene) == 1_200
    for _ in range(2):
        scene.clock.advance(121)
        scene.target.summary()
    assert count(scene) == 0


def test_a_key_that_is_called_keeps_its_breaker_and_its_failures_in_a_row() -> None:
    scene = hosts()
    for n in range(5):
        scene.fail(down())
        scene.fail(down(), key="another")
        assert state(scene) == ("open" if n == 4 else "closed")
        scene.clock.advance(100)


def test_a_rejected_call_keeps_the_breaker_of_its_key() -> None:
    scene = hosts(breaker={"consecutive": 1, "timeout": "10h"})
    scene.fail(down())
    for hour in range(9):
        scene.clock.advance("1h")
        assert scene.reason() == "breaker"
        scene.fail(down(), key=f"another {hour}")
    assert state(scene) == "open"


def test_a_healthy_key_loses_its_breaker_also_while_it_is_called() -> None:
    scene = hosts()
    scene.fail(down())
    scene.call()
    scene.clock.advance(61)
    scene.call()
    scene.fail(down(), key="another")
    assert state(scene) is None


def test_a_breaker_that_a_person_forced_open_stays() -> None:
    scene = hosts()
    scene.fail(down())
    breaker = kept(scene).get(7)
    assert breaker is not None
    breaker.force("open", scene.clock.now() + 3 * DAY)
    scene.clock.advance(2 * DAY)
    scene.fail(down(), key="another")
    assert state(scene) == "open"


@pytest.mark.parametrize(
    ("numbers", "seconds"),
    [
        ({"interval": 30, "timeout": 5}, 30),
        ({"interval": 30, "timeout": 5, "max_timeout": 120}, 120),
        ({"interval": 30, "window": 300, "timeout": 5}, 300),
        ({"interval": 0, "timeout": 5}, DAY),
        ({"interval": 30, "timeout": None}, DAY),
        ({"interval": "3d", "timeout": 5}, DAY),
    ],
)
def test_a_breaker_is_idle_after_its_interval_or_its_open_time(numbers: dict[str, Any], seconds: float) -> None:
    assert BreakerPolicy(name="api", **numbers).idle_after == seconds


def test_a_late_failure_of_a_call_older_than_the_breaker_does_not_open_it_again() -> None:
    scene = hosts()
    late = begun(scene)
    scene.fail(*[down()] * 5)
    scene.clock.advance(6)
    assert state(scene) == "half-open"

    fail(scene, late)
    assert state(scene) == "half-open"
    assert scene.call() == "ok"


def test_failures_of_calls_under_way_count_although_the_breaker_was_evicted_meanwhile() -> None:
    scene = hosts()
    scene.fail(down())
    scene.call()
    scene.clock.advance(61)
    calls = [begun(scene) for _ in range(10)]
    scene.fail(down(), key="another")
    assert state(scene) is None

    for call in calls:
        fail(scene, call)
    assert state(scene) == "open"


def test_a_failure_of_a_call_under_way_counts_in_the_breaker_that_its_key_has_now() -> None:
    scene = hosts()
    scene.fail(down())
    scene.call()
    scene.clock.advance(61)
    call = begun(scene)
    scene.fail(down(), key="another")
    scene.fail(*[down()] * 4)
    assert state(scene) == "closed"

    fail(scene, call)
    assert state(scene) == "open"
