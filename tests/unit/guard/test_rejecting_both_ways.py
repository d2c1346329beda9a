"""Calls behind a breaker by the short ways and by the long one, in the same history twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.guard.scene import Answered, Scene, Stopped, down
from tidegate import Breaker, Cooldown, Held
from tidegate.faults import Confirm
from tidegate.testing import VirtualClock

STEPS = st.lists(
    st.sampled_from(["ok", "ok", "down", "down", "stopped", "401", "404", "429", "503", "wait 1", "wait 40", "wait 130",
                     "pause", "resume", "disable", "enable", "clear", "hurry", "open", "reset"]),
    max_size=40,
)  # fmt: skip


class Story:
    """One target and the guarded function of one colour; what is seen of each step."""

    def __init__(self, colour: str, retry: int, *, short: bool, **numbers: Any) -> None:
        clock = VirtualClock()
        # A breaker with a clock of its own has no short way.
        breaker = {"consecutive": 3} if short else Breaker("spotify", consecutive=3, clock=partial(clock.monotonic))
        self.scene = Scene(clock=clock, breaker=breaker, **numbers)
        guard = self.scene.target.key(7).guard(operation="recent", retry=retry)
        self._outcomes: list[object] = []
        guarded, aguarded = guard(self._answer), guard(self._aanswer)
        self.call = guarded if colour == "def" else lambda: clock.run(aguarded())

    def _answer(self) -> object:
        outcome = self._outcomes.pop(0) if self._outcomes else "ok"
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _aanswer(self) -> object:
        return self._answer()

    def step(self, step: str) -> object:
        """Does it, and says what a caller saw."""
        scene, word, number = self.scene, step.partition(" ")[0], step.partition(" ")[2]
        part, breaker = scene.target.key(7), self.breaker
        acts: dict[str, Callable[[], object]] = {
            "wait": lambda: scene.clock.advance(int(number)), "pause": lambda: scene.target.pause("30s"),
            "resume": scene.target.resume, "disable": lambda: part.disable("35s"), "enable": part.enable,
            "clear": part.clear, "hurry": part.retry_now, "open": lambda: breaker.force("open", "1m"),
            "reset": breaker.reset,
        }  # fmt: skip
        if word in acts:
            acts[word]()
            return None
        raised = {"ok": "ok", "down": down(), "stopped": Stopped()}.get(word)
        self._outcomes[:] = [raised or Answered(int(word), {"Retry-After": "20"} if word == "429" else {})]
        try:
            return self.call()
        except Held as error:
            times = (error.since, error.until, error.args[5])
            return type(error), error.args[:3], *(round(each, 6) for each in times if each is not None)
        except (Exception, Stopped) as error:
            return type(error)

    @property
    def breaker(self) -> Breaker:
        assert self.scene.target.breaker is not None
        return self.scene.target.breaker

    def left(self) -> object:
        """What is known after it."""
        breaker, health = self.breaker, self.scene.target.unhealthy()
        events = [(event.kind, event.key, event.operation) for event in self.scene.events]
        return (
            breaker.totals, breaker.counts, breaker.state, breaker.run,
            [(each.key, each.operation, each.failures, each.disabled_by) for each in health],
            [event for event in events if event[0] != "breaker_state_changed"],  # told by the target's own alone
        )  # fmt: skip


@pytest.mark.req("BRK-02", "BRK-05")
@pytest.mark.parametrize("colour", ["def", "async def"])
@settings(max_examples=120, deadline=None)
@given(steps=STEPS, ladder=st.booleans(), retry=st.sampled_from([1, 3]), doubts=st.booleans())
def test_a_call_ends_the_same_in_any_history(
    colour: str, steps: list[str], ladder: bool, retry: int, doubts: bool
) -> None:
    numbers: dict[str, Any] = {"cooldown": Cooldown({"not_found": (2, "50s")})} | ({} if ladder else {"backoff": None})
    if doubts:
        doubted = Confirm("overloaded", times=2, apart="5s", good=True, until_then="overloaded", only_worked=True)
        numbers["confirm"] = (doubted,)
    long, short = (Story(colour, retry, short=short, **numbers) for short in (False, True))
    for step in steps:
        assert long.step(step) == short.step(step), step
        assert long.left() == short.left(), step
