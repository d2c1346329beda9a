"""The numbers of a target, as its workers told them to the store, made into what an outage can be played against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.backoff import Backoff
from tidegate.core.policy import Cooldown
from tidegate.ops.history import CallCounts, History

_NEVER = 1_000_000  # calls: no outage that is played has so many


@dataclass(frozen=True, slots=True)
class OutageScenario:
    """One outage that is played: in words, when it begins, how long is played, and the pause between two calls.

    The pause is in seconds, and counts where nobody knows how often the target is called.
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
_PACES = (1, 2, 5, 10, 20, 30, 60, 120, 300)  # few, so that pictures can be kept
_MAX_CALLS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicy:
    """What a target is made with; *probe*: its open breaker is ended by asking, not by time."""

    backoff: Backoff
    cooldown: Cooldown | None
    breaker: dict[str, Any] | None
    probe: bool


def gates(rules: Mapping[str, Any]) -> ReplayPolicy | None:
    """None when no gate would close in an outage.

    Chance is left out, so that the picture is the same each time. A rule of the user's own, when a breaker opens, is
    not known here, and not played.
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
    """The pause between two calls, about as it was of late while the target was well: held, it is called less."""
    busy = sorted(point.good + point.bad for point in calls.points if point.good + point.bad)
    pause = calls.step / busy[len(busy) * 3 // 4] if busy else length.every
    least = max(pause, length.lasts / _MAX_CALLS)
    return next((each for each in _PACES if each >= least), _PACES[-1])


def _backoff(numbers: Mapping[str, Any]) -> Backoff:
    if steps := numbers.get("steps"):
        return Backoff.listed(*steps, jitter=0)
    return Backoff(float(numbers["base"]), cap=float(numbers["cap"]), factor=float(numbers["factor"]), jitter=0)


def _breaker(numbers: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: numbers[name] for name in ("max_requests", "interval", "consecutive", "window")}
    if numbers.get("open_for") is not None:
        found["timeout"] = numbers["open_for"]
        found |= {name: numbers[name] for name in ("max_timeout", "growth") if name in numbers}
    own = numbers.get("failure_ratio") is None
    found["min_requests"] = _NEVER if own else numbers["min_requests"]
    found["failure_ratio"] = 1.0 if own else numbers["failure_ratio"]
    return found
