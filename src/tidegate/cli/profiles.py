"""The policies that `simulate` can play: the profiles of targets, those of the applications, and your own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core.backoff import Add, Backoff
from tidegate.core.duration import brief, seconds
from tidegate.core.policy import Cooldown
from tidegate.face.profiles import PROFILES as TARGETS
from tidegate.face.profiles import BreakerPer, ProfileName, Tuning
from tidegate.face.target import Target

NO_BACKOFF = Backoff(0, cap=0, jitter=0)
_REQUESTS = TARGETS["requests"]
# The numbers that a breaker has where nothing else is said.
_BREAKER = {"min_requests": 10, "failure_ratio": 0.6, "interval": 60, "timeout": 120}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationProfile:
    """The numbers of one target, and what is played with them where the command does not say."""

    name: str
    backoff: Backoff = NO_BACKOFF
    breaker: Mapping[str, Any] | None = None
    cooldown: Cooldown | None = None
    target: ProfileName = "jobs"  # the profile of the target that is played
    breaker_per: BreakerPer = "target"
    probe: bool = False  # a health probe ends the open state, not time
    max_retry_after: str = "1h"
    every: str = "5m"
    lasts: str = "6h"
    outage: str = "2h down"

    def make(self, *, tuning: Tuning, **more: Any) -> Target:
        breaker: Any = False if self.breaker is None else dict(self.breaker)
        return Target(
            self.name,
            self.target,
            backoff=None if self.backoff == NO_BACKOFF else self.backoff,
            breaker=breaker,
            breaker_per=self.breaker_per,
            cooldown=self.cooldown,
            tuning=replace(tuning, max_retry_after=self.max_retry_after),
            **more,
        )

    def probed(self) -> SimulationProfile:
        """The same, with a health probe that ends the open state."""
        kept = {name: number for name, number in (self.breaker or {}).items() if name not in ("timeout", "max_timeout")}
        return replace(self, probe=True, breaker=None if self.breaker is None else kept)

    @property
    def says(self) -> list[str]:
        """The numbers in words, one gate to a line."""
        found = [_backoff(self.backoff)] if self.backoff != NO_BACKOFF else []
        if self.breaker is not None:
            per = " per key" if self.breaker_per == "key" else ""
            found.append(_breaker({**_BREAKER, **self.breaker}, per, probe=self.probe))
        if self.cooldown is not None:
            rests = (f"{code} {times}x: {brief(rest)}" for code, (times, rest) in self.cooldown.rests.items())
            found.append(f"cooldown {', '.join(rests)}")
        return found or ["no gate at all: give --base, --breaker or --cooldown"]


PROFILES = {
    each.name: each
    for each in (
        SimulationProfile(
            name="requests", target="requests", breaker=_REQUESTS.breaker, every="1s", lasts="3h", outage="1h down"
        ),
        SimulationProfile(name="sync", target="sync", backoff=Backoff.sync()),
        SimulationProfile(name="jobs", backoff=TARGETS["jobs"].backoff or NO_BACKOFF),
        SimulationProfile(name="tautulli", breaker={"consecutive": 5}, every="30s"),
        SimulationProfile(
            name="feeds",
            backoff=Backoff("5m", cap="8h"),
            cooldown=Cooldown.feeds(),
            max_retry_after="24h",
            every="1h",
            lasts="7d",
            outage="3d down at 12h",
        ),
        SimulationProfile(
            name="convert",
            backoff=Backoff.conversion(),
            breaker={"window": "3m", "failure_ratio": 0.5, "min_requests": 6, "consecutive": 5},
            probe=True,
            every="10s",
        ),
        SimulationProfile(name="lidarr", backoff=Backoff.submission(), breaker={"consecutive": 5}, every="1m"),
        SimulationProfile(name="own"),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """What the command line says instead of the profile; None or empty where it says nothing."""

    base: float | None = None
    cap: float | None = None
    factor: float | None = None
    jitter: float | None = None
    breaker: bool | None = None
    breaker_per: BreakerPer | None = None
    breaker_numbers: Mapping[str, Any] = field(default_factory=dict)
    cooldown: Mapping[str, tuple[int, float]] = field(default_factory=dict)

    def over(self, profile: SimulationProfile) -> SimulationProfile:
        """The profile with these numbers in place of its own; ValueError when they do not fit together."""
        return replace(
            profile,
            backoff=self._backoff(profile.backoff),
            breaker=self._breaker(profile.breaker),
            cooldown=Cooldown(self.cooldown) if self.cooldown else profile.cooldown,
            breaker_per=self.breaker_per or profile.breaker_per,
            probe=profile.probe and self.breaker is not False and "timeout" not in self.breaker_numbers,
        )

    def _backoff(self, was: Backoff) -> Backoff:
        if self.base is self.cap is self.factor is self.jitter is None:
            return was
        start = Backoff() if was == NO_BACKOFF else was
        base = start.base if self.base is None else self.base
        cap = max(start.cap, base) if self.cap is None else self.cap
        jitter = start.jitter if self.jitter is None else self.jitter
        return Backoff(base, cap=cap, factor=start.factor if self.factor is None else self.factor, jitter=jitter)

    def _breaker(self, was: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if self.breaker is False:
            return None
        if self.breaker is None and not self.breaker_numbers:
            return was
        kept = dict(was or {})
        if "timeout" in self.breaker_numbers:
            kept.pop("max_timeout", None)
        return {**kept, **self.breaker_numbers}


def _backoff(backoff: Backoff) -> str:
    if isinstance(backoff.jitter, Add):
        jitter = f"plus up to {brief(seconds(backoff.jitter.hi))}"
    else:
        jitter = f"give or take {backoff.jitter:.0%}" if backoff.jitter else "no jitter"
    if backoff.steps:
        return f"backoff {', '.join(brief(step) for step in backoff.steps)}, {jitter}"
    grows = "doubling" if backoff.factor == 2 else f"times {backoff.factor:g}"
    return f"backoff {brief(backoff.base)}, {grows} up to {brief(backoff.cap)}, {jitter}"


def _breaker(numbers: Mapping[str, Any], per: str, *, probe: bool) -> str:
    run = f"{numbers['consecutive']} failures in a row, or " if numbers.get("consecutive") else ""
    within = brief(seconds(numbers.get("window") or numbers["interval"]))
    ends = "a health probe ends it" if probe else f"open for {brief(seconds(numbers['timeout']))}"
    if not probe and numbers.get("max_timeout"):
        ends += f", growing with the outage to {brief(seconds(numbers['max_timeout']))}"
    return f"breaker{per} {run}{numbers['failure_ratio']:.0%} of {numbers['min_requests']} or more in {within}; {ends}"
