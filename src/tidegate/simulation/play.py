"""Simulates calls to a failing service on a virtual clock, and reports what the gates did.

The clock, the target and the service are arguments. The simulation runs the real target, not a model of it.
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


class SimulatedCall(NamedTuple):
    at: float  # seconds since the start
    ok: bool


class SimulatedCalls:
    """Calls in order. Stored in two flat arrays, so that a day of calls needs little memory."""

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
        """Returns when the first call failed."""
        at = self._ok.find(0)
        return None if at < 0 else self._times[at]

    def first_success(self, since: float) -> float | None:
        """Returns when the first call from *since* on succeeded."""
        at = self._ok.find(1, bisect_left(self._times, since))
        return None if at < 0 else self._times[at]

    def between(self, start: float, end: float) -> int:
        """Returns the number of calls from *start* on and before *end*."""
        return bisect_left(self._times, end) - bisect_left(self._times, start)

    def runs(self) -> list[tuple[float, float, int, bool]]:
        """Groups consecutive calls with the same outcome: (first, last, count, ok)."""
        groups: list[tuple[float, float, int, bool]] = []
        start, size = 0, len(self._ok)
        while start < size:
            ok = self._ok[start]
            end = self._ok.find(1 - ok, start)
            end = size if end < 0 else end
            groups.append((self._times[start], self._times[end - 1], end - start, bool(ok)))
            start = end
        return groups

    def __len__(self) -> int:
        return len(self._ok)

    def __iter__(self) -> Iterator[SimulatedCall]:
        return (SimulatedCall(at, bool(ok)) for at, ok in zip(self._times, self._ok, strict=True))


# -- holds: built from what the gate reports after each call -----------------------------------------------------------


class HoldKind(StrEnum):
    """Why calls were held. While half-open, a few calls pass."""

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
    """Seconds since the start, *end* excluded."""

    start: float
    end: float
    why: HoldKind


class HoldSpans:
    """The spans so far. A report of a gate applies until its next report."""

    def __init__(self) -> None:
        self._past: list[HoldSpan] = []
        self._ahead: tuple[HoldSpan, ...] = ()

    @property
    def clear(self) -> bool:
        return not self._ahead

    def seen(self, now: float, holds: Iterable[Hold], *, half_open: bool) -> None:
        """Records a report at *now*. A half-open breaker does not hold calls while it has permits."""
        self._end(now)
        trying = (HoldSpan(now, math.inf, HoldKind.HALF_OPEN),) if half_open else ()
        self._ahead = (*trying, *(span for hold in holds for span in _spans(hold, now)))

    def closed(self, end: float) -> Sequence[HoldSpan]:
        """Returns all spans up to *end*. Adjacent spans of one kind are merged."""
        self._end(end)
        self._ahead = ()
        joined: list[HoldSpan] = []
        last: dict[HoldKind, int] = {}
        for span in sorted(self._past, key=lambda span: span.start):
            at = last.get(span.why)
            if at is not None and span.start <= joined[at].end:
                joined[at] = HoldSpan(joined[at].start, max(joined[at].end, span.end), span.why)
            else:
                last[span.why] = len(joined)
                joined.append(span)
        return tuple(joined)

    def _end(self, now: float) -> None:
        self._past += [HoldSpan(span.start, min(span.end, now), span.why) for span in self._ahead if span.start < now]


def _spans(hold: Hold, now: float) -> Iterable[HoldSpan]:
    kind = _OF_REASON.get(hold.reason, HoldKind.OTHER)
    end = math.inf if hold.until is None else hold.until
    if kind is not HoldKind.OPEN:
        yield HoldSpan(now, end, kind)
    elif hold.ended_by is not EndedBy.CALL:
        yield HoldSpan(now, end, HoldKind.OPEN)
        yield HoldSpan(end, math.inf, HoldKind.HALF_OPEN)  # after its timeout it admits a few calls


class SentNotice(NamedTuple):
    """One notice."""

    at: float
    title: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """A simulation: one call per *every* seconds, for *lasts* seconds, against a service with this *outage*.

    With *keys* the calls rotate over that many keys, of which the first *failing_keys* have the outage. With *overlap*
    a call does not wait for the previous one.
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
        """Whether this call belongs to a key with the outage."""
        return not self.keys or call % self.keys < self.failing_keys


MAX_TICKS = 1_000_000


