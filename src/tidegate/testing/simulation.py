"""An outage played on the virtual clock against your own target."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tidegate.core.duration import Duration, seconds
from tidegate.core.events import Event, EventKind
from tidegate.face.target import Target
from tidegate.machine.gate import Hold
from tidegate.ops.calls import Calls
from tidegate.ops.outage import Outage
from tidegate.ops.simulate import Plan, Simulation, Told, play
from tidegate.runtime.bus import Bus
from tidegate.runtime.clock import VirtualClock
from tidegate.testing.scripted import Hang, ended, outcome_of

_OPERATION = "call"


def simulate(
    make: Callable[..., Target],
    *,
    outage: Outage | str,
    every: Duration = "5m",
    lasts: Duration = "6h",
    retry: int = 0,
    probe: bool = False,
    seed: int = 0,
) -> Simulation:
    """What would happen: one call *every* so often, for *lasts*, while the service has this *outage*.

        from functools import partial
        result = simulate(partial(Target, "lidarr", breaker=True), outage="2h down", every="1m")
        print(len(result.calls), result.held, result.recovered_after)

    *make* is called once, with clock, bus, dice and self guard as keywords; with *probe* also with the service's
    health probe. *retry* is the guard's. The same *seed* gives the same result.
    """
    plan = Plan(
        outage=Outage.parse(outage) if isinstance(outage, str) else outage,
        every=seconds(every, field="every", least=0.001),
        lasts=seconds(lasts, field="lasts", least=0.001),
    )
    return play(plan, _Stage(make, plan, retry, seed, probe=probe), random.Random(seed).random)


class _Service:
    """A scripted target with a lighter record: a day of calls at one a second is 86,400 of them."""

    def __init__(self, outage: Outage, clock: VirtualClock, seed: int) -> None:
        self.calls = Calls()
        self._trouble = outage.trouble
        self._clock = clock
        self._roll = random.Random(seed).random

    def __call__(self) -> object:
        at = self._clock.monotonic()
        trouble = self._trouble(at, self._roll())
        self.calls.add(at, ok=trouble is None)
        if trouble is None:
            return None
        outcome = outcome_of(trouble)
        if isinstance(outcome, Hang):
            self._clock.sleep(seconds(outcome.lasts))
        return ended(outcome)


class _Stage:
    def __init__(self, make: Callable[..., Target], plan: Plan, retry: int, seed: int, *, probe: bool) -> None:
        self._clock = VirtualClock(start=0)
        self._news: list[Event] = []
        bus = Bus()
        bus.attach(self._keep)
        self._service = _Service(plan.outage, self._clock, seed)
        self._health = _Service(plan.outage, self._clock, seed + 1)
        extra = {"probe": self._health} if probe else {}
        self._target = make(
            clock=self._clock,
            bus=bus,
            dice=random.Random(seed + 2).random,
            self_guard=False,  # one target alone says nothing about our own link
            **extra,
        )
        self.ask: Callable[[], object] = self._target.guard(retry=retry, operation=_OPERATION)(self._service)
        self.now = self._clock.monotonic
        self.wait_until = self._clock.advance_to

    def holds(self) -> Sequence[Hold]:
        return self._target.explain(_OPERATION)

    def half_open(self) -> bool:
        return any(each.state == "half-open" for each in self._target.breakers.values())

    def calls(self) -> Calls:
        return self._service.calls

    def probes(self) -> int:
        return len(self._health.calls)

    def told(self) -> Sequence[Told]:
        return [
            Told(event.at, notice.title, notice.message) for event in self._news if (notice := event.notice) is not None
        ]

    def noticed(self) -> Sequence[float]:
        return [each.at for each in self._news]

    def _keep(self, event: Event) -> None:
        opened = event.kind is EventKind.BREAKER_STATE_CHANGED and event.fields.get("to") == "open"
        if opened or event.kind in (EventKind.NOTICE, EventKind.TARGET_DISABLED):
            self._news.append(event)
