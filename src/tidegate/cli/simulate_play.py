"""Runs `tidegate simulate`: profiles, the timeline, and the report."""

from __future__ import annotations

import logging
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import click

from tidegate.cli.output import table
from tidegate.durations import brief, seconds
from tidegate.guard.backoff import Add, Backoff
from tidegate.guard.cooldown import Cooldown
from tidegate.guard.profiles import PROFILES as TARGETS
from tidegate.guard.profiles import BreakerPer, ProfileName, Tuning
from tidegate.guard.target import Target
from tidegate.simulation import report
from tidegate.simulation.outage import Outage
from tidegate.simulation.play import HoldKind, HoldSpan, SimulatedCalls, Simulation
from tidegate.testing.simulation import simulate

# -- timeline ----------------------------------------------------------------------------------------------------------

LEGEND = "o ok  x failed  X many failed  * some of both  - held"
_LABEL = 12
_MANY = 3  # failures in one slot


def strip(result: Simulation, width: int = 80) -> list[str]:
    """Draw the outage, calls with and without Tidegate, and an hour scale. Each character is a time slot."""
    size, lasts = width - _LABEL, result.plan.lasts
    outage = [" "] * size
    for trouble in result.plan.outage.troubles:
        _fill(outage, trouble.start / lasts, trouble.end / lasts, "#")
    return [
        _line("outage", outage),
        _line("Tidegate", _lane(result.calls, lasts, size, result.spans)),
        _line("plain loop", _lane(result.plain.calls, lasts, size, ())),
        _line("", _axis(lasts, size)),
    ]


def _lane(calls: SimulatedCalls, lasts: float, size: int, spans: Sequence[HoldSpan]) -> list[str]:
    lane = [" "] * size
    for span in spans:
        if span.why is not HoldKind.HALF_OPEN:  # half-open lets calls through
            _fill(lane, span.start / lasts, span.end / lasts, "-")
    good, bad = Counter[int](), Counter[int]()
    for call in calls:
        (good if call.ok else bad)[min(int(call.at / lasts * size), size - 1)] += 1
    for at in good.keys() | bad.keys():
        lane[at] = "*" if good[at] and bad[at] else "o" if good[at] else "X" if bad[at] > _MANY else "x"
    return lane


def _fill(lane: list[str], start: float, end: float, mark: str) -> None:
    first, last = int(start * len(lane)), int(min(end, 1.0) * len(lane))
    for at in range(first, min(max(last, first + 1), len(lane))):
        lane[at] = mark


def _axis(lasts: float, size: int) -> list[str]:
    lane = [" "] * (size + 8)
    for quarter in range(5):
        label = "0" if quarter == 0 else brief(lasts * quarter / 4)
        at = round(size * quarter / 4)
        at = min(at, size - len(label))
        lane[at : at + len(label)] = label
    return lane


def _line(label: str, lane: list[str]) -> str:
    return f"{label:<{_LABEL}}{''.join(lane)}".rstrip()


NO_BACKOFF = Backoff(0, cap=0, jitter=0)
_REQUESTS = TARGETS["requests"]
# Defaults of a breaker.
_BREAKER = {"min_requests": 10, "failure_ratio": 0.6, "interval": 60, "timeout": 120}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationProfile:
    """The policy of one target, and the defaults of its simulation."""

    name: str
    backoff: Backoff = NO_BACKOFF
    breaker: Mapping[str, object] | None = None
    cooldown: Cooldown | None = None
    target: ProfileName = "jobs"  # target profile to simulate
    breaker_per: BreakerPer = "target"
    probe: bool = False  # a health probe ends the open state, not a timeout
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
        """Return a copy in which a health probe ends the open state."""
        rules = {
            name: number for name, number in (self.breaker or {}).items() if name not in ("timeout", "max_timeout")
        }
        return replace(self, probe=True, breaker=None if self.breaker is None else rules)

    @property
    def longest_wait(self) -> float | None:
        """Longest time between two attempts, in seconds. None if a probe ends the wait, or without a gate."""
        breaker = {} if self.breaker is None or self.probe else {**_BREAKER, **self.breaker}
        open_time = breaker.get("max_timeout") or breaker.get("timeout")
        waits = [seconds(open_time)] if open_time else []
        waits += [self.backoff.bound] if self.backoff != NO_BACKOFF else []
        waits += [rest for _, rest in self.cooldown.rests.values()] if self.cooldown is not None else []
        return max(waits) if waits else None

    @property
    def says(self) -> list[str]:
        """Describe the policy, one gate per line."""
        lines = [_backoff(self.backoff)] if self.backoff != NO_BACKOFF else []
        if self.breaker is not None:
            per = " per key" if self.breaker_per == "key" else ""
            lines.append(_breaker({**_BREAKER, **self.breaker}, per, probe=self.probe))
        if self.cooldown is not None:
            parts = (f"{code} {times}x: {brief(rest)}" for code, (times, rest) in self.cooldown.rests.items())
            lines.append(f"cooldown {', '.join(parts)}")
        return lines or ["no gate; add one with --base, --breaker or --cooldown"]


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
    """Overrides from the command line. None or empty: keep the value of the profile."""

    base: float | None = None
    cap: float | None = None
    factor: float | None = None
    jitter: float | None = None
    breaker: bool | None = None
    breaker_per: BreakerPer | None = None
    breaker_numbers: Mapping[str, object] = field(default_factory=dict)
    cooldown: Mapping[str, tuple[int, float]] = field(default_factory=dict)

    def over(self, profile: SimulationProfile) -> SimulationProfile:
        """Return the profile with the overrides. ValueError if they contradict each other."""
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

    def _breaker(self, was: Mapping[str, object] | None) -> Mapping[str, object] | None:
        if self.breaker is False:
            return None
        if self.breaker is None and not self.breaker_numbers:
            return was
        rules = dict(was or {})
        if "timeout" in self.breaker_numbers:
            rules.pop("max_timeout", None)
        return {**rules, **self.breaker_numbers}


