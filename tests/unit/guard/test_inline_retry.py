"""Short retries inside one guarded call: bounded, never of what cannot pass, one record for all of them."""

from __future__ import annotations

import asyncio
import gc
import traceback
import weakref
from contextlib import suppress
from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene, Stopped, down, held
from tidegate import Held, Target, fault_of
from tidegate.testing import VirtualClock

COLOURS = ["def", "async def"]


class Service:
    """Answers by a script, called behind a guard of either colour."""

    def __init__(self, scene: Scene, colour: str, *outcomes: object, retry: int = 4) -> None:
        self.scene, self.calls, self.outcomes = scene, 0, list(outcomes)
        guard = scene.target.key(7).guard(retry=retry, operation="recent")

        def answer() -> object:
            self.calls += 1
            outcome = self.outcomes.pop(0) if self.outcomes else "ok"
            if callable(outcome):
                outcome = outcome()
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async def aanswer() -> object:
            return answer()

        self.run: Any = guard(answer) if colour == "def" else lambda: scene.clock.run(guard(aanswer)())


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_hiccup_is_repeated_and_nobody_hears_of_it(colour: str) -> None:
    scene = Scene()
    service = Service(scene, colour, down(), TimeoutError(), "ok")

    assert service.run() == "ok"
    assert (service.calls, len(scene.events), scene.target.unhealthy()) == (3, 0, [])


def test_waits_are_short_and_bounded(colour: str) -> None:
    scene = Scene(roll=0.999)
    service = Service(scene, colour, *[down()] * 9, retry=10)
    started = scene.clock.monotonic()

    assert service.run() == "ok"
    assert 15 < scene.clock.monotonic() - started < 9 * 5


def test_the_retries_end_and_are_one_rung_of_backoff(colour: str) -> None:
    scene = Scene()
    service = Service(scene, colour, *[down()] * 9)

    with pytest.raises(ConnectionRefusedError):
        service.run()
    assert service.calls == 4
    assert [each.failures for each in scene.target.unhealthy()] == [1]
    scene.events.assert_one("call_failed")


@pytest.mark.parametrize("error", [Answered(401), Answered(403), Answered(404), Answered(402)])
def test_what_is_fatal_is_not_repeated(colour: str, error: Exception) -> None:
    service = Service(Scene(), colour, error)

    with pytest.raises(Answered):
        service.run()
    assert service.calls == 1


def test_a_held_call_is_not_repeated_whoever_held_it(colour: str) -> None:
    scene, other = Scene(), Scene(name="other")
    other.fail(down())
    service = Service(scene, colour, other.call)

    with held("backoff") as caught:
        service.run()
    assert caught.value.target == "other"
    assert service.calls == 1
    assert scene.target.unhealthy() == [], "the call of another target was held: that is not our failure"
    scene.fail(down())
    with held("backoff"):
        Service(scene, colour).run()


def test_a_service_that_asks_for_a_long_wait_gets_it_from_the_gate(colour: str) -> None:
    scene = Scene()
    service = Service(scene, colour, Answered(429, {"Retry-After": "6"}))

    with pytest.raises(Answered):
        service.run()
    assert service.calls == 1
    patient = Service(Scene(), colour, Answered(429, {"Retry-After": "2"}))
    started = patient.scene.clock.monotonic()
    assert patient.run() == "ok"
    assert patient.scene.clock.monotonic() - started == pytest.approx(2)


def test_the_gate_that_shuts_between_two_attempts_raises_what_happened(colour: str) -> None:
    scene = Scene()

    def refused_elsewhere() -> Exception:
        scene.fail(Answered(401), operation="other")
        return down()

    service = Service(scene, colour, refused_elsewhere)
    with pytest.raises(ConnectionRefusedError) as caught:
        service.run()
    assert service.calls == 1
    assert (caught.value.__context__, caught.value.__cause__, caught.value.__suppress_context__) == (None, None, False)
    assert fault_of(caught.value) is not None
    assert scene.holds() == ["fatal"]


def test_a_probe_is_one_call_and_not_four(colour: str) -> None:
    scene = Scene()
    scene.fail(Answered(402))
    scene.clock.advance("1h")
    service = Service(scene, colour, down())

    with pytest.raises(ConnectionRefusedError):
        service.run()
    assert service.calls == 1