class SimulationSetup(Protocol):
    """The target, its fake service and their clock."""

    def now(self) -> float:
        """Returns seconds since the start."""

    def wait_until(self, at: float) -> None: ...

    def ask(self) -> object:
        """Makes one call through the gates. Raises Held or the service's error."""

    async def aask(self) -> object:
        """The async form of `ask`."""

    async def asleep_until(self, at: float) -> None: ...

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Runs *main* on an event loop with the virtual clock."""

    def holds(self) -> Sequence[Hold]:
        """Returns why a call would be held now, in seconds since the start."""

    def half_open(self) -> bool:
        """Whether a breaker is half-open."""

    def calls(self) -> SimulatedCalls: ...

    def probes(self) -> int:
        """Returns the number of health probes."""

    def told(self) -> Sequence[SentNotice]:
        """Returns the notices so far."""

    def noticed(self) -> Sequence[float]:
        """Returns when notices were sent, breakers opened or keys were disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NaiveLoop:
    """The result of a loop without gates, with up to *tries* attempts per tick."""

    tries: int
    calls: SimulatedCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result. All times are seconds, None for events that did not occur in the simulated time."""

    plan: SimulationPlan
    calls: SimulatedCalls
    held: int  # calls that the gates did not let through
    failed_before_hold: int  # failures until calls were first held; calls in flight then fail later
    held_late: int  # those of them after the outage, when the service worked again
    probes: int  # health probes, in addition to the calls
    noticed_after: float | None  # from the first failure to the first notice, open breaker or disabled key
    recovered_after: float | None  # from the end of the outage to the first good call
    spans: Sequence[HoldSpan]  # when calls were held, and why
    told: Sequence[SentNotice]
    plain: NaiveLoop  # the same outage without gates
    stubborn: NaiveLoop  # and with three attempts per call

    def recovery_of(self, loop: NaiveLoop) -> float | None:
        return recovery(self.plan, loop.calls)

    def load(self, calls: SimulatedCalls) -> int:
        """Returns how many of *calls* were made during the outage."""
        return sum(calls.between(trouble.start, trouble.end) for trouble in self.plan.outage.troubles)


def play(plan: SimulationPlan, stage: SimulationSetup, roll: Callable[[], float]) -> Simulation:
    """Runs the plan on *stage*. *roll* is the random source of the two loops for comparison."""
    watched = _Watched(stage, plan.outage.end)
    if plan.overlap:
        stage.run(_overlapping(plan, stage, watched))
    else:
        _one_by_one(plan, stage, watched)
    calls = stage.calls()
    return Simulation(
        plan=plan,
        calls=calls,
        held=watched.held,
        failed_before_hold=watched.failed_before_hold,
        held_late=watched.held_late,
        probes=stage.probes(),
        noticed_after=_noticed(calls, stage.noticed()),
        recovered_after=recovery(plan, calls),
        spans=watched.spans.closed(plan.lasts),
        told=tuple(stage.told()),
        plain=loop(plan, 1, roll),
        stubborn=loop(plan, 3, roll),
    )


class _Watched:
    """Records what the gates report after each call."""

    def __init__(self, stage: SimulationSetup, end: float | None) -> None:
        self.spans = HoldSpans()
        self.held = self.held_late = 0
        self.failed_before_hold = 0
        self._has_held = False
        self._stage = stage
        self._end = end

    def hold(self) -> None:
        """Counts a held call. The reports of the gates do not change."""
        self.held += 1
        self.held_late += self._end is not None and self._stage.now() >= self._end

    def failed(self) -> None:
        """Records a failure."""
        self.failed_before_hold += not self._has_held
        self.look()
        self._has_held = self._has_held or not self.spans.clear

    def look(self) -> None:
        self.spans.seen(self._stage.now(), self._stage.holds(), half_open=self._stage.half_open())

    def look_if_held(self) -> None:
        """Records after a success, which changes nothing if nothing was held."""
        if not self.spans.clear:
            self.look()


def _one_by_one(plan: SimulationPlan, stage: SimulationSetup, watched: _Watched) -> None:
    tick = 0
    while tick * plan.every < plan.lasts:
        stage.wait_until(tick * plan.every)
        try:
            stage.ask()
        except Held:
            watched.hold()
        except Exception:
            watched.failed()
        else:
            watched.look_if_held()
        # A call that hung may have skipped some ticks.
        tick = max(tick + 1, math.ceil(stage.now() / plan.every))


async def _overlapping(plan: SimulationPlan, stage: SimulationSetup, watched: _Watched) -> None:
    async def one() -> None:
        try:
            await stage.aask()
        except Held:
            watched.hold()
        except Exception:
            watched.failed()
        else:
            watched.look_if_held()

    async with asyncio.TaskGroup() as calls:
        for tick in range(math.ceil(plan.lasts / plan.every)):
            await stage.asleep_until(tick * plan.every)
            calls.create_task(one())


def loop(plan: SimulationPlan, tries: int, roll: Callable[[], float], hangs: float = 30.0) -> NaiveLoop:
    """Simulates a program that calls at every tick, up to *tries* times until it succeeds."""
    calls = SimulatedCalls()
    outage, every, at, tick, call_count = plan.outage, plan.every, 0.0, 0, 0
    while (due := tick * every) < plan.lasts:
        at = max(at, due)
        for _ in range(tries):
            trouble = outage.trouble(at, roll()) if plan.has_outage(call_count) else None
            calls.add(at, ok=trouble is None)
            if trouble is None:
                break
            if trouble.ill is FailureMode.HANG and not plan.overlap:
                at += hangs
        call_count += 1
        tick = max(tick + 1, math.ceil(at / every))
    return NaiveLoop(tries=tries, calls=calls)


def recovery(plan: SimulationPlan, calls: SimulatedCalls) -> float | None:
    """Returns the seconds from the end of the outage to the first success."""
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
