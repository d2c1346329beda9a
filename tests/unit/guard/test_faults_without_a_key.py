"""A fatal fault of a call without a key, in the profile that does not hold for it: few notices, and no hold."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene


def made(**settings: Any) -> Scene:
    return Scene(profile="requests", **settings)


def codes(scene: Scene) -> list[str | None]:
    return [notice.code for notice in scene.events.notices()]


def test_successes_in_between_do_not_repeat_the_notice() -> None:
    scene = made()
    for _ in range(20):
        scene.fail(Answered(401), key=None)
        scene.call("ok", key=None)
        scene.clock.advance(0.02)

    assert scene.notices() == ["fatal"], "nothing was held, so nothing recovers"
    assert len(scene.events.of("target_fatal")) == 1
    assert scene.target.unhealthy() == []


def test_each_code_has_a_notice_of_its_own() -> None:
    scene = made()
    scene.fail(Answered(401), Answered(402), Answered(401), Answered(402), key=None)

    assert len(set(codes(scene))) == len(codes(scene)) == 2


def test_the_notice_is_repeated_after_a_day_and_after_clear() -> None:
    scene = made()
    scene.fail(Answered(401), key=None)
    scene.clock.advance("23h")
    scene.fail(Answered(401), key=None)
    assert scene.notices() == ["fatal"]
    scene.clock.advance("61m")
    scene.fail(Answered(401), key=None)
    assert scene.notices() == ["fatal"] * 2
    scene.target.clear()
    scene.fail(Answered(401), key=None)
    scene.call("ok", key=None)
    assert scene.notices() == ["fatal"] * 3


def test_clearing_a_key_keeps_the_notices_of_calls_without_one() -> None:
    scene = made()
    scene.fail(Answered(401), key=None)
    scene.target.key(7).clear()
    scene.fail(Answered(401), key=None)

    assert scene.notices() == ["fatal"]


def test_it_does_not_end_a_running_retry_after() -> None:
    scene = made(roll=0)

    def slow() -> None:
        scene.fail(Answered(429, {"Retry-After": "60"}), key=None)
        raise Answered(401)

    with pytest.raises(Answered):
        scene.target.call(slow)
    assert scene.holds(key=None) == ["retry_after"]
    assert scene.left(key=None) == pytest.approx(60)
    assert scene.notices() == ["fatal"]
