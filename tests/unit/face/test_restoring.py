"""A target that goes on where an earlier process was."""

from __future__ import annotations

import pytest

from tests.unit.face.scene import Answered, down
from tidegate import Backoff, Health, Held, Target
from tidegate.runtime.bus import Bus
from tidegate.runtime.clock import VirtualClock


def made(clock: VirtualClock) -> Target:
    return Target("svc", backoff=Backoff(30, cap=1800, jitter=0), clock=clock, bus=Bus(), self_guard=False)


def fails(target: Target, key: int, error: Exception, operation: str = "recent") -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)):
        target.key(key).guard(operation=operation)(call)()


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

    clock = VirtualClock(start=before.now() + 100)  # its own monotonic clock begins at nought
    again = made(clock)
    again.restore(kept)

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

    target.restore(kept)

    assert [each.reason for each in target.key(7).explain()] == ["fatal"]


def test_a_key_that_was_well_is_not_even_known() -> None:
    target = made(VirtualClock())
    target.restore([
        Health(
            target="svc", key=7, operation=None, failures=0, since=1.0, fault=None, hold=None, disabled_by=None
        )
    ])  # fmt: skip
    assert target.unhealthy() == []
