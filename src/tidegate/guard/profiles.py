"""The defaults of each target profile. `docs/reference/targets.md` shows this table, and a test compares them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from tidegate import events as buses
from tidegate.durations import Duration, brief
from tidegate.guard.backoff import Backoff
from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_counts import Counts
from tidegate.guard.breaker_policy import StateChange
from tidegate.guard.key_health import THROTTLE
from tidegate.validation import did_you_mean

ProfileName = Literal["requests", "sync", "jobs"]
BreakerPer = Literal["target", "key"]
PER = ("target", "key")


class BreakerOptions(TypedDict, total=False):
    """The options of a target's breaker, as a dict. `Breaker` describes each."""

    max_requests: int
    interval: Duration
    timeout: Duration | None
    max_timeout: Duration | None
    growth: float
    min_requests: int
    failure_ratio: float
    consecutive: int | None
    window: Duration | None
    permit_timeout: Duration | None
    trip: Callable[[Counts], bool] | None
    on_state_change: StateChange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Options for tests and for Tidegate: `Target("api", tuning=Tuning(rng=lambda: 0.5))`.

    A `Queue` reads only *rng*.
    """

    max_retry_after: Duration = "1h"  # the longest Retry-After that is obeyed
    cap_notice: bool = True  # whether to send a notice when the backoff reaches its cap
    bus: buses.Bus | None = None  # destination of events; None: the bus of the process
    rng: Callable[[], float] = random.random  # random number in [0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The defaults of a target."""

    backoff: Backoff | None  # the delay of a key after a failure
    breaker: BreakerOptions | None
    hold_without_key: bool  # whether a fatal fault of a call without a key holds the calls without one
    pass_own_bugs: bool  # whether bugs of the program are not counted

    def breaker_numbers(
        self, given: Mapping[str, Any] | bool | Literal["profile"] | None, *, probe: bool
    ) -> dict[str, Any] | None:
        """Returns the breaker options: *given* over those of the profile. None without a breaker.

        A given *timeout* does not grow, unless *max_timeout* is given too. With a *probe*, only its success ends the
        open state, unless a *timeout* is given.
        """
        if given is False or given is None or (given == "profile" and self.breaker is None):
            return None
        own: dict[str, Any] = {} if given is True or given == "profile" else dict(given)
        numbers: dict[str, Any] = {**(self.breaker or {}), **own}
        if probe and "timeout" not in own:
            numbers["timeout"] = None
        if "max_timeout" not in own and ("timeout" in own or numbers.get("timeout", 0) is None):
            numbers.pop("max_timeout", None)
        return numbers


PROFILES: Mapping[str, Profile] = {
    # Calls on behalf of a user or a request: one failure holds no other call, and five reveal an outage.
    "requests": Profile(
        backoff=None,
        breaker={
            "consecutive": 5,
            "min_requests": 20,
            "failure_ratio": 0.5,
            "interval": 30.0,
            "timeout": 5.0,
            "max_timeout": 120.0,
            "growth": 0.1,
            "max_requests": 3,
        },
        hold_without_key=False,
        pass_own_bugs=True,
    ),
    # Loops over (user, provider).
    "sync": Profile(backoff=Backoff.sync(), breaker=None, hold_without_key=True, pass_own_bugs=False),
    # The gates before the jobs of a queue.
    "jobs": Profile(backoff=Backoff.sync(), breaker=None, hold_without_key=True, pass_own_bugs=False),
}


def tuning_of(given: object) -> Tuning:
    if given is None:
        return Tuning()
    if not isinstance(given, Tuning):
        raise TypeError(f"tuning must be a Tuning or None, got {given!r:.60}; did you mean Tuning(...)?")
    return given


def profile_of(name: object) -> Profile:
    if not isinstance(name, str) or name not in PROFILES:
        allowed = ", ".join(map(repr, PROFILES))
        raise ValueError(f"profile must be one of {allowed}, got {name!r:.60}{did_you_mean(name, PROFILES)}")
    return PROFILES[name]


def counts_in_a_row(breaker: Breaker | Mapping[str, Any] | None) -> bool:
    """Whether the breaker opens after a number of consecutive failures."""
    if isinstance(breaker, Breaker):
        return breaker.policy.consecutive is not None
    return breaker is not None and breaker.get("consecutive") is not None


def rows() -> list[tuple[str, ...]]:
    """Returns the table as text: a setting, and its value in each profile."""
    asked = f"held for the time asked, at most {_tuned('max_retry_after')}"
    cells: list[tuple[str, Callable[[Profile], str]]] = [
        ("backoff after a failure", lambda profile: _backoff(profile.backoff)),
        ("breaker opens", lambda profile: _opens(profile.breaker)),
        ("breaker stays open", lambda profile: _stays_open(profile.breaker)),
        ("trial calls that close it", lambda profile: _trials(profile.breaker)),
        ("fatal fault of a call with a key", lambda _: "holds the key"),
        ("fatal fault of a call without one", _without_key),
        ("`Retry-After`", lambda _: asked),
        ("429 without `Retry-After`", lambda profile: _throttled(profile.backoff)),
        ("bug of the program", _own_bug),
        ("inline retries", lambda _: "only with `retry=`"),
    ]
    head = ("", *(f'`"{name}"`' for name in PROFILES))
    return [head, *((setting, *map(cell, PROFILES.values())) for setting, cell in cells)]


def _own_bug(profile: Profile) -> str:
    if profile.pass_own_bugs:
        return "passes: not counted, not held, not repeated"
    return "counts for the job, not for the target" if profile is PROFILES["jobs"] else "counts as a failure of its key"


def _without_key(profile: Profile) -> str:
    return (
        "holds all calls without a key" if profile.hold_without_key else "holds nothing; one notice a day for each code"
    )


def _tuned(name: str) -> object:
    return next(field.default for field in fields(Tuning) if field.name == name)


def _backoff(backoff: Backoff | None) -> str:
    return "none" if backoff is None else f"{brief(backoff.base)}, doubled up to {brief(backoff.cap)}, per key"


def _throttled(backoff: Backoff | None) -> str:
    if backoff is not None:
        return "backoff as after any failure"
    return f"held {brief(THROTTLE.base)}, doubled up to {brief(THROTTLE.cap)} until a success"


def _opens(numbers: BreakerOptions | None) -> str:
    if numbers is None:
        return "no breaker"
    within = brief(float(str(numbers["interval"])))
    return (
        f"after {numbers['consecutive']} failures in a row, or when {numbers['failure_ratio']:.0%} of at least"
        f" {numbers['min_requests']} calls in {within} fail"
    )


def _stays_open(numbers: BreakerOptions | None) -> str:
    if numbers is None:
        return "no breaker"
    least, limit = brief(float(str(numbers["timeout"]))), brief(float(str(numbers["max_timeout"])))
    return f"{least}, growing to {numbers['growth']:.0%} of the outage, at most {limit}"


def _trials(numbers: BreakerOptions | None) -> str:
    return "no breaker" if numbers is None else str(numbers["max_requests"])
