"""A rejection by the short way and by the long one, in the same history twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.face.scene import Answered, Scene, down
from tidegate import Cooldown, Held

STEPS = st.lists(
    st.sampled_from(["ok", "down", "401", "404", "429", "wait 1", "wait 40", "wait 130", "pause", "resume", "disable",
                     "enable", "clear", "hurry", "open", "reset"]),
    max_size=40,
)  # fmt: skip


def done(scene: Scene, call: Callable[[Any], Any], step: str) -> object:
    """One step, and what a caller sees of it."""
    part, breaker = scene.target.key(7), scene.target.breaker
    assert breaker is not None
    word, _, number = step.partition(" ")
    acts: dict[str, Callable[[], object]] = {
        "wait": lambda: scene.clock.advance(int(number)), "pause": lambda: scene.target.pause("30s"),
        "resume": scene.target.resume, "disable": lambda: part.disable("35s"), "enable": part.enable,
        "clear": part.clear, "hurry": part.hurry, "open": lambda: breaker.force("open", "1m"), "reset": breaker.reset,
    }  # fmt: skip
    if word in acts:
        acts[word]()
        return None
    outcome = {"ok": "ok", "down": down()}.get(word) or Answered(int(word), {"Retry-After": "20"})
    try:
        return call(outcome)
    except Held as error:
        return type(error), error.args[:3], *(round(each, 6) for each in error.args[3:] if each is not None)
    except Exception as error:
        return type(error)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, ladder=st.booleans())
def test_the_short_way_and_the_long_way_say_the_same_in_any_history(steps: list[str], ladder: bool) -> None:
    """The same history twice; with the default ladder of waits, or without."""
    numbers: dict[str, Any] = {"breaker": {"consecutive": 3}, "cooldown": Cooldown({"not_found": (2, "50s")})}
    numbers |= {} if ladder else {"backoff": None}
    long, short = Scene(**numbers), Scene(**numbers)

    def outcome_of(outcome: object) -> object:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    guarded = short.target.key(7).guard(operation="recent")(outcome_of)
    for step in steps:
        assert done(long, long.call, step) == done(short, guarded, step)
        assert long.target.breaker is not None
        assert short.target.breaker is not None
        assert long.target.breaker.totals == short.target.breaker.totals
