"""A target that goes on where an earlier process was."""

from __future__ import annotations

import pytest

from tests.unit.guard.scene import Answered, Scene, down
from tidegate import Backoff, Cooldown, Held, Target, classify
from tidegate.clock import VirtualClock
from tidegate.events import Bus
from tidegate.guard import Health, Tuning


def made(clock: VirtualClock) -> Target:
    return Target(
        "svc", "sync", backoff=Backoff(30, cap=1800, jitter=0), clock=clock, self_guard=False, tuning=Tuning(bus=Bus())
    )


def fails(target: Target, key: int, error: Exception, operation: str = "recent") -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)):
        target.key(key).guard(operation=operation)(call)()


def put_back(target: Target, kept: list[Health]) -> None:
    for each in kept:
        assert each.fault is not None
        until = None if each.hold is None else each.hold.until
        target.key(each.key).restore(
            each.fault, failures=each.failures, since=each.since, until=until, operation=each.operation
        )


def test_backoff_and_fatal_state_go_on_in_the_next_process_with_their_times_and_counts() -> None:
    before = VirtualClock()
    target = made(before)
    for _ in range(3):
        fails(target, 7, down())
        before.advance(130)
    fails(target, 7, down())
    fails(target, 8, Answered(401))
    fails(target, 9, Answered(403), operation="likes")
    kept = target.unhealthy()
    assert [each for key in (7, 8, 9, 10) for each in target.key(key).health()] == kept

    clock = VirtualClock(start=before.now() + 100)  # its own monotonic clock begins at nought
    again = made(clock)
    put_back(again, kept)

    assert [(each.key, each.operation, each.failures) for each in again.unhealthy()] == [
        (7, None, 4), (8, None, 1), (9, "likes", 1),
    ]  # fmt: skip
    (hold,) = again.key(7).explain("recent")
    assert str(hold.reason) == "backoff"
    assert hold.until == pytest.approx(before.now() + 240)
    assert [each.reason for each in again.key(8).explain()] == ["fatal"]
    assert again.key(9).explain("recent") == []
    with pytest.raises(Held):
        again.key(9).guard(operation="likes")(lambda: None)()

    clock.advance(141)
    fails(again, 7, down())
    assert again.key(7).explain()[0].until == pytest.approx(clock.now() + 480)  # the ladder is climbed further


def test_what_is_known_by_now_is_not_overruled_by_what_was_kept() -> None:
    clock = VirtualClock()
    target = made(clock)
    fails(target, 7, down())
    kept = target.unhealthy()
    target.key(7).clear()
    fails(target, 7, Answered(401))

    put_back(target, kept)

    assert [each.reason for each in target.key(7).explain()] == ["fatal"]


def test_a_fatal_fault_that_held_nothing_holds_nothing_after_a_restore() -> None:
    scene = Scene(profile="requests")
    scene.fail(Answered(401), key=None)
    kept = scene.target.health()
    assert [each.hold for each in kept] == [None]

    again = Scene(profile="requests")
    put_back(again.target, kept)

    assert [each.failures for each in again.target.health()] == [1]
    assert again.reason(key=None) is None


def test_a_fatal_fault_that_a_cooldown_governs_holds_nothing_after_a_restore() -> None:
    fault = classify(Answered(401))
    assert fault is not None
    cooldown = Cooldown({fault.code: (3, "1h")})
    scene = Scene(cooldown=cooldown, backoff=None)
    scene.fail(Answered(401))
    kept = scene.target.unhealthy()
    assert [each.hold for each in kept] == [None]

    again = Scene(cooldown=cooldown, backoff=None)
    put_back(again.target, kept)

    assert again.reason() is None


def test_a_probe_that_was_due_is_due_after_a_restore() -> None:
    scene = Scene()
    scene.fail(Answered(402))
    scene.clock.advance("2h")
    kept = scene.target.unhealthy()
    assert [each.hold for each in kept] == [None]

    again = Scene()
    put_back(again.target, kept)

    assert again.holds() == []
    assert again.target.key(7).call(again.holds) == ["fatal"], "the probe is one call"
    assert again.target.unhealthy() == []