def _backoff(backoff: Backoff) -> str:
    if isinstance(backoff.jitter, Add):
        jitter = f"plus up to {brief(seconds(backoff.jitter.hi))}"
    else:
        jitter = f"give or take {backoff.jitter:.0%}" if backoff.jitter else "no jitter"
    if backoff.steps:
        return f"backoff {', '.join(brief(step) for step in backoff.steps)}, {jitter}"
    grows = "doubling" if backoff.factor == 2 else f"times {backoff.factor:g}"
    return f"backoff {brief(backoff.base)}, {grows} up to {brief(backoff.cap)}, {jitter}"


def _breaker(numbers: Mapping[str, object], per: str, *, probe: bool) -> str:
    run = f"{numbers['consecutive']} failures in a row, or " if numbers.get("consecutive") else ""
    within = brief(seconds(numbers.get("window") or numbers["interval"]))
    ends = "a health probe ends it" if probe else f"open for {brief(seconds(numbers['timeout']))}"
    if not probe and numbers.get("max_timeout"):
        ends += f", growing with the outage to {brief(seconds(numbers['max_timeout']))}"
    return f"breaker{per} {run}{numbers['failure_ratio']:.0%} of {numbers['min_requests']} or more in {within}; {ends}"


# -- simulation --------------------------------------------------------------------------------------------------------

_WIDTH = 80
_MAX_TOLD = 6
HEAD = ["", "Tidegate", "plain loop", "3 attempts per call"]


@dataclass(frozen=True, slots=True)
class PlayedSimulation:
    profile: SimulationProfile
    result: Simulation

    @property
    def title(self) -> str:
        return f"{self.profile.name}: {self.result.plan.outage.label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Size of the simulation: attempts per call, keys, failing keys, and the random seed."""

    retry: int = 1
    keys: int = 0
    failing_keys: int | None = None
    seed: int = 1


ALONE = Scale()


def play(
    profile: SimulationProfile,
    *,
    outage: str | None = None,
    every: float | None = None,
    lasts: float | None = None,
    scale: Scale = ALONE,
) -> PlayedSimulation:
    """Simulate *profile*, with its defaults for missing arguments. An invalid value is a UsageError."""
    try:
        with _quiet():
            result = simulate(
                profile.make,
                outage=Outage.parse(profile.outage if outage is None else outage),
                every=profile.every if every is None else every,
                lasts=profile.lasts if lasts is None else lasts,
                retry=scale.retry,
                probe=profile.probe,
                keys=scale.keys,
                failing_keys=scale.failing_keys,
                seed=scale.seed,
            )
    except ValueError as error:
        # ValueError names fields. Users know them as options.
        raise click.UsageError(
            f"--{error}".replace("--lasts:", "--for:").replace("--failing_keys:", "--failing-keys:")
        ) from error
    return PlayedSimulation(profile, result)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log of transitions, which the report shows anyway."""
    log = logging.getLogger("tidegate")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def show(played: PlayedSimulation) -> None:
    """Print the policy, the scenario, the table, the timeline and the notices."""
    result = played.result
    click.echo(played.profile.name)
    for line in (*played.profile.says, report.describe_simulation(result)):
        click.echo(textwrap.fill(line, _WIDTH, initial_indent="  ", subsequent_indent="    "))
    click.echo()
    table(HEAD, report.rows(result))
    click.echo()
    click.echo(textwrap.fill(report.trade(result, played.profile.longest_wait), _WIDTH))
    click.echo()
    for line in strip(result, _WIDTH):
        click.echo(line)
    click.echo(f"{'':<12}{LEGEND}")
    if result.told:
        click.echo()
    for notice in result.told[:_MAX_TOLD]:
        click.echo(f"{brief(notice.at):>8}  notice: {notice.title}")
    if len(result.told) > _MAX_TOLD:
        click.echo(f"{'':>8}  and {len(result.told) - _MAX_TOLD} more")
