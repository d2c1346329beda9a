"""Cooldown: a key that keeps failing in the same way rests, then gets one probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tidegate.durations import Duration, seconds
from tidegate.faults.fault import Fault, Reach, Reason
from tidegate.validation import whole


class Cooldown:
    """After how many failures of one code in a row a key is disabled, and for how long.

        Cooldown({"not_found": (3, "48h"), "gone": (1, "72h")})

    *same* names codes that are counted as another one: with {"timeout": "network"} both make one run.
    """

    __slots__ = ("rests", "same")

    def __init__(self, rests: Mapping[str, tuple[int, Duration]], *, same: Mapping[str, str] | None = None) -> None:
        if not rests:
            raise ValueError("Cooldown: give at least one code")
        self.rests: Mapping[str, tuple[int, float]] = {code: _rest(code, row) for code, row in rests.items()}
        self.same: Mapping[str, str] = dict(same or {})
        for code, counted in self.same.items():
            if code in self.rests or counted not in self.rests:
                raise ValueError(
                    f"Cooldown.same: {code!r} as {counted!r} is not allowed; give it as a code with a rest"
                )

    def counted(self, code: str) -> str:
        """The code under which a failure is counted."""
        return self.same.get(code, code)

    def governs(self, code: str) -> bool:
        """Whether failures of this code end in a rest."""
        return self.counted(code) in self.rests

    @classmethod
    def feeds(cls) -> Cooldown:
        """The numbers of the feed poller, which knows one type for every 5xx and one for every kind of lost network."""
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
    field = f"Cooldown[{code!r}]"
    return whole(row[0], field=field), seconds(row[1], field=field, minimum=0.001)


AUTO = "auto"
# How long a probe may take before another one is let through.
PROBE_TIME = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownState:
    """The run of failures of one key, and whether it is disabled because of it."""

    failing_code: str | None = None
    failing_count: int = 0
    disabled_at: float | None = None
    until: float | None = None  # None while disabled: only a person ends it
    reason: str | None = None
    by: str | None = None
    probing_until: float | None = None

    @property
    def disabled(self) -> bool:
        return self.disabled_at is not None

    def over(self, now: float) -> bool:
        """Whether the time of the rest has passed, so that one call may prove that it is well."""
        return self.until is not None and now >= self.until

    def admits(self, now: float) -> bool:
        """See `admits`. The methods are for applications, which keep the rests of their keys in tables of their own."""
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
    """Whether a call may go: not disabled, or the rest is over and no other probe is under way."""
    if not state.disabled:
        return True
    return state.over(now) and (state.probing_until is None or now >= state.probing_until)


def reserve_probe(state: CooldownState, until: float) -> CooldownState:
    """The rest with its one probe given out until then."""
    return replace(state, probing_until=until)


def release_probe(state: CooldownState) -> CooldownState:
    """The rest with its probe free again: the call proved nothing."""
    return replace(state, probing_until=None) if state.probing_until is not None else state


def record_success(state: CooldownState, now: float) -> tuple[CooldownState, CooldownChange]:
    """A success ends the run, and the rest if its time has passed: a late answer does not undo what was ordered."""
    if state.disabled and not state.over(now):
        return replace(state, failing_code=None, failing_count=0), CooldownChange.NONE
    return FRESH, CooldownChange.ENABLED if state.disabled else CooldownChange.NONE


def record_failure(
    state: CooldownState, policy: Cooldown, fault: Fault, now: float
) -> tuple[CooldownState, CooldownChange]:
    """One more failure.

    Throttling, cancelling and our own faults neither count nor break a run; another code starts a new one. What fails
    while the rest lasts was let through before it, and is part of what led to it.
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
    if state.disabled or run >= times:  # on probation, one failure is enough
        return replace(counted, disabled_at=now, until=now + length, reason=code, by=AUTO), CooldownChange.DISABLED
    return counted, CooldownChange.NONE


def disable(state: CooldownState, *, until: float | None, by: str, reason: str, now: float) -> CooldownState:
    """Disabled by a person, or for a reason that is no failure."""
    return replace(state, disabled_at=now, until=until, by=by, reason=reason, probing_until=None)
