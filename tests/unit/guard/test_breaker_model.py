"""The breaker against an obvious and slow model, over random histories; and proof that the comparison can fail.

Calls overlap, are cancelled, come back late or never; time steps forward and back; people force and reset.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.unit.guard.breaker_model import CLOSED, HALF_OPEN, OPEN, Call, Model, Numbers
from tests.unit.guard.forms import Clock, Down, answer
from tidegate import Breaker, BreakerOpen, Held, TooManyRequests
from tidegate.guard import Permit
from tidegate.guard.breaker_counts import CountWindow
from tidegate.guard.breaker_state import AdmitToken, BreakerMachine, HalfOpenPermit

# Halves are exact in binary, so that edges are met and not missed by rounding.
STEPS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 5.0, 6.5, 7.0, 10.0, 12.5, 40.0])
NUMBERS = st.builds(
    Numbers,
    max_requests=st.integers(1, 3),
    interval=st.sampled_from([10.0, 10.0, 0.0]),
    timeout=st.just(7.0),
    min_requests=st.integers(1, 4),
    failure_ratio=st.sampled_from([0.5, 0.6, 1.0]),
    consecutive=st.sampled_from([None, 1, 2, 3, 4]),
    permit_timeout=st.just(5.0),
)


class Waiting:
    """A call that waits for the test to tell it how it ends."""

    def __await__(self) -> Generator[None, str, str]:
        return (yield)


async def waits() -> str:
    return await Waiting()


class ByPermit:
    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    def end(self, result: bool | None) -> None:
        self._permit.done(result)


class ByCoroutine:
    def __init__(self, coroutine: Coroutine[Any, Any, str]) -> None:
        self._coroutine = coroutine
        coroutine.send(None)

    def end(self, result: bool | None) -> None:
        errors: dict[bool | None, BaseException] = {False: Down(), None: asyncio.CancelledError()}
        if result is True:
            with pytest.raises(StopIteration):
                self._coroutine.send("ok")
        else:
            with pytest.raises(type(errors[result])):
                self._coroutine.throw(errors[result])


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.flying: list[tuple[Call, ByPermit | ByCoroutine]] = []
        self.lost: list[ByPermit | ByCoroutine] = []
        self.told: list[tuple[str, str]] = []

    @initialize(numbers=NUMBERS)
    def build(self, numbers: Numbers) -> None:
        self.model = Model(numbers)
        self.breaker = Breaker(
            "model", **vars(numbers), clock=self.clock, on_state_change=lambda name, old, new: self.note(old, new)
        )
        self.guarded = self.breaker(waits)

    def note(self, old: str, new: str) -> None:
        self.told.append((old, new))
        assert self.breaker.totals["rejected"] >= 0  # would hang if a lock were held
        if len(self.told) % 2:
            raise ZeroDivisionError  # must not be noticed by any call

    # -- time ----------------------------------------------------------------------------------------------------

    @rule(step=STEPS)
    def wait(self, step: float) -> None:
        self.clock.now += step

    @rule(step=STEPS)
    def step_back(self, step: float) -> None:
        self.clock.now -= step / 4

    # -- calls ---------------------------------------------------------------------------------------------------

    @rule(how=st.sampled_from(["permit", "acall", "decorated"]))
    def start(self, how: str) -> None:
        expected = self.model.admit(self.clock.now)
        begun: ByPermit | ByCoroutine | None = None
        if how == "permit":
            permit = self.breaker.allow()
            begun = None if permit is None else ByPermit(permit)
        else:
            try:
                begun = ByCoroutine(self.breaker.acall(waits) if how == "acall" else self.guarded())
            except Held as held:
                self.check_refusal(held)
        assert (begun is None) == (expected is None), f"{begun} where the model says {expected}"
        if begun is not None and expected is not None:
            self.flying.append((expected, begun))

    @rule(result=st.sampled_from([True, False, False, None]), which=st.integers(0, 50))
    @precondition(lambda self: self.flying)
    def finish(self, result: bool | None, which: int) -> None:
        call, real = self.flying.pop(which % len(self.flying))
        self.model.settle(call, result, self.clock.now)
        real.end(result)

    @rule(result=st.sampled_from([True, False, False, None]))
    def call_at_once(self, result: bool | None) -> None:
        outcome = {True: None, False: Down(), None: KeyboardInterrupt()}[result]
        expected = self.model.admit(self.clock.now)
        if expected is not None:
            self.model.settle(expected, result, self.clock.now)
        try:
            self.breaker.call(answer, outcome)
            seen: str | None = "ok"
        except Held as held:
            self.check_refusal(held)
            seen = None
        except (Down, KeyboardInterrupt) as error:
            seen = type(error).__name__
        wanted = {True: "ok", False: "Down", None: "KeyboardInterrupt"}[result] if expected is not None else None
        assert seen == wanted

    @rule(step=STEPS, result=st.sampled_from([True, False, None]))
    def call_that_takes_its_time(self, step: float, result: bool | None) -> None:
        before = len(self.flying)
        self.start("decorated")
        self.clock.now += step
        if len(self.flying) > before:
            self.finish(result, before)

    @rule(which=st.integers(0, 50))
    @precondition(lambda self: self.flying)
    def abandon(self, which: int) -> None:
        _, real = self.flying.pop(which % len(self.flying))
        self.lost.append(real)  # never settled, and never collected either

    def check_refusal(self, held: Held) -> None:
        model, now = self.model, self.clock.now
        assert type(held) is (BreakerOpen if model.state == OPEN else TooManyRequests)
        assert held.since == model.since
        if model.state == OPEN:
            assert (held.until, held.retry_after) == (model.until, model.until - now)

    # -- by hand -------------------------------------------------------------------------------------------------

    @rule(state=st.sampled_from([OPEN, CLOSED]), step=STEPS.filter(bool))
    def force(self, state: str, step: float) -> None:
        until = self.clock.now + step
        self.model.force(state, self.clock.now, until)
        self.breaker.force(state, until)

    @rule()
    def reset(self) -> None:
        self.model.reset(self.clock.now)
        self.breaker.reset()

    @rule()
    def health_probe_succeeds(self) -> None:
        assert self.breaker.half_open() == self.model.half_open(self.clock.now)

    # -- what can be read ----------------------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        """As a rule, not as an invariant: much goes wrong only while nobody looks."""
        model, breaker = self.model, self.breaker
        model.tick(self.clock.now)
        assert breaker.state == model.state
        assert breaker.counts == model.counts()
        assert breaker.run == model.run()
        assert breaker.since == model.since
        assert breaker.generation == model.generation
        assert breaker.totals == {key: model.totals[key] for key in ("success", "failure", "rejected")}
        assert breaker.transitions == dict(model.transitions)
        assert len(self.told) == model.transitions.total()

    @rule()
    def an_idle_breaker_past_its_time_admits_a_probe(self) -> None:
        """Whatever happened before: with nothing in flight and the time past, it lets a call through."""
        self.clock.now += 1000.0
        assert self.breaker.state != OPEN or self.model.until > self.clock.now
        self.start("permit")
        assert self.flying
        assert self.flying[-1][0].period == self.model.period

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.look()


@pytest.fixture(autouse=True)
def quiet_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("tidegate.breaker"), "disabled", True)


FAST = settings(
    max_examples=300, stateful_step_count=50, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@pytest.mark.req("BRK-01", "BRK-02", "BRK-03", "BRK-04", "BRK-05", "BRK-07")
def test_it_does_what_the_model_does_in_300_histories() -> None:
    run_state_machine_as_test(Machine, settings=FAST)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.req("BRK-01", "BRK-02", "BRK-03", "BRK-04", "BRK-05", "BRK-07")
def test_it_does_what_the_model_does_in_10_000_histories() -> None:
    long = settings(FAST, max_examples=10_000, stateful_step_count=60, derandomize=False, print_blob=True)
    run_state_machine_as_test(Machine, settings=long)


# -- the comparison can fail: each of these is a breaker with one bug --------------------------------------------------


class NoGenerationOfProbes(BreakerMachine):
    def _take_back(self, probe: HalfOpenPermit, now: float) -> bool:
        super()._take_back(probe, now)
        return self.state == HALF_OPEN


class NoGenerationOfIntervals(BreakerMachine):
    def fail(self, window: CountWindow) -> None:
        super().fail(self.window if self.state == CLOSED else window)


class CancelLeaksPermit(BreakerMachine):
    def probe_excluded(self, probe: HalfOpenPermit, now: float) -> None:
        """Gives nothing back."""


class OneTooMany(BreakerMachine):
    def admit(self, now: float, succeeded: Callable[[HalfOpenPermit], None]) -> AdmitToken | None:
        self.advance(now)
        if self.state == HALF_OPEN and self._half.requests == self.policy.max_requests:
            next(self._half.admitted)
            self._probes.append(probe := HalfOpenPermit(now, now + 5.0, succeeded))
            return probe
        return super().admit(now, succeeded)


class NothingExpires(BreakerMachine):
    @property
    def first_deadline(self) -> float:
        return float("inf")


class ExpiryUncounted(BreakerMachine):
    def advance(self, now: float) -> None:
        before, state = self.totals.failures, self.state
        super().advance(now)
        if state == HALF_OPEN:
            self.totals.failures = before


class LateProbeForgiven(BreakerMachine):
    """What time decided is not carried out before the probe's own word."""

    def probe_ok(self, probe: HalfOpenPermit, now: float) -> None:
        super().probe_ok(probe, min(now, probe.deadline - 0.5))


class ForcedClosedTrips(BreakerMachine):
    def check_trip(self, window: CountWindow, now: float) -> Any:
        self.forced = False
        return super().check_trip(window, now)


class RunForgetsSlowCalls(BreakerMachine):
    def fail(self, window: CountWindow) -> None:
        self._draining.clear()
        super().fail(window)


class ReopensInTheFuture(BreakerMachine):
    def half_open(self, now: float) -> None:
        super().half_open(now + 0.5)


BROKEN = [
    NoGenerationOfProbes, NoGenerationOfIntervals, CancelLeaksPermit, OneTooMany, NothingExpires, ExpiryUncounted,
    LateProbeForgiven, ForcedClosedTrips, RunForgetsSlowCalls, ReopensInTheFuture,
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_the_comparison_finds_a_planted_bug(broken: type[BreakerMachine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.guard.breaker.BreakerMachine", broken)
    first_only = settings(FAST, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=first_only)
