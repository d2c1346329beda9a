"""When a breaker trips and what counts as a failure: options and the user's rules, no state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.durations import Duration, seconds
from tidegate.guard.breaker_counts import Counts
from tidegate.logs import logger
from tidegate.validation import JsonObject, number, share, valid_name, whole

_log = logger("tidegate.breaker")

# Buckets of a sliding window. Its edge is coarse by up to a tenth of the window.
_BUCKETS = 10

_OPTIONAL = ("timeout", "window", "permit_timeout", "max_timeout")
_MAX_PERMIT_SECONDS = 60.0  # seconds
_DAY = 86_400.0

StateChange = Callable[[str, str, str], object]
Verdict = Callable[[BaseException], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """The options of a breaker. ValueError names the invalid field."""

    name: str
    max_requests: int = 3
    interval: Duration = 60
    timeout: Duration | None = 120
    min_requests: int = 10
    failure_ratio: float = 0.6
    consecutive: int | None = None
    window: Duration | None = None
    trip: Callable[[Counts], bool] | None = None
    on_state_change: StateChange | None = None
    counts_as_failure: Verdict | None = None
    permit_timeout: Duration | None = None
    max_timeout: Duration | None = None
    growth: float = 0.1

    def __post_init__(self) -> None:
        valid_name(self.name, field="name")
        whole(self.max_requests, field="max_requests")
        whole(self.min_requests, field="min_requests")
        if self.consecutive is not None:
            whole(self.consecutive, field="consecutive")
        share(self.failure_ratio, field="failure_ratio")
        number(self.growth, field="growth", minimum=0, maximum=1)
        for field, least in (
            ("interval", 0.0),
            ("timeout", 0.001),
            ("permit_timeout", 0.001),
            ("window", 0.01),
            ("max_timeout", 0.001),
        ):
            given: Duration | None = getattr(self, field)
            if given is not None or field not in _OPTIONAL:
                object.__setattr__(self, field, seconds(given, field=field, minimum=least))
        if self.max_timeout is not None:
            if self.timeout is None:
                raise ValueError("max_timeout: without a timeout only a probe ends the open state; leave it out")
            if seconds(self.max_timeout) < seconds(self.timeout):
                raise ValueError(f"max_timeout: {self.max_timeout:g} s is below the timeout of {self.timeout:g} s")
        for field in ("trip", "on_state_change", "counts_as_failure"):
            if not (getattr(self, field) is None or callable(getattr(self, field))):
                raise TypeError(f"{field}: {getattr(self, field)!r} cannot be called; give a function, or None")
        # Calling the class would construct an exception, which is true, so every error would count as a failure.
        if isinstance(self.counts_as_failure, type) and issubclass(self.counts_as_failure, BaseException):
            name = self.counts_as_failure.__name__
            raise TypeError(
                f"counts_as_failure: {name} is a kind of exception; give a function: lambda e: isinstance(e, {name})"
            )

    @property
    def open_for(self) -> float:
        """Seconds that the open state lasts at first. Infinite if only a probe ends it."""
        return math.inf if self.timeout is None else seconds(self.timeout)

    def open_after(self, outage: float) -> float:
        """Seconds that the open state lasts if the breaker has not been closed for *outage* seconds."""
        if self.max_timeout is None:
            return self.open_for
        return min(max(self.open_for, self.growth * outage), seconds(self.max_timeout))

    def permit_lasts(self, outage: float) -> float:
        """Seconds that a half-open permit is valid: the last open time, up to a minute."""
        if self.permit_timeout is not None:
            return seconds(self.permit_timeout)
        return min(_MAX_PERMIT_SECONDS, self.open_after(outage))

    @property
    def slice(self) -> float:
        """Seconds that one window of the closed state lasts. Infinite if the interval is 0."""
        if self.window is not None:
            return seconds(self.window) / _BUCKETS
        return seconds(self.interval) or math.inf

    @property
    def idle_after(self) -> float:
        """Seconds without a call after which counts and open time have expired, up to a day."""
        counted = self.slice if self.window is None else seconds(self.window)
        longest_open = self.open_for if self.max_timeout is None else seconds(self.max_timeout)
        return min(max(counted, longest_open), _DAY)

    @property
    def enough(self) -> int:
        """The fewest failures that can trip the ratio rule."""
        least = int(self.failure_ratio * self.min_requests)
        return least if least / self.min_requests >= self.failure_ratio else least + 1

    def too_long(self, run: int) -> bool:
        """Whether *run* consecutive failures trip the breaker."""
        return self.consecutive is not None and run >= self.consecutive

    def ready_to_trip(self, counts: Counts) -> bool:
        """Whether these counts trip the breaker."""
        return counts.requests >= self.min_requests and counts.failure_ratio >= self.failure_ratio

    def judge(self, error: BaseException) -> bool | None:
        """True: a failure. False: a success despite the error. None: neither."""
        if not isinstance(error, Exception):
            return None  # cancelled, interrupted or exiting: says nothing about the service
        if self.counts_as_failure is None:
            return True
        try:
            return self.counts_as_failure(error)
        except Exception:
            _log.exception("breaker_rule_raised name=%s rule=counts_as_failure", self.name)
            return True

    def custom_ready_to_trip(self, counts: Counts) -> bool:
        """Whether the user's rule trips the breaker. A rule that raises does not trip it."""
        try:
            return bool(self.trip is not None and self.trip(counts))
        except Exception:
            _log.exception("breaker_rule_raised name=%s rule=trip", self.name)
            return False

    def tell(self, old: str, new: str) -> None:
        """Logs a change of state and calls the user's callback. An exception of the callback is logged, not raised."""
        fields = {"name": self.name, "from": old, "to": new}
        extra = {"event": "breaker_state_changed", "fields": fields}
        _log.info("breaker_state_changed name=%s from=%s to=%s", self.name, old, new, extra=extra)
        if self.on_state_change is None:
            return
        try:
            self.on_state_change(self.name, old, new)
        except Exception:
            _log.exception("breaker_rule_raised name=%s rule=on_state_change", self.name)


# -- trip reasons ---------------------------------------------------------------------------------------------------


class OpenedBy(StrEnum):
    """The rule that opened a breaker in the store."""

    CONSECUTIVE = "run"  # consecutive failures
    RATIO = "ratio"  # failure ratio
    RULE = "rule"  # the user's rule
    HALF_OPEN = "trial"  # a trial call failed while it was half-open
    PROBE = "probe"  # a call failed, and then the health probe failed
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class TripReason:
    """Why a breaker opened. *run* counts consecutive failures. *requests* and *failures* are those of the interval."""

    rule: OpenedBy
    run: int = 0
    requests: int = 0
    failures: int = 0

    def dump(self) -> JsonObject:
        return {**asdict(self), "rule": str(self.rule)}

    @classmethod
    def load(cls, stored: JsonObject | None) -> TripReason | None:
        """Returns None for a rule that only a newer version knows."""
        if stored is None or stored.get("rule") not in _RULES:
            return None
        run, requests, failures = (int(stored.get(name, 0)) for name in ("run", "requests", "failures"))
        return cls(rule=OpenedBy(stored["rule"]), run=run, requests=requests, failures=failures)


_RULES = frozenset(map(str, OpenedBy))
