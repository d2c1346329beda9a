"""Plays calls against a failing service on a virtual clock, and says what the gates made of it.

The clock, the target and the service are handed in: what is played is the real target, never a model of it.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from tidegate.errors import Held
from tidegate.guard.hold import EndedBy, Hold, HoldReason
from tidegate.simulation.outage import FailureMode, Outage

# The calls that reached a service: when, and whether they went well.


class SimulatedCall(NamedTuple):
    at: float  # seconds since the start
    ok: bool


class SimulatedCalls:
    """Calls in the order in which they were made. Kept in two flat arrays: a day of them is nothing."""

    __slots__ = ("_ok", "_times", "failures")

    def __init__(self) -> None:
        self._times = array("d")
        self._ok = bytearray()
        self.failures = 0

    def add(self, at: float, *, ok: bool) -> None:
        self._times.append(at)
        self._ok.append(ok)
        self.failures += not ok

    def first_failure(self) -> float | None:
        """When the first call failed."""
        at = self._ok.find(0)
        return None if at < 0 else self._times[at]

    def first_success(self, since: float) -> float | None:
        """When the first call from *since* on went well."""
        at = self._ok.find(1, bisect_left(self._times, since))
        return None if at < 0 else self._times[at]

    def runs(self) -> list[tuple[float, float, int, bool]]:
        """Calls in a row with the same outcome, as (first, last, how many, ok)."""
        found: list[tuple[float, float, int, bool]] = []
        start, size = 0, len(self._ok)
        while start < size:
            ok = self._ok[start]
            end = self._ok.find(1 - ok, start)
            end = size if end < 0 else end
            found.append((self._times[start], self._times[end - 1], end - start, bool(ok)))
            start = end
        return found

    def __len__(self) -> int:
        return len(self._ok)

    def __iter__(self) -> Iterator[SimulatedCall]:
        return (SimulatedCall(at, bool(ok)) for at, ok in zip(self._times, self._ok, strict=True))


# When a gate was shut and why, put together from what it says of itself after each call.


class HoldKind(StrEnum):
    """Why calls were held, or, half-open, let through one by one."""

    BACKOFF = "backoff"
    RETRY_AFTER = "retry-after"
    OPEN = "breaker open"
    HALF_OPEN = "half-open"
    COOLDOWN = "cooldown"
    FATAL = "fatal"
    OTHER = "held"


_OF_REASON = {
    HoldReason.BACKOFF: HoldKind.BACKOFF,
    HoldReason.RETRY_AFTER: HoldKind.RETRY_AFTER,
    HoldReason.BREAKER: HoldKind.OPEN,
    HoldReason.COOLDOWN: HoldKind.COOLDOWN,
    HoldReason.FATAL: HoldKind.FATAL,
}


@dataclass(frozen=True, slots=True)
class HoldSpan:
    """Seconds since the start; *end* is outside."""

    start: float
    end: float
    why: HoldKind


class HoldSpans:
    """The spans so far. What a gate says holds until it says something else; only time passes in between."""

    def __init__(self) -> None:
        self._past: list[HoldSpan] = []
        self._ahead: tuple[HoldSpan, ...] = ()

    @property
    def clear(self) -> bool:
        return not self._ahead

    def seen(self, now: float, holds: Iterable[Hold], *, half_open: bool) -> None:
        """What the gate says at *now*; a breaker that is half-open holds nothing while it has calls to give."""
        self._end(now)
        trying = (HoldSpan(now, math.inf, HoldKind.HALF_OPEN),) if half_open else ()
        self._ahead = (*trying, *(span for hold in holds for span in _spans(hold, now)))

    def closed(self, end: float) -> Sequence[HoldSpan]:
        """Every span, none of them beyond *end*; those that touch and say the same are one."""
        self._end(end)
        self._ahead = ()
        joined: list[HoldSpan] = []
        last: dict[HoldKind, int] = {}
        for span in sorted(self._past, key=lambda each: each.start):
            at = last.get(span.why)
            if at is not None and span.start <= joined[at].end:
                joined[at] = HoldSpan(joined[at].start, max(joined[at].end, span.end), span.why)
            else:
                last[span.why] = len(joined)
                joined.append(span)
        return tuple(joined)

    def _end(self, now: float) -> None:
        self._past += [HoldSpan(each.start, min(each.end, now), each.why) for each in self._ahead if each.start < now]


def _spans(hold: Hold, now: float) -> Iterable[HoldSpan]:
    why = _OF_REASON.get(hold.reason, HoldKind.OTHER)
    end = math.inf if hold.until is None else hold.until
    if why is not HoldKind.OPEN:
        yield HoldSpan(now, end, why)
    elif hold.ended_by is not EndedBy.CALL:
        yield HoldSpan(now, end, HoldKind.OPEN)
        yield HoldSpan(end, math.inf, HoldKind.HALF_OPEN)  # as soon as its time is over, it lets a few calls try


class SentNotice(NamedTuple):
    """One thing that a person was told."""

    at: float
    title: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """What is played: one call *every* so many seconds, for *lasts* seconds, against a service with this *outage*.

    With *keys* the calls belong to that many keys in turn, of which the first *failing_keys* have the outage. With
    *overlap* a call does not wait until the one before it has returned.
    """

    outage: Outage
    every: float
    lasts: float
    keys: int = 0
    failing_keys: int = 0
    overlap: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.every <= self.lasts:
            raise ValueError(f"every: {self.every:g} s is not allowed; give more than 0, and no more than is played")
        if (ticks := self.lasts / self.every) > MAX_TICKS:
            raise ValueError(
                f"every: {ticks:,.0f} calls are too many; a longer pause must make it {MAX_TICKS:,} or fewer"
            )

    def has_outage(self, call: int) -> bool:
        """Whether the call with this number belongs to a key that has the outage."""
        return not self.keys or call % self.keys < self.failing_keys


MAX_TICKS = 1_000_000


class SimulationSetup(Protocol):
    """The target, its fake service and their clock."""

    def now(self) -> float:
        """Seconds since the start."""

    def wait_until(self, at: float) -> None: ...

    def ask(self) -> object:
        """One call through the gates; raises Held, or what the service raised."""

    async def aask(self) -> object:
        """As `ask`, awaited."""

    async def asleep_until(self, at: float) -> None: ...

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Runs *main* on an event loop whose time is that of the stage."""

    def holds(self) -> Sequence[Hold]:
        """Why a call would not go now, in seconds since the start."""

    def half_open(self) -> bool:
        """Whether a breaker lets calls try."""

    def calls(self) -> SimulatedCalls: ...

    def probes(self) -> int:
        """How often the health probe was asked."""

    def told(self) -> Sequence[SentNotice]:
        """The notices so far."""

    def noticed(self) -> Sequence[float]:
        """When a notice went out, a breaker opened or a key was disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NaiveLoop:
    """What a loop without a gate does, with so many *tries* at each tick."""

    tries: int
    calls: SimulatedCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What happened. All times are seconds; None where it did not happen within the time that was played."""

    plan: SimulationPlan
    calls: SimulatedCalls
    held: int  # calls that the gates did not let through
    probes: int  # asked of the health probe, beside the calls
    noticed_after: float | None  # from the first failure to the first notice, open breaker or disabled key
    recovered_after: float | None  # from the end of the outage to the first good call
    spans: Sequence[HoldSpan]  # when calls were held, and why
    told: Sequence[SentNotice]
    plain: NaiveLoop  # the same outage with no gate
    stubborn: NaiveLoop  # and with three tries each time

    def recovery_of(self, loop: NaiveLoop) -> float | None:
        return recovery(self.plan, loop.calls)


