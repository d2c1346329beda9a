"""The deadline of a call: cancels an async one, bounds the retries of any, covers all attempts together."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.guard.scene import Scene, down
from tidegate import Rate, fault_of
from tidegate.faults import Confirm


def test_an_async_call_is_cancelled_at_its_deadline_and_that_is_a_timeout() -> None:
    scene = Scene(deadline="5s")

    @scene.target.guard(key="user")
    async def recent(user: int) -> None:
        await asyncio.sleep(3600)

    with pytest.raises(TimeoutError) as caught:
        scene.clock.run(recent(7))
    fault = fault_of(caught.value)
    assert fault is not None
    assert fault.code == "timeout"
    assert scene.clock.monotonic() == pytest.approx(5)
    assert scene.holds() == ["backoff"]


def test_the_deadline_covers_all_attempts_together() -> None:
    scene, started = Scene(deadline="5s"), []

    @scene.target.guard(key="user", retry=50)
    async def recent(user: int) -> None:
        started.append(scene.clock.monotonic())
        await asyncio.sleep(2)
        raise down()

    with pytest.raises((TimeoutError, ConnectionRefusedError)):
        scene.clock.run(recent(7))
    assert scene.clock.monotonic() <= 5
    assert len(started) == 3
    assert [each.failures for each in scene.target.unhealthy()] == [1]


def test_of_a_plain_function_it_bounds_the_retries_only() -> None:
    scene, started = Scene(deadline="5s"), []

    @scene.target.guard(key="user", retry=50)
    def recent(user: int) -> None:
        started.append(scene.clock.monotonic())
        scene.clock.advance("4s")
        raise down()

    with pytest.raises(ConnectionRefusedError):
        recent(7)
    assert len(started) == 2, "a third one would begin after the deadline"


@pytest.mark.req("SYNC-15")
def test_a_cancellation_by_the_caller_is_neither_a_timeout_nor_a_failure() -> None:
    scene = Scene(deadline="1h", breaker={"consecutive": 1})

    @scene.target.guard(key="user")
    async def recent(user: int) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(recent(7))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    scene.clock.run(main())
    assert scene.target.unhealthy() == []
    assert len(scene.events) == 0
    assert scene.target.breaker is not None
    assert scene.target.breaker.counts.requests == 0


def test_a_timeout_of_the_callers_own_is_a_cancellation_to_us() -> None:
    scene = Scene()

    @scene.target.guard(key="user")
    async def recent(user: int) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await recent(7)

    scene.clock.run(main())
    assert scene.target.unhealthy() == []


def test_who_cannot_wait_for_the_rate_within_the_deadline_is_held_at_once() -> None:
    scene = Scene(deadline="5s", rate=Rate(1, "60s"), wait="10m")

    @scene.target.guard(key="user")
    async def recent(user: int) -> str:
        return "ok"

    assert scene.clock.run(recent(7)) == "ok"
    with pytest.raises(Exception, match="rate"):
        scene.clock.run(recent(7))
    assert scene.clock.monotonic() < 1


def test_a_doubtful_verdict_is_not_asked_beyond_the_deadline() -> None:
    async def hangs(key: int) -> None:
        await asyncio.sleep(3600)

    scene = Scene(deadline="5s", confirm=[Confirm("network", probe=hangs, until_then="overloaded")])

    @scene.target.guard(key="user")
    async def recent(user: int) -> None:
        raise down()

    with pytest.raises(ConnectionRefusedError) as caught:
        scene.clock.run(recent(7))
    assert scene.clock.monotonic() == pytest.approx(5)
    fault = fault_of(caught.value)
    assert fault is not None
    assert fault.code == "network", "the probe failed too"
