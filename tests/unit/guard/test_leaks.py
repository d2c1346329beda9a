"""No path leaks a slot, a permit or a probe: every way to end, in every order, in both colours and over a transport."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.guard.scene import Answered, Scene, Stopped, down
from tidegate import Cooldown, Held, Rate
from tidegate.faults import Confirm

OUTCOMES: dict[str, Any] = {
    "ok": lambda: "ok",
    "down": down,
    "401": lambda: Answered(401),
    "402": lambda: Answered(402),
    "403": lambda: Answered(403),
    "404": lambda: Answered(404),
    "409": lambda: Answered(409),
    "410": lambda: Answered(410),
    "429": lambda: Answered(429, {"Retry-After": "1"}),
    "disk": lambda: OSError(28, "No space left on device"),
    "held": lambda: Held("other", None, "backoff", 0.0, 1.0, 1.0),
    "stopped": Stopped,
}
COLOURS = ["def", "async def", "transport"]


def one(scene: Scene, colour: str, outcome: Any, key: int, retry: int) -> None:
    """One call that ends so, in one of three forms."""

    def answer() -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def aanswer() -> Any:
        await asyncio.sleep(0.01)
        return answer()

    def handle(request: Any) -> Any:
        if isinstance(outcome, Answered):
            return httpx2.Response(outcome.response.status_code, headers=outcome.response.headers)
        if isinstance(outcome, BaseException):
            raise outcome
        return httpx2.Response(200, content=b"ok")

    part = scene.target.key(key)
    with suppress(Exception, Stopped):
        if colour == "def":
            part.guard(operation="recent", retry=retry)(answer)()
        elif colour == "async def":
            scene.clock.run(part.guard(operation="recent", retry=retry)(aanswer)())
        else:
            httpx2.Client(transport=part.transport(httpx2.MockTransport(handle))).get("https://a.test/recent")


def everything(**more: Any) -> Scene:
    return Scene(
        breaker={"consecutive": 3, "max_requests": 2, "timeout": "10s"},
        concurrency=2,
        cooldown=Cooldown({"gone": (1, "1m")}),
        confirm=[Confirm("forbidden", probe=lambda key: None)],
        reprobe_every="1m",
        **more,
    )


def nothing_is_left(scene: Scene) -> None:
    """After long enough, and a person who clears what only a person can, as many calls may go as ever."""
    breaker = scene.target.breaker
    assert breaker is not None
    assert breaker.counts.requests == breaker.counts.successes + breaker.counts.failures, "a permit is still out"
    scene.clock.advance("2h")
    for each in scene.target.unhealthy():
        holds = scene.target.key(each.key).explain(each.operation)
        assert {str(hold.reason) for hold in holds} <= {"fatal"}, holds
        assert all(hold.until is None for hold in holds), "a probe is still out"
        scene.target.key(each.key).clear()
    for n in range(3):
        scene.call(key=("probe", n))
    scene.clock.advance("2h")
    assert breaker.state == "closed"
    assert scene.room() == 2, "a slot is still out"


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("first", sorted(OUTCOMES))
def test_every_pair_of_outcomes_leaves_nothing_behind(colour: str, first: str) -> None:
    for second in OUTCOMES:
        scene = everything()
        for name in (first, second):
            one(scene, colour, OUTCOMES[name](), 7, retry=2)
            scene.clock.advance("1m")
        nothing_is_left(scene)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(COLOURS),
            st.sampled_from(sorted(OUTCOMES)),
            st.integers(1, 3),
            st.integers(1, 3),
            st.sampled_from([0.0, 0.5, 11.0, 61.0, 3601.0]),
            st.sampled_from(["", "", "", "disable", "pause", "clear"]),
        ),
        max_size=25,
    )
)
def test_no_history_leaves_a_slot_a_permit_or_a_probe_behind(steps: list[Any]) -> None:
    scene = everything(rate=Rate(100, "1s", burst=100))
    for colour, name, key, retry, later, by_hand in steps:
        one(scene, colour, OUTCOMES[name](), key, retry)
        if by_hand == "disable":
            scene.target.key(key).disable("30s")
        elif by_hand == "pause":
            scene.target.pause("5s")
        elif by_hand == "clear":
            scene.target.key(key).clear()
        scene.clock.advance(later)
    scene.target.resume()
    nothing_is_left(scene)


@pytest.mark.parametrize("at", [0.0, 0.005, 0.05, 0.15, 1.0, 1.5])
@pytest.mark.parametrize("name", ["ok", "down", "403"])
def test_a_cancellation_at_any_moment_leaves_nothing_behind(at: float, name: str) -> None:
    async def probe(key: object) -> None:
        await asyncio.sleep(1)

    scene = Scene(
        breaker={"consecutive": 3, "max_requests": 2, "timeout": "10s"}, concurrency=2, rate=Rate(10, "1s"), wait="5s",
        confirm=[Confirm("forbidden", probe=probe)], deadline="1h",
    )  # fmt: skip

    @scene.target.guard(key="key", retry=4)
    async def recent(key: int) -> Any:
        await asyncio.sleep(0.01)
        outcome = OUTCOMES[name]()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def main() -> None:
        tasks = [asyncio.create_task(recent(key)) for key in range(4)]
        await asyncio.sleep(at)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    scene.clock.run(main())
    assert scene.target.breaker is not None
    scene.target.breaker.reset()
    scene.clock.advance("1h")
    assert scene.room() == 2


def test_a_held_call_gives_back_the_permit_and_the_probe_it_had_already() -> None:
    scene = Scene(
        breaker={"consecutive": 2, "max_requests": 1, "timeout": "10s"}, concurrency=1, cooldown=Cooldown.feeds()
    )
    scene.fail(Answered(410), key=7)
    scene.clock.advance("72h")

    def busy() -> None:
        assert scene.reason(key=7) == "concurrency"
        assert scene.reason(key=7) == "concurrency", "its probe was given back, or this would be cooldown"
        assert scene.target.breaker is not None
        assert scene.target.breaker.counts.requests == 1, "its permit too: this call is the only one"

    scene.target.key(8).call(busy)
    scene.fail(down(), key=1)
    scene.fail(down(), key=2)
    assert scene.reason(key=7) == "breaker"
    assert scene.reason(key=7) == "breaker"
    scene.clock.advance("10s")

    def half_open() -> None:
        assert scene.reason(key=7) == "breaker"

    scene.target.key(9).call(half_open)
    assert scene.reason(key=7) is None
