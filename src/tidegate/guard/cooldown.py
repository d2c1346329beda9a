"""Cooldown: a key that keeps failing with one code is disabled for a time, then gets one probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tidegate.durations import Duration, seconds
from tidegate.faults.fault import Fault, Reach, Reason
from tidegate.validation import whole


class Cooldown:
    """How many consecutive failures with one code disable a key, and for how long.

        Cooldown({"not_found": (3, "48h"), "gone": (1, "72h")})

    *same* maps codes that count as another one: with {"timeout": "network"} both form one run.
    """

    __slots__ = ("rests", "same")

    def __init__(self, rests: Mapping[str, tuple[int, Duration]], *, same: Mapping[str, str] | None = None) -> None:
        if not rests:
            raise ValueError("Cooldown needs at least one code, got none; give {'not_found': (3, '48h')}")
        self.rests: Mapping[str, tuple[int, float]] = {code: _rest(code, row) for code, row in rests.items()}
        self.same: Mapping[str, str] = dict(same or {})
        for code, counted in self.same.items():
            if code in self.rests or counted not in self.rests:
                raise ValueError(
                    f"Cooldown.same: {code!r} as {counted!r} is not allowed; give it as a code with a rest"
                )

    def counted(self, code: str) -> str:
        """Returns the code under which a failure counts."""
        return self.same.get(code, code)

    def governs(self, code: str) -> bool:
        """Whether failures with this code lead to a cooldown."""
        return self.counted(code) in self.rests

    @classmethod
    def feeds(cls) -> Cooldown:
        """The thresholds of the feed poller. It has one code for every 5xx and one for every network failure."""
        return cls(
            {
                "forbidden": (5, "24h"),
                "not_found": (3, "48h"),
                "gone": (1, "72h"),
                "upstream_failure": (10, "6h"),
                "network": (10, "12h"),
                "parse_error": (5, "24h"),
            },
            same={
                "overloaded": "upstream_failure",
                "not_supported": "upstream_failure",
                "timeout": "network",
                "cut_short": "network",
                "bad_answer": "parse_error",
            },
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cooldown) and (self.rests, self.same) == (other.rests, other.same)

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.rests.items())), tuple(sorted(self.same.items()))))

    def __repr__(self) -> str:
        return f"Cooldown({dict(self.rests)!r}, same={dict(self.same)!r})"


def _rest(code: str, row: object) -> tuple[int, float]:
    if not isinstance(row, tuple) or len(row) != 2:
        raise ValueError(
            f"Cooldown[{code!r}]: {row!r} is not allowed; give (failures in a row, rest), as in (3, '48h')"
        )
    failures, rest = row
    field = f"Cooldown[{code!r}]"
    return whole(failures, field=field), seconds(rest, field=field, minimum=0.001)


AUTO = "auto"
# Seconds that a probe may take before another one is allowed.
PROBE_TIME = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownState:
    """The run of failures of one key, and its cooldown."""

    failing_code: str | None = None
    failing_count: int = 0
    disabled_at: float | None = None
    until: float | None = None  # while disabled, None: only an operator ends it
    reason: str | None = None
    by: str | None = None
    probing_until: float | None = None

    @property
    def disabled(self) -> bool:
        return self.disabled_at is not None

    def over(self, now: float) -> bool:
        """Whether the cooldown has passed, so that one call may test the key."""
        return self.until is not None and now >= self.until

    def admits(self, now: float) -> bool:
        """See the function `admits`. Applications that store the cooldowns of their keys use the methods."""
        return admits(self, now)

    def after_success(self, now: float) -> tuple[CooldownState, CooldownChange]:
        return record_success(self, now)

    def after_fault(self, policy: Cooldown, fault: Fault, now: float) -> tuple[CooldownState, CooldownChange]:
        return record_failure(self, policy, fault, now)


class CooldownChange(StrEnum):
    NONE = "none"
    DISABLED = "disabled"
    ENABLED = "enabled"


FRESH = CooldownState()


def admits(state: CooldownState, now: float) -> bool:
    """Whether a call may go: not disabled, or the cooldown has passed and no other probe is in progress."""
    if not state.disabled:
        return True
    return state.over(now) and (state.probing_until is None or now >= state.probing_until)


def reserve_probe(state: CooldownState, until: float) -> CooldownState:
    """Reserves the one probe of the cooldown until *until*."""
    return replace(state, probing_until=until)


def release_probe(state: CooldownState) -> CooldownState:
    """Releases the probe: its call proved nothing."""
    return replace(state, probing_until=None) if state.probing_until is not None else state


def record_success(state: CooldownState, now: float) -> tuple[CooldownState, CooldownChange]:
    """Ends the run, and the cooldown if its time has passed. A late success does not end an ordered cooldown."""
    if state.disabled and not state.over(now):
        return replace(state, failing_code=None, failing_count=0), CooldownChange.NONE
    return FRESH, CooldownChange.ENABLED if state.disabled else CooldownChange.NONE


def record_failure(
    state: CooldownState, policy: Cooldown, fault: Fault, now: float
) -> tuple[CooldownState, CooldownChange]:
    """Records one more failure.

    Throttling, cancellation and local faults neither count nor end a run. Another code starts a new run. A call that
    fails during the cooldown was admitted before it, and belongs to the run that caused it.
    """
    if fault.reason in (Reason.THROTTLED, Reason.CANCELLED) or fault.reach is Reach.SELF:
        return release_probe(state), CooldownChange.NONE
    if state.disabled and not state.over(now):
        return state, CooldownChange.NONE
    code = policy.counted(fault.code)
    run = state.failing_count + 1 if state.failing_code == code else 1
    counted = replace(state, failing_code=code, failing_count=run, probing_until=None)
    row = policy.rests.get(code)
    if row is None:
        return counted, CooldownChange.NONE
    times, length = row
    if state.disabled or run >= times:  # a failed probe needs no further failures
        return replace(counted, disabled_at=now, until=now + length, reason=code, by=AUTO), CooldownChange.DISABLED
    return counted, CooldownChange.NONE


def disable(state: CooldownState, *, until: float | None, by: str, reason: str, now: float) -> CooldownState:
    """Disables the key by an operator's order, or for a reason other than failures."""
    return replace(state, disabled_at=now, until=until, by=by, reason=reason, probing_until=None)
