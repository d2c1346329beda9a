"""Simulates an outage of your own target on a virtual clock."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tidegate.clock import VirtualClock
from tidegate.durations import Duration, seconds
from tidegate.events import Bus, Event, EventKind
from tidegate.guard.backoff import Retry
from tidegate.guard.hold import Hold
from tidegate.guard.profiles import Tuning
from tidegate.guard.target import Target
from tidegate.simulation import outage as simulation_outage
from tidegate.simulation import report
from tidegate.simulation.chart import inside
from tidegate.simulation.outage import Outage
from tidegate.simulation.play import SentNotice, SimulatedCalls, Simulation, SimulationPlan, play
from tidegate.testing.scripted import Hang, outcome_of, raise_or_return
from tidegate.validation import whole

_OPERATION = "call"


def simulate(
    make: Callable[..., Target],
    *,
    outage: Outage | str,
    every: Duration = "5m",
    lasts: Duration = "6h",
    retry: Retry | int | None = None,
    probe: bool = False,
    keys: int = 0,
    failing_keys: int | None = None,
    overlap: bool = False,
    seed: int = 0,
) -> Simulation:
    """Simulates one call per *every*, for *lasts*, while the service has this *outage*.

        from functools import partial
        result = simulate(partial(Target, "lidarr"), outage="2h down", every="1m")
        print(len(result.calls), result.held, result.recovered_after)

    *make* is called once with clock, tuning and self guard as keywords. With *probe* it also gets a health probe of the
    service. *retry* is that of the guard. With *keys* the calls rotate over that many keys, of which the first
    *failing_keys*, or all, have the outage. A hanging call delays the next ones, as in a loop. With *overlap* it does
    not, as with requests of many users. The same *seed* gives the same result.
    """
    whole(keys, field="keys", minimum=0)
    if failing_keys is not None:
        whole(failing_keys, field="failing_keys", maximum=max(keys, 1))
    plan = SimulationPlan(
        outage=Outage.parse(outage) if isinstance(outage, str) else outage,
        every=seconds(every, field="every", minimum=0.001),
        lasts=seconds(lasts, field="lasts", minimum=0.001),
        keys=keys,
        failing_keys=keys if failing_keys is None else failing_keys,
        overlap=overlap,
    )
    return play(plan, _Stage(make, plan, retry, seed, probe=probe), random.Random(seed).random)


class _Service:
    """A scripted target with a compact record: a day with one call a second has 86,400 of them."""

    def __init__(self, outage: Outage, clock: VirtualClock, seed: int) -> None:
        self.calls = SimulatedCalls()
        self._trouble = outage.trouble
        self._clock = clock
        self._roll = random.Random(seed).random

    def __call__(self, *, fails: bool = True) -> object:
        outcome = self._met(fails=fails)
        if isinstance(outcome, Hang):
            self._clock.sleep(seconds(outcome.lasts))
        return raise_or_return(outcome)

    async def acall(self, *, fails: bool = True) -> object:
        outcome = self._met(fails=fails)
        if isinstance(outcome, Hang):
            await self._clock.asleep(seconds(outcome.lasts))
        return raise_or_return(outcome)

    def _met(self, *, fails: bool) -> object:
        at = self._clock.monotonic()
        trouble = self._trouble(at, self._roll()) if fails else None
        self.calls.add(at, ok=trouble is None)
        return None if trouble is None else outcome_of(trouble)


class _Stage:
    def __init__(
        self, make: Callable[..., Target], plan: SimulationPlan, retry: Retry | int | None, seed: int, *, probe: bool
    ) -> None:
        self._clock = VirtualClock(start=0)
        self._news: list[Event] = []
        bus = Bus()
        bus.attach(self._keep)
        self._service = _Service(plan.outage, self._clock, seed)
        self._health = _Service(plan.outage, self._clock, seed + 1)
        extra = {"probe": self._health} if probe else {}
        self._target = make(
            clock=self._clock,
            tuning=Tuning(bus=bus, rng=random.Random(seed + 2).random),
            self_guard=False,  # one target alone says nothing about our network
            **extra,
        )
        self._asked = 0
        self._keys = plan.keys
        self._overlap = plan.overlap
        self._calls = [self._guarded(key, retry, fails=plan.has_outage(key)) for key in range(plan.keys)] or [
            self._guarded(None, retry)
        ]
        self.now = self._clock.monotonic
        self.wait_until = self._clock.advance_to
        self.run = self._clock.run

    def _guarded(self, key: int | None, retry: Retry | int | None, *, fails: bool = True) -> Callable[[], Any]:
        part = self._target if key is None else self._target.key(key)
        call: Callable[..., Any] = self._service.acall if self._overlap else self._service
        return part.guard(retry=retry, operation=_OPERATION)(partial(call, fails=fails))

    def ask(self) -> object:
        self._asked += 1
        return self._calls[(self._asked - 1) % len(self._calls)]()

    async def aask(self) -> object:
        return await cast("Awaitable[object]", self.ask())

    async def asleep_until(self, at: float) -> None:
        await self._clock.asleep(at - self._clock.monotonic())

    def holds(self) -> Sequence[Hold]:
        """Returns the holds of the target, or of the first key, which has the outage."""
        return (self._target if not self._keys else self._target.key(0)).explain(_OPERATION)

    def half_open(self) -> bool:
        breaker = (self._target if not self._keys else self._target.key(0)).breaker
        return breaker is not None and breaker.state == "half-open"

    def calls(self) -> SimulatedCalls:
        return self._service.calls

    def probes(self) -> int:
        return len(self._health.calls)

    def told(self) -> Sequence[SentNotice]:
        return [
            SentNotice(event.at, notice.title, notice.message)
            for event in self._news
            if (notice := event.notice) is not None
        ]

    def noticed(self) -> Sequence[float]:
        return [notice.at for notice in self._news]

    def _keep(self, event: Event) -> None:
        opened = event.kind is EventKind.BREAKER_STATE_CHANGED and event.fields.get("to") == "open"
        if opened or event.kind in (EventKind.NOTICE, EventKind.TARGET_DISABLED):
            self._news.append(event)


# -- replay ------------------------------------------------------------------------------------------------------------
# Simulates an outage with the parameters of a target, for its page. Runs in a child process, so that the simulated
# breaker does not count in the server's metrics and does not write to its log.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """The stored parameters, one of `outage.LENGTHS`, and the seconds between two calls."""

    rules: dict[str, Any]
    length: str
    every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayChart:
    """The chart, its description, and the table: name, Tidegate, a plain loop, a loop with 3 attempts."""

    svg: str
    summary: str
    held: int  # calls that the gates did not let through
    rows: list[list[str]]


def draw(request: ReplayRequest) -> ReplayChart:
    """Draws the chart. Raises ValueError if the parameters make no gate."""
    gates, length = simulation_outage.gates(request.rules), simulation_outage.LENGTHS[request.length]
    if gates is None:
        raise ValueError("rules: no gate would close in an outage; add a breaker, a backoff or a cooldown")
    breaker: Any = gates.breaker or False
    make = partial(Target, "target", "jobs", backoff=gates.backoff, cooldown=gates.cooldown, breaker=breaker)
    result = simulate(make, outage=length.outage, every=request.every, lasts=length.lasts, probe=gates.probe)
    return ReplayChart(svg=inside(result), summary=report.summary(result), held=result.held, rows=report.rows(result))
