"""Retry-After of a call that was under way when another one failed."""

from __future__ import annotations

import pytest

from tests.unit.guard.scene import Answered, Scene, down


def overlap(scene: Scene, first: Exception, late: Exception, *, key: int | None, passed: float = 0) -> None:
    """*late* ends a call that began before the one that *first* ended."""

    def slow() -> None:
        scene.fail(first, key=key)
        scene.clock.advance(passed)
        raise late

    with pytest.raises(type(late)):
        scene.target.key(key).guard(operation="recent")(slow)()


@pytest.mark.parametrize("key", [None, 7])
@pytest.mark.parametrize("first", [Answered(500), Answered(429, {"Retry-After": "1"}), down()])
def test_it_holds_for_the_time_asked_and_counts_no_further_failure(key: int | None, first: Exception) -> None:
    scene = Scene(profile="requests", roll=0)
    overlap(scene, first, Answered(429, {"Retry-After": "60"}), key=key)

    assert scene.holds(key=key) == ["retry_after"]
    assert scene.left(key=key) == pytest.approx(60)
    assert [each.failures for each in scene.target.unhealthy()] == [1]
    scene.clock.advance(61)
    assert scene.call(key=key) == "ok"
    assert scene.target.unhealthy() == []


def test_it_holds_no_longer_than_is_believed() -> None:
    scene = Scene(profile="requests", max_retry_after="5m")
    overlap(scene, down(), Answered(429, {"Retry-After": "7200"}), key=7)

    assert scene.left() == pytest.approx(300)


def test_a_longer_hold_is_not_shortened() -> None:
    scene = Scene(profile="requests", roll=0)
    overlap(scene, Answered(429, {"Retry-After": "60"}), Answered(429, {"Retry-After": "20"}), key=7, passed=30)

    assert scene.left() == pytest.approx(30)


def test_a_fatal_hold_remains() -> None:
    scene = Scene(profile="requests")
    overlap(scene, Answered(401), Answered(429, {"Retry-After": "60"}), key=7)

    assert scene.holds() == ["fatal"]
    assert scene.left() is None