def test_an_attempt_that_is_broken_off_leaves_the_failure_before_it_on_record(colour: str) -> None:
    scene = Scene()
    service = Service(scene, colour, down(), Stopped())

    with pytest.raises(Stopped):
        service.run()
    assert [each.failures for each in scene.target.unhealthy()] == [1]


def test_a_bug_of_the_program_leaves_the_failure_before_it_on_record(colour: str) -> None:
    scene = Scene(profile="requests", roll=0)
    service = Service(scene, colour, Answered(503, {"Retry-After": "4"}), KeyError("x"))

    with pytest.raises(KeyError):
        service.run()
    assert service.calls == 2
    assert [each.failures for each in scene.target.unhealthy()] == [1]
    assert scene.holds() == ["retry_after"]
    scene.events.assert_one("call_failed")


def test_a_wait_that_is_broken_off_leaves_the_failure_before_it_on_record() -> None:
    clock = VirtualClock()
    scene = Scene(clock=clock)

    @scene.target.key(7).guard(retry=4)
    async def recent() -> None:
        raise down()

    async def main() -> None:
        task = asyncio.create_task(recent())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    clock.run(main())
    assert [each.failures for each in scene.target.unhealthy()] == [1]


# -- what is raised is the user's own ----------------------------------------------------------------------------------


class Inner(Exception):
    pass


def fetch() -> None:
    try:
        raise Inner
    except Inner:
        raise down()  # noqa: B904 - its context is what is tested


@pytest.mark.parametrize("retry", [1, 3])
@pytest.mark.parametrize("shut", [False, True])
def test_chain_and_traceback_of_what_is_raised_are_those_of_the_users_code(retry: int, shut: bool) -> None:
    scene = Scene()

    @scene.target.key(7).guard(retry=retry)
    def recent() -> None:
        if shut:
            scene.target.pause("1h")
        fetch()

    try:
        raise KeyError("the caller is itself in the middle of handling something")
    except KeyError:
        with pytest.raises(ConnectionRefusedError) as caught:
            recent()
    error = caught.value
    assert isinstance(error.__context__, Inner)
    assert isinstance(error.__context__.__context__, KeyError)
    assert not error.__suppress_context__
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames[-2:] == ["recent", "fetch"]
    assert frames.count("recent") == 1
    assert len(frames) <= 6, frames


@pytest.mark.parametrize("retry", [1, 3])
@pytest.mark.parametrize("outcome", ["failed", "held", "shut"])
def test_no_cycle_is_left_behind_that_only_the_collector_would_end(retry: int, outcome: str) -> None:
    scene = Scene()
    if outcome == "held":
        scene.fail(down())

    class Big:
        pass

    def run() -> weakref.ref[Big]:
        big = Big()

        @scene.target.key(7).guard(retry=retry)
        def recent(kept: Big) -> None:
            if outcome == "shut":
                scene.target.pause("1h")
            raise down()

        with suppress(Held, ConnectionRefusedError):
            recent(big)
        return weakref.ref(big)

    gc.collect()
    gc.disable()
    try:
        assert run()() is None
    finally:
        gc.enable()


def test_no_cycle_is_left_behind_in_the_other_colour() -> None:
    target = Target("spotify", clock=VirtualClock(), self_guard=False)

    class Big:
        pass

    async def main() -> None:
        async def recent(kept: Big) -> None:
            raise down()

        for retry in (1, 2):
            big = Big()
            ref = weakref.ref(big)
            with suppress(ConnectionRefusedError):
                await target.key(retry).guard(retry=retry)(recent)(big)
            del big
            assert ref() is None

    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


class Closed(Exception):
    """Lets nobody put anything on it, and has no answer to show."""

    @property
    def response(self) -> object:
        raise RuntimeError("there was no answer")

    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("nothing is changed here")


@pytest.mark.parametrize("retry", [1, 2])
def test_an_exception_that_takes_no_verdict_comes_through_and_is_on_record(colour: str, retry: int) -> None:
    scene = Scene(concurrency=1, breaker={"consecutive": 9})
    service = Service(scene, colour, *[Closed("boom")] * retry, retry=retry)
    with pytest.raises(Closed, match="boom") as raised:
        service.run()

    assert service.calls == retry
    assert [each.failures for each in scene.target.unhealthy()] == [1]
    fault = fault_of(raised.value)
    assert fault is not None
    assert fault.code == "unexpected"
    scene.target.key(7).clear()
    assert service.run() == "ok"  # it kept no place
