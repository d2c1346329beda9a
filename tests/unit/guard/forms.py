"""Every way to put a call behind a breaker, and time that is set by hand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tidegate import Breaker, Held

T = TypeVar("T")


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Down(Exception):
    """What the service does when it fails."""


Outcome = BaseException | None


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("it waits")


def answer(outcome: Outcome) -> str:
    if outcome is not None:
        raise outcome
    return "ok"


async def aanswer(outcome: Outcome) -> str:
    return answer(outcome)


def by_call(breaker: Breaker, outcome: Outcome) -> str:
    return breaker.call(answer, outcome)


def by_acall(breaker: Breaker, outcome: Outcome) -> str:
    return drive(breaker.acall(aanswer, outcome=outcome))


def by_decorated_def(breaker: Breaker, outcome: Outcome) -> str:
    @breaker
    def guarded(outcome: Outcome) -> str:
        return answer(outcome)

    return guarded(outcome)


def by_decorated_async_def(breaker: Breaker, outcome: Outcome) -> str:
    @breaker
    async def guarded(*, outcome: Outcome) -> str:
        return answer(outcome)

    return drive(guarded(outcome=outcome))


def by_permit(breaker: Breaker, outcome: Outcome) -> str:
    with breaker.permit():
        return answer(outcome)


def by_async_permit(breaker: Breaker, outcome: Outcome) -> str:
    async def guarded() -> str:
        async with breaker.permit():
            return answer(outcome)

    return drive(guarded())


def by_allow(breaker: Breaker, outcome: Outcome) -> str:
    permit = breaker.allow()
    if permit is None:
        breaker.permit().__enter__()  # says why, as the other forms do
        raise AssertionError("allow() said no, permit() said yes")
    try:
        result = answer(outcome)
    except Exception:
        permit.done(False)
        raise
    except BaseException:
        permit.done(None)
        raise
    permit.done(True)
    return result


Form = Callable[[Breaker, Outcome], str]

FORMS: dict[str, Form] = {
    "call": by_call,
    "acall": by_acall,
    "decorated def": by_decorated_def,
    "decorated async def": by_decorated_async_def,
    "with permit": by_permit,
    "async with permit": by_async_permit,
    "allow and done": by_allow,
}


def play(breaker: Breaker, script: str, form: Form = by_call) -> str:
    """Makes one call per letter, S(uccess) or F(ailure); answers what came back: S, F, O(pen), T(oo many)."""
    seen = []
    for letter in script:
        try:
            form(breaker, None if letter == "S" else Down())
            seen.append("S")
        except Down:
            seen.append("F")
        except Held as held:
            seen.append({"BreakerOpen": "O", "TooManyRequests": "T"}[type(held).__name__])
    return "".join(seen)


def opened(clock: Clock, **numbers: Any) -> Breaker:
    """A breaker that one failure has opened."""
    breaker = Breaker("api", consecutive=1, clock=clock, **numbers)
    assert play(breaker, "F") == "F"
    assert breaker.state == "open"
    return breaker