def play(plan: SimulationPlan, stage: SimulationSetup, roll: Callable[[], float]) -> Simulation:
    """Plays the plan on *stage*; *roll* is the chance of the two loops that it is compared with."""
    watched = _Watched(stage)
    if plan.overlap:
        stage.run(_overlapping(plan, stage, watched))
    else:
        _one_by_one(plan, stage, watched)
    calls = stage.calls()
    return Simulation(
        plan=plan,
        calls=calls,
        held=watched.held,
        probes=stage.probes(),
        noticed_after=_noticed(calls, stage.noticed()),
        recovered_after=recovery(plan, calls),
        spans=watched.spans.closed(plan.lasts),
        told=tuple(stage.told()),
        plain=loop(plan, 1, roll),
        stubborn=loop(plan, 3, roll),
    )


class _Watched:
    """What the gates say after each call."""

    def __init__(self, stage: SimulationSetup) -> None:
        self.spans = HoldSpans()
        self.held = 0  # nothing was called, so nothing but time can change what the gate says
        self._stage = stage

    def look(self) -> None:
        self.spans.seen(self._stage.now(), self._stage.holds(), half_open=self._stage.half_open())

    def look_if_held(self) -> None:
        """After a success, which changes nothing where nothing was held."""
        if not self.spans.clear:
            self.look()


def _one_by_one(plan: SimulationPlan, stage: SimulationSetup, watched: _Watched) -> None:
    tick = 0
    while tick * plan.every < plan.lasts:
        stage.wait_until(tick * plan.every)
        try:
            stage.ask()
        except Held:
            watched.held += 1
        except Exception:
            watched.look()
        else:
            watched.look_if_held()
        # A call that hung may have overslept some ticks.
        tick = max(tick + 1, math.ceil(stage.now() / plan.every))


async def _overlapping(plan: SimulationPlan, stage: SimulationSetup, watched: _Watched) -> None:
    async def one() -> None:
        try:
            await stage.aask()
        except Held:
            watched.held += 1
        except Exception:
            watched.look()
        else:
            watched.look_if_held()

    async with asyncio.TaskGroup() as calls:
        for tick in range(math.ceil(plan.lasts / plan.every)):
            await stage.asleep_until(tick * plan.every)
            calls.create_task(one())


def loop(plan: SimulationPlan, tries: int, roll: Callable[[], float], hangs: float = 30.0) -> NaiveLoop:
    """The calls of a program that asks at every tick, up to *tries* times until the answer is good."""
    calls = SimulatedCalls()
    outage, every, at, tick, asked = plan.outage, plan.every, 0.0, 0, 0
    while (due := tick * every) < plan.lasts:
        at = max(at, due)
        for _ in range(tries):
            trouble = outage.trouble(at, roll()) if plan.has_outage(asked) else None
            calls.add(at, ok=trouble is None)
            if trouble is None:
                break
            if trouble.ill is FailureMode.HANG and not plan.overlap:
                at += hangs
        asked += 1
        tick = max(tick + 1, math.ceil(at / every))
    return NaiveLoop(tries=tries, calls=calls)


def recovery(plan: SimulationPlan, calls: SimulatedCalls) -> float | None:
    """Seconds from the end of the outage to the first good call."""
    end = plan.outage.end
    if end is None:
        return None
    good = calls.first_success(end)
    return None if good is None else good - end


def _noticed(calls: SimulatedCalls, moments: Sequence[float]) -> float | None:
    first = calls.first_failure()
    if first is None:
        return None
    return next((at - first for at in moments if at >= first), None)
