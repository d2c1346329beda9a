"""Outage descriptions: "2h down", "1h 30% errors", "30m 429 retry-after 5m"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.durations import Duration, brief, seconds
from tidegate.guard.backoff import Backoff
from tidegate.guard.cooldown import Cooldown
from tidegate.jobs.history import CallCounts, History
from tidegate.validation import share as checked_share

# Seconds before the first failure, unless the text says otherwise.
LEAD = 1800.0
_ALLOWED = (
    "give a length and a trouble, such as '2h down', '2h hang', '2h 30% errors', '2h 503' or '2h 429 retry-after 10m',"
    " optionally ending in 'at 1h'; several with commas"
)
_LENGTH = r"[0-9.]+\s*(?:ms|s|m|h|d|w)(?:\s*[0-9.]+\s*(?:ms|s|m|h|d|w))*"
_PART = re.compile(
    rf"(?P<lasts>{_LENGTH})\s+(?:(?P<share>[0-9.]+)\s*%\s*)?(?P<what>down|hang|errors|[0-9]{{3}})"
    rf"(?:\s+retry-after\s+(?P<after>{_LENGTH}))?(?:\s+at\s+(?P<at>{_LENGTH}))?",
    re.ASCII,
)


class FailureMode(StrEnum):
    """How a service fails."""

    DOWN = "down"  # connections are refused
    HANG = "hang"  # the call is accepted and never answered
    STATUS = "status"  # it returns an HTTP error status


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePeriod:
    """A period in which *share* of the calls fail. Seconds since the start, *end* excluded."""

    start: float
    end: float
    ill: FailureMode = FailureMode.DOWN
    status: int = 0
    retry_after: float | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"FailurePeriod.end: {self.end!r} must be after its start ({self.start!r})")
        checked_share(self.share, field="FailurePeriod.share")
        if self.ill is FailureMode.STATUS and not 400 <= self.status <= 599:
            raise ValueError(f"FailurePeriod.status: {self.status!r} is not a failure; give 400 to 599")
        if self.retry_after is not None and self.ill is not FailureMode.STATUS:
            raise ValueError("FailurePeriod.retry_after: only a response can carry it; give a status such as 429")

    @property
    def label(self) -> str:
        """A description without the time: "down", "30% answering 500"."""
        how = {FailureMode.DOWN: "down", FailureMode.HANG: "hanging"}.get(self.ill) or f"answering {self.status}"
        if self.share < 1:
            how = f"{self.share:.0%} {how}"
        return how if self.retry_after is None else f"{how} with Retry-After {brief(self.retry_after)}"


@dataclass(frozen=True, slots=True)
class Outage:
    """The failure periods of one service.

    Outage.parse("2h down")                                 # healthy for 30 minutes before it
    Outage.parse("1h down at 10m, 30m 30% errors")          # a part without a time follows the previous one
    """

    troubles: tuple[FailurePeriod, ...] = ()

    @classmethod
    def parse(cls, text: str, *, lead: Duration = LEAD) -> Outage:
        """Parses an outage, "none" for none. Raises ValueError with the allowed forms."""
        periods: list[FailurePeriod] = []
        at = seconds(lead, field="lead")
        text = text.strip().lower()
        if text in ("", "none"):
            return cls()
        for part in text.split(","):
            trouble = _trouble(part.strip(), at)
            periods.append(trouble)
            at = trouble.end
        return cls(tuple(periods))

    @property
    def start(self) -> float | None:
        return min((trouble.start for trouble in self.troubles), default=None)

    @property
    def end(self) -> float | None:
        return max((trouble.end for trouble in self.troubles), default=None)

    @property
    def label(self) -> str:
        return (
            ", then ".join(f"{brief(trouble.end - trouble.start)} {trouble.label}" for trouble in self.troubles)
            or "no outage"
        )

    def trouble(self, at: float, roll: float) -> FailurePeriod | None:
        """Returns the failure of a call at *at*. *roll* in [0, 1) decides if only a share of the calls fails."""
        for trouble in self.troubles:
            if trouble.start <= at < trouble.end and roll < trouble.share:
                return trouble
        return None


def _trouble(part: str, at: float) -> FailurePeriod:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"outage: {part!r} is not understood; {_ALLOWED}")
    what, after = match["what"], match["after"]
    start = at if match["at"] is None else seconds(match["at"], field="outage")
    lasts = seconds(match["lasts"], field="outage", minimum=0.001)
    share = 1.0 if match["share"] is None else _share(match["share"])
    status = int(what) if what.isdigit() else 500 if what == "errors" else 0
    if what.isdigit() and not 400 <= status <= 599:
        raise ValueError(f"outage: {status} is not a failure; give a status from 400 to 599")
    if after is not None and not status:
        raise ValueError(
            f"outage: {part!r} has no response that could carry retry-after; give '2h 429 retry-after 10m'"
        )
    return FailurePeriod(
        start=start,
        end=start + lasts,
        ill=FailureMode.STATUS if status else FailureMode(what),
        status=status,
        retry_after=None if after is None else seconds(after, field="outage"),
        share=share,
    )


def _share(text: str) -> float:
    try:
        share = float(text) / 100
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"outage: {text}% is not a valid percentage; give a number above 0% and up to 100%")
    return share


# -- replay: the stored parameters of a target as a policy to simulate -------------------------------------------------

_NEVER = 1_000_000  # more calls than any simulation has


@dataclass(frozen=True, slots=True)
class OutageScenario:
    """One outage to simulate: its description, when it begins, how long to simulate, and the pause between calls.

    The pause is in seconds. It applies if the call rate of the target is unknown.
    """

    words: str
    outage: str
    lasts: float
    every: int


LENGTHS: Mapping[str, OutageScenario] = {
    "10m": OutageScenario("10 min", "10m down at 10m", 2400.0, 10),
    "2h": OutageScenario("2 h", "2h down at 30m", 18_000.0, 60),
    "1d": OutageScenario("1 day", "1d down at 4h", 172_800.0, 300),
}
_PACES = (1, 2, 5, 10, 20, 30, 60, 120, 300)  # few, so that charts can be cached
_MAX_CALLS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicy:
    """The policy of a simulated target. *probe*: its open breaker ends by a health probe, not by time."""

    backoff: Backoff
    cooldown: Cooldown | None
    breaker: dict[str, Any] | None
    probe: bool


def gates(rules: Mapping[str, Any]) -> ReplayPolicy | None:
    """Builds the policy, or returns None if no gate would close in an outage.

    Jitter is removed, so that the chart is reproducible. A custom `ready_to_trip` is unknown here and not simulated.
    """
    backoff, rests, breaker = rules.get("backoff"), rules.get("cooldown"), rules.get("breaker")
    if not (backoff or rests or breaker):
        return None
    return ReplayPolicy(
        backoff=_backoff(backoff) if backoff else Backoff(0, cap=0, jitter=0),
        cooldown=Cooldown({code: (int(times), float(rest)) for code, (times, rest) in rests.items()})
        if rests
        else None,
        breaker=_breaker(breaker) if breaker else None,
        probe=bool(breaker and breaker.get("open_for") is None),
    )


def pace(length: OutageScenario, calls: History[CallCounts]) -> int:
    """Returns the pause between two calls, about as while the target was healthy: a held target is called less."""
    busy = sorted(point.good + point.bad for point in calls.points if point.good + point.bad)
    pause = calls.step / busy[len(busy) * 3 // 4] if busy else length.every
    least = max(pause, length.lasts / _MAX_CALLS)
    return next((pace_seconds for pace_seconds in _PACES if pace_seconds >= least), _PACES[-1])


def _backoff(numbers: Mapping[str, Any]) -> Backoff:
    if steps := numbers.get("steps"):
        return Backoff.listed(*steps, jitter=0)
    return Backoff(float(numbers["base"]), cap=float(numbers["cap"]), factor=float(numbers["factor"]), jitter=0)


def _breaker(numbers: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {name: numbers[name] for name in ("max_requests", "interval", "consecutive", "window")}
    if numbers.get("open_for") is not None:
        arguments["timeout"] = numbers["open_for"]
        arguments |= {name: numbers[name] for name in ("max_timeout", "growth") if name in numbers}
    own = numbers.get("failure_ratio") is None
    arguments["min_requests"] = _NEVER if own else numbers["min_requests"]
    arguments["failure_ratio"] = 1.0 if own else numbers["failure_ratio"]
    return arguments
