"""What counts as a failure, as a success and as neither; and how functions of either colour are guarded."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.unit.guard.forms import FORMS, Clock, Down, Form, aanswer, answer, drive, opened, play
from tidegate import Breaker


class Refused(Exception):
    """A 4xx: the caller's own mistake."""


JUDGED = {name: form for name, form in FORMS.items() if name != "allow and done"}


@pytest.mark.req("BRK-07")
@pytest.mark.parametrize("form", JUDGED.values(), ids=JUDGED)
@pytest.mark.parametrize(
    ("verdict", "counts"),
    [
        (True, (1, 0, 1, 0, 1)),
        (False, (1, 1, 0, 1, 0)),
        (None, (0, 0, 0, 0, 0)),
        ("yes", (1, 0, 1, 0, 1)),
        (0, (1, 1, 0, 1, 0)),
    ],
)
def test_what_counts_as_a_failure_can_be_chosen(form: Form, verdict: bool | None, counts: tuple[int, ...]) -> None:
    asked: list[BaseException] = []

    def counts_as_failure(error: BaseException) -> bool | None:
        asked.append(error)
        return verdict

    breaker = Breaker("api", counts_as_failure=counts_as_failure, clock=Clock())
    error = Refused()
    with pytest.raises(Refused) as raised:
        form(breaker, error)
    assert raised.value is error
    assert asked == [error]
    assert breaker.counts == counts


@pytest.mark.req("BRK-07")
def test_a_callers_own_mistakes_do_not_open_it_and_end_a_run() -> None:
    def counts_as_failure(error: BaseException) -> bool:
        return not isinstance(error, Refused)

    breaker = Breaker("api", consecutive=3, counts_as_failure=counts_as_failure, clock=Clock())
    play(breaker, "FF")
    for _ in range(20):
        with pytest.raises(Refused):
            breaker.call(answer, Refused())
    play(breaker, "FF")
    assert breaker.state == "closed"
    play(breaker, "F")
    assert breaker.state == "open"


@pytest.mark.req("BRK-07")
def test_an_excluded_call_neither_ends_a_run_nor_adds_to_it() -> None:
    breaker = Breaker("api", consecutive=3, clock=Clock())
    play(breaker, "FF")
    with pytest.raises(asyncio.CancelledError):
        breaker.call(answer, asyncio.CancelledError())
    assert breaker.run == 2
    play(breaker, "F")
    assert breaker.state == "open"


@pytest.mark.req("BRK-07")
def test_a_rule_that_raises_counts_a_failure_and_the_callers_own_error_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    breaker = Breaker("api", counts_as_failure=lambda error: bool(1 // 0), clock=Clock())
    assert play(breaker, "F") == "F"
    assert breaker.counts.failures == 1
    assert "breaker_rule_raised name=api rule=counts_as_failure" in caplog.messages


@pytest.mark.req("BRK-05", "BRK-07")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("chosen", [False, True], ids=["by default", "with a rule"])
def test_a_call_that_was_broken_off_is_neither(form: Form, error: type[BaseException], chosen: bool) -> None:
    clock = Clock()
    rule = (lambda error: True) if chosen else None
    breaker = Breaker("api", counts_as_failure=rule, clock=clock)
    with pytest.raises(error):
        form(breaker, error())
    assert breaker.counts == (0, 0, 0, 0, 0)
    assert breaker.totals == {"success": 0, "failure": 0, "rejected": 0}

    breaker = opened(clock, max_requests=1, counts_as_failure=rule)
    clock.now = 120.0
    for _ in range(5):
        with pytest.raises(error):
            form(breaker, error())
    assert breaker.state == "half-open"
    assert play(breaker, "S", form) == "S"
    assert breaker.state == "closed"


@pytest.mark.req("BRK-05")
def test_a_permit_is_settled_once() -> None:
    breaker = Breaker("api", clock=Clock())
    permit = breaker.allow()
    assert permit is not None
    permit.done(True)
    permit.done(False)
    permit.done(None)
    assert breaker.counts == (1, 1, 0, 1, 0)
    with breaker.permit() as inside:
        inside.done(False)
    assert breaker.counts == (2, 1, 1, 0, 1)

    def settles_and_raises() -> None:
        with breaker.permit() as inside:
            inside.done(True)
            raise Down

    with pytest.raises(Down):
        settles_and_raises()
    assert breaker.counts == (3, 2, 1, 1, 0)


def test_a_permit_from_allow_can_be_held_by_a_with_block_and_a_permit_can_be_used_again() -> None:
    breaker = Breaker("api", clock=Clock())
    permit = breaker.allow()
    assert permit is not None
    with permit:
        assert breaker.counts.requests == 1
    with permit:
        assert breaker.counts.requests == 2
    assert breaker.counts == (2, 2, 0, 2, 0)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_answer_comes_through(form: Form) -> None:
    assert form(Breaker("api", clock=Clock()), None) == "ok"


def test_a_decorated_function_keeps_its_name_signature_and_colour() -> None:
    breaker = Breaker("api", clock=Clock())

    @breaker
    def sync(a: int, *, b: str = "x") -> str:
        """Says a and b."""
        return f"{a}{b}"

    @breaker
    async def coroutine(a: int) -> int:
        return a

    assert sync(1, b="y") == "1y"
    assert (sync.__name__, sync.__doc__) == ("sync", "Says a and b.")
    assert str(inspect.signature(sync)) == "(a: 'int', *, b: 'str' = 'x') -> 'str'"
    assert inspect.iscoroutinefunction(coroutine)
    assert not inspect.iscoroutinefunction(sync)


def test_methods_partials_and_callable_objects_are_guarded_in_their_colour() -> None:
    breaker = Breaker("api", clock=Clock())

    class Client:
        def __init__(self) -> None:
            self.name = "client"

        @breaker
        def ask(self) -> str:
            return self.name

        async def __call__(self) -> str:
            raise Down

    assert Client().ask() == "client"
    with pytest.raises(Down):
        drive(breaker(Client())())
    assert drive(breaker(functools.partial(aanswer, None))()) == "ok"
    assert breaker.counts == (3, 2, 1, 1, 0)


def test_call_refuses_a_coroutine_function_and_counts_nothing() -> None:
    breaker = Breaker("api", clock=Clock())
    with pytest.raises(TypeError, match=r"use `await breaker\.acall"):
        drive(breaker.call(aanswer, None))
    assert breaker.counts.requests == 0


def test_a_function_that_yields_is_refused_when_it_is_decorated() -> None:
    breaker = Breaker("api", clock=Clock())

    def pages() -> Iterator[int]:
        yield 1

    async def apages() -> AsyncIterator[int]:
        yield 1

    for fn in (pages, apages):
        with pytest.raises(TypeError, match=r"pages .*breaker\.permit\("):
            breaker(fn)
