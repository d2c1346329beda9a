"""A service that asks to slow down without saying for how long is given a short, growing rest."""

from __future__ import annotations

import httpx2
import pytest

from tests.unit.guard.scene import Answered, Scene, down
from tidegate import Held, Retry, classify


def throttled() -> Answered:
    return Answered(429)


@pytest.mark.parametrize("key", [None, 7])
def test_a_429_without_retry_after_holds_its_key_for_a_second_doubling_to_a_minute(key: int | None) -> None:
    scene = Scene(profile="requests", roll=0.5)
    found: list[float] = []
    for _ in range(8):
        scene.fail(throttled(), key=key)
        assert scene.holds(key=key) == ["backoff"]
        found.append(round(scene.left(key=key) or 0, 6))
        scene.clock.advance(found[-1] + 0.001)

    assert found == [1, 2, 4, 8, 16, 32, 60, 60]
    assert scene.holds(key=8) == []


@pytest.mark.parametrize(("roll", "wait"), [(0.0, 0.75), (1 - 1e-9, 1.25)])
def test_the_wait_is_jittered_by_a_quarter(roll: float, wait: float) -> None:
    scene = Scene(profile="requests", roll=roll)
    scene.fail(throttled())
    assert scene.left() == pytest.approx(wait)


def test_a_success_ends_the_growth_and_another_failure_does_not() -> None:
    scene = Scene(profile="requests", roll=0.5)
    scene.fail(throttled())
    scene.clock.advance(1.1)
    scene.fail(down())
    assert scene.holds() == []
    scene.fail(throttled())
    assert scene.left() == pytest.approx(2)
    scene.clock.advance(2.1)
    scene.call("ok")
    scene.fail(throttled())
    assert scene.left() == pytest.approx(1)


def test_a_503_that_says_throttled_is_a_429() -> None:
    slow = classify(httpx2.Response(503, content=b"<Error><Code>SlowDown</Code></Error>"))
    busy = classify(httpx2.Response(503, content=b"<h1>Service Unavailable</h1>"))
    assert slow is not None
    assert busy is not None
    assert (slow.code, busy.code) == ("rate_limited", "overloaded")


class Service:
    """Throttles the first *count* calls."""

    def __init__(self, scene: Scene, count: int) -> None:
        self.scene = scene
        self.left = count
        self.times: list[float] = []

    def ask(self) -> str:
        self.times.append(self.scene.clock.monotonic())
        if self.left:
            self.left -= 1
            raise throttled()
        return "ok"

    def pauses(self) -> list[float]:
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]


@pytest.mark.parametrize("profile", ["requests", "sync"])
def test_an_inline_retry_waits_for_the_rest(profile: str) -> None:
    scene = Scene(profile=profile, roll=0.5)
    service = Service(scene, 2)

    assert scene.target.key(7).guard(retry=3)(service.ask)() == "ok"
    first, second = service.pauses()
    assert 1 <= first < 1.2
    assert 2 <= second < 2.3
    assert scene.holds() == []


@pytest.mark.parametrize("profile", ["requests", "sync"])
def test_a_rest_that_is_longer_than_the_cap_ends_the_retries(profile: str) -> None:
    scene = Scene(profile=profile, roll=0.5)
    service = Service(scene, 9)

    with pytest.raises(Answered):
        scene.target.key(7).guard(retry=Retry(attempts=9, base="100ms", cap="3s"))(service.ask)()
    assert len(service.times) == 3
    assert scene.holds() == ["backoff"]


def test_a_throttled_attempt_is_recorded_before_its_retry_so_that_other_calls_wait() -> None:
    scene = Scene(profile="requests", roll=0.5)
    failures: list[int] = []

    def ask() -> str:
        failures.extend(each.failures for each in scene.target.key(7).health())
        if not failures:
            failures.append(0)
            raise throttled()
        return "ok"

    assert scene.target.key(7).guard(retry=3)(ask)() == "ok"
    assert failures == [0, 1]


def test_calls_in_flight_together_count_once() -> None:
    scene = Scene(profile="requests", roll=0.5)

    def outer() -> None:
        scene.fail(throttled())
        raise throttled()

    with pytest.raises(Answered):
        scene.target.key(7).call(outer)
    assert scene.left() == pytest.approx(1)
    with pytest.raises(Held):
        scene.call("ok")


def test_a_429_that_began_before_another_failure_still_holds() -> None:
    scene = Scene(profile="requests", roll=0.5)

    def outer() -> None:
        scene.fail(down())
        raise throttled()

    with pytest.raises(Answered):
        scene.target.key(7).call(outer)
    assert scene.left() == pytest.approx(1)


@pytest.mark.parametrize(("asked", "wait"), [("1", 30), ("90", 90)])
def test_retry_after_is_a_lower_bound_of_the_backoff(asked: str, wait: float) -> None:
    scene = Scene(profile="sync", roll=0.5)
    scene.fail(Answered(429, {"Retry-After": asked}))
    assert scene.left() == pytest.approx(wait)


def test_retry_after_is_a_lower_bound_of_an_inline_retry() -> None:
    retry = Retry(attempts=3, base="2s", cap="5s")
    assert [retry.pause(1, 0.5, asked) for asked in (0.0, 0.5, 3.0, 6.0)] == [1, 1, 3, None]
