"""The breaker of a target, in the hands of whoever has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.guard.scene import Answered, Scene, held
from tidegate import Breaker, BreakerOpen, Held
from tidegate.faults import Confirm
from tidegate.guard.breaker_state import AdmitToken
from tidegate.testing import VirtualClock


class Interrupted(VirtualClock):
    """Something happens right after the time was read, once."""

    __slots__ = ("then",)

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], object] | None = None

    def monotonic(self) -> float:
        now = super().monotonic()
        then, self.then = self.then, None
        if then is not None:
            then()
        return now


def breaker_of(scene: Scene) -> Breaker:
    assert scene.target.breaker is not None
    return scene.target.breaker


def test_it_is_forced_until_a_date_as_people_give_it() -> None:
    scene = Scene(breaker=True)
    scene.clock.advance("1h")
    breaker_of(scene).force("open", scene.clock.now() + 60)
    with held("breaker") as caught:
        scene.call()
    assert caught.value.retry_after == pytest.approx(60)
    scene.clock.advance(60)
    assert breaker_of(scene).state == "half-open"


def test_asked_without_its_target_it_shows_the_times_that_people_read() -> None:
    scene = Scene(breaker={"max_requests": 1})
    scene.clock.advance("1h")
    opened = scene.clock.now()
    breaker_of(scene).force("open", "60s")
    scene.clock.advance(10)
    with pytest.raises(BreakerOpen) as caught:
        breaker_of(scene).call(int)
    assert (caught.value.since, caught.value.until) == pytest.approx((opened, opened + 60))

    scene.clock.advance(50)
    with breaker_of(scene).permit(), pytest.raises(Held) as crowded:
        breaker_of(scene).call(int)
    assert crowded.value.since == pytest.approx(opened + 60)


def test_a_rejection_that_a_reset_overtakes_began_before_it_ends() -> None:
    clock = Interrupted()
    scene = Scene(clock=clock, breaker=True)
    recent = scene.target.guard()(lambda: "ok")
    breaker_of(scene).force("open", "60s")
    clock.advance(10)

    def overtake() -> None:
        clock.advance(100)
        breaker_of(scene).reset()

    clock.then = overtake
    with held("breaker") as caught:
        recent()
    assert caught.value.until is not None
    assert caught.value.since < caught.value.until
    assert caught.value.retry_after == pytest.approx(50)
    assert recent() == "ok"


def test_a_class_of_the_users_own_admits_in_its_own_way() -> None:
    class Quiet(Breaker):
        entered = 0

        def enter(self) -> AdmitToken:
            self.entered += 1
            if self.entered > 1:
                raise Held(self.name, None, "breaker", 0.0, None, None)
            return super().enter()

    clock = VirtualClock()
    scene = Scene(clock=clock, breaker=Quiet("mine", clock=clock.monotonic))
    recent = scene.target.guard()(lambda: "ok")
    assert recent() == "ok"
    with held("breaker"):
        recent()


def test_what_works_all_the_time_is_not_forgotten_for_what_worked_once() -> None:
    doubted = Confirm("overloaded", times=2, apart="5s", good=True, until_then="overloaded", only_worked=True)
    scene = Scene(backoff=None, breaker=True, confirm=(doubted,))

    @scene.target.guard(key="user")
    def recent(user: int, status: int = 200) -> None:
        if status != 200:
            raise Answered(status)

    for user in range(10_050):
        recent(user)
        if user % 99 == 0:  # not among the last ones, so that it is not known anew
            recent(0)
    with pytest.raises(Answered):
        recent(0, 503)
    assert breaker_of(scene).counts.failures == 1, "it has worked, so that the first doubt is a failure"
