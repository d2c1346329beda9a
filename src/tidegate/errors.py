"""What Tidegate raises.

    TidegateError
    ├── Held                    the call was not made, and nothing was sent
    │   ├── BreakerOpen         the breaker is open
    │   └── TooManyRequests     the breaker is half-open and its permits are taken
    ├── NotFound                there is no such job, queue or target
    │   └── JobForgotten        the job whose result is asked for was removed, or never existed
    ├── JobFailed               the job whose result is asked for failed
    ├── JobCancelled            the job whose result is asked for was cancelled
    ├── Refused                 what a person asked for is not possible as things stand
    ├── LeaseLost               somebody else has the job now; what this attempt does counts no more
    └── StoreError              the database refused, or is not what it should be
        ├── StoreBusy           locked or unreachable for the moment; the same may succeed later
        │   ├── StoreMissing    the database file was removed or replaced; put it back, or restore a copy
        │   └── StoreDamaged    the database file is damaged; restore a copy
        ├── StoreFull           no room left on its disk
        ├── UniqueTaken         another row holds what must be unique
        └── SchemaTooNew        the database was made by a newer version

A guarded function raises its own exceptions untouched; misuse is TypeError or ValueError at construction.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.faults.fault import Fault

__all__ = [
    "BreakerOpen",
    "Held",
    "JobCancelled",
    "JobFailed",
    "JobForgotten",
    "LeaseLost",
    "NotFound",
    "Rejected",
    "SchemaTooNew",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreMissing",
    "TidegateError",
    "TooManyRequests",
    "UniqueTaken",
]

_FIELDS = 6  # of what says that a call is held


class TidegateError(Exception):
    """The base of every exception that Tidegate itself raises."""


class Held(TidegateError):
    """The gate is shut: the call was not made.

    Times are seconds: UNIX time, or the clock that was handed in. *until* is None when only a person can end it.
    """

    # The fields live in `args`, in this order, with no __init__: raising it is the hot path of an open breaker, and
    # plain values survive pickling. A breaker adds a function that says how far its clock is from the one that people
    # read: few of a million rejections are looked at, and only those ask it.

    def _fields(self) -> tuple[Any, ...]:
        fields = self.args
        if len(fields) > _FIELDS:
            target, key, reason, since, until, wait, offset = fields
            apart = offset()
            self.args = fields = (target, key, reason, since + apart, until + apart, wait)
        return fields

    @property
    def target(self) -> str:
        return str(self.args[0])

    @property
    def key(self) -> Hashable:
        """Which part of the target; None when the whole of it is held."""
        key: Hashable = self.args[1]
        return key

    @property
    def reason(self) -> str:
        """One of the gate's reasons: paused, fatal, cooldown, backoff, retry_after, breaker, rate, concurrency."""
        return str(self.args[2])

    @property
    def since(self) -> float:
        return float(self._fields()[3])

    @property
    def until(self) -> float | None:
        until = self._fields()[4]
        return None if until is None or until == math.inf else float(until)

    @property
    def retry_after(self) -> float | None:
        """Seconds from the moment it was raised until asking again makes sense."""
        wait = self.args[5]
        return None if wait is None or wait == math.inf else max(0.0, float(wait))

    def __reduce__(self) -> str | tuple[Any, ...]:
        self._fields()
        return super().__reduce__()

    def __repr__(self) -> str:
        self._fields()
        return super().__repr__()

    def __str__(self) -> str:
        who = self.target if self.key is None else f"{self.target} (key {self.key!r})"
        if self.retry_after is None:
            return f"{who} is held ({self._why()}): no time ends it, a person or a probe does"
        return f"{who} is held ({self._why()}): try again in {_rounded(self.retry_after)}{self._clock_time()}"

    def _why(self) -> str:
        return self.reason

    def _clock_time(self) -> str:
        # A virtual or monotonic clock gives numbers that are no dates; printing them as dates would lie.
        if self.until is None or not 1e9 < self.until < 4e9:
            return ""
        return f", at {datetime.fromtimestamp(self.until, UTC):%Y-%m-%d %H:%M:%S} UTC"


class BreakerOpen(Held):
    """The breaker is open; it rejects at once until its time is over."""

    def _why(self) -> str:
        return "breaker open"


class TooManyRequests(Held):
    """The breaker is half-open and has given out all its permits."""

    def _why(self) -> str:
        return "breaker half-open, all permits taken"


class NotFound(TidegateError, LookupError):
    """There is no such job, queue or target."""


class JobForgotten(NotFound):
    """The job whose result is asked for was removed, by retention or by a person, or never existed."""

    def __init__(self, job: int) -> None:
        super().__init__(job)
        self.job = job

    def __str__(self) -> str:
        return f"there is no job {self.job}: it was removed, or never existed"


class JobFailed(TidegateError):
    """The job whose result is asked for failed. *fault* says why, as `classify` would."""

    def __init__(self, job: int, kind: str, fault: Fault) -> None:
        super().__init__(job, kind, fault)
        self.job = job
        self.kind = kind
        self.fault = fault

    @property
    def code(self) -> str:
        return self.fault.code

    def __str__(self) -> str:
        return f"job {self.job} ({self.kind}) failed with {self.fault.code}: {self.fault.message}"


class JobCancelled(TidegateError):
    """The job whose result is asked for was cancelled."""

    def __init__(self, job: int) -> None:
        super().__init__(job)
        self.job = job

    def __str__(self) -> str:
        return f"job {self.job} was cancelled"


class Rejected(TidegateError):
    """What a person asked for is not possible as things stand; nothing was changed."""


class LeaseLost(TidegateError):
    """The lease of a job is gone: it ran out, was taken over, or the job was ended by a person."""

    def __init__(self, job: int, fence: int) -> None:
        super().__init__(job, fence)
        self.job = job
        self.fence = fence

    def __str__(self) -> str:
        return f"the lease of job {self.job} (fence {self.fence}) is lost"


class StoreError(TidegateError):
    """The database refused, or is not what it should be."""


class StoreBusy(StoreError):
    """Locked or unreachable for the moment; nothing was written, or nobody knows."""


class StoreMissing(StoreBusy):
    """The database file was removed or replaced, or is not the one that belongs here; nothing is accepted."""


class StoreDamaged(StoreBusy):
    """The database file is damaged; nothing is accepted until a copy is restored."""


class StoreFull(StoreError):
    """No room left on the disk of the database; nothing was written."""


class UniqueTaken(StoreError):
    """Another row holds what must be unique."""


class SchemaTooNew(StoreError):
    """The database was made by a newer version."""


def _rounded(wait: float) -> str:
    """*wait* in its usual unit, rounded up: who comes back then is not too early."""
    for most, size, unit in ((1, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min"), (259_200, 3600, "h")):
        if wait < most:
            return f"{math.ceil(round(wait / size, 3))} {unit}"
    return f"{math.ceil(wait / 86400)} days"
