"""The exceptions of Tidegate.

    TidegateError
    ├── Held                    the call was not made, and nothing was sent
    │   ├── BreakerOpen         the breaker is open
    │   └── TooManyRequests     the breaker is half-open and its permits are taken
    ├── NotFound                the job, queue or target does not exist
    │   └── JobForgotten        the job was removed, or never existed
    ├── JobFailed               the job failed
    ├── JobCancelled            the job was cancelled
    ├── ResultMismatch          the stored result does not fit the annotation of the function
    ├── Rejected                the action is not possible in the current state
    ├── LeaseLost               another worker has the job; the result of this attempt is ignored
    └── StoreError              the database rejected the operation, or is not in the expected state
        ├── StoreBusy           locked or unreachable for the moment; a retry may succeed
        │   ├── StoreMissing    the database file was removed or replaced; put it back, or restore a copy
        │   └── StoreDamaged    the database file is damaged; restore a copy
        ├── StoreFull           its disk is full
        ├── UniqueTaken         another row has the value that must be unique
        └── SchemaTooNew        a newer version created the database

A guarded function raises its own exceptions unchanged. Misuse raises TypeError or ValueError at construction.
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
    "ResultMismatch",
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

_FIELDS = 6  # of a hold


class TidegateError(Exception):
    """Base class of all exceptions of Tidegate."""


class Held(TidegateError):
    """A gate holds the call: it was not made.

    Times are seconds: UNIX time, or the clock that was passed in. *until* is None if only an operator can end it.
    """

    # The fields are in `args`, in this order, without __init__: raising it is the hot path of an open breaker, and
    # plain values survive pickling. A breaker adds a function for the offset from its clock to wall-clock time. Few of
    # a million rejections are displayed, and only those call it.

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
        """The key of the target, or None if the whole target is held."""
        key: Hashable = self.args[1]
        return key

    @property
    def reason(self) -> str:
        """The reason of the gate: paused, fatal, cooldown, backoff, retry_after, breaker, rate, concurrency."""
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
        """Seconds from the raise until a retry makes sense."""
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
        # A virtual or monotonic clock gives numbers that are not dates, so they are not printed as dates.
        if self.until is None or not 1e9 < self.until < 4e9:
            return ""
        return f", at {datetime.fromtimestamp(self.until, UTC):%Y-%m-%d %H:%M:%S} UTC"


class BreakerOpen(Held):
    """The breaker is open. It rejects all calls until its time is over."""

    def _why(self) -> str:
        return "breaker open"


class TooManyRequests(Held):
    """The breaker is half-open, and all its permits are taken."""

    def _why(self) -> str:
        return "breaker half-open, all permits taken"


class NotFound(TidegateError, LookupError):
    """The job, queue or target does not exist."""


class JobForgotten(NotFound):
    """The job was removed by retention or by an operator, or never existed."""

    def __init__(self, job: int) -> None:
        super().__init__(job)
        self.job = job

    def __str__(self) -> str:
        return f"there is no job {self.job}: it was removed, or never existed"


class JobFailed(TidegateError):
    """The job whose result was requested failed. *fault* is the reason, as from `classify`."""

    # error_type, where: of an exception without a known meaning, its class and the last line of your code, such as
    # `mail.py:12`. Only the log has its text.

    def __init__(self, job: int, kind: str, fault: Fault, error_type: str = "", where: str = "") -> None:
        super().__init__(job, kind, fault, error_type, where)
        self.job = job
        self.kind = kind
        self.fault = fault
        self.error_type = error_type
        self.where = where

    @property
    def code(self) -> str:
        return self.fault.code

    def __str__(self) -> str:
        return f"job {self.job} ({self.kind}) failed with {self.fault.code}: {self.fault.message}"


class ResultMismatch(TidegateError, ValueError):
    """The stored result of a job does not fit the annotation of its function: another version has stored it."""

    def __init__(self, job: int, kind: str, expected: str, stored: str, problem: str) -> None:
        super().__init__(job, kind, expected, stored, problem)
        self.job = job
        self.kind = kind
        self.expected = expected
        self.stored = stored
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"the result of job {self.job} ({self.kind}) must be {self.expected}, got {self.stored}: {self.problem};"
            " read it with `job.get().result`, or annotate the function with a type that accepts it"
        )


class JobCancelled(TidegateError):
    """The job whose result was requested was cancelled."""

    def __init__(self, job: int) -> None:
        super().__init__(job)
        self.job = job

    def __str__(self) -> str:
        return f"job {self.job} was cancelled"


class Rejected(TidegateError):
    """The requested action is not possible in the current state. Nothing was changed."""


class LeaseLost(TidegateError):
    """The lease of a job is lost: it expired, another worker took it over, or an operator ended the job."""

    def __init__(self, job: int, fence: int) -> None:
        super().__init__(job, fence)
        self.job = job
        self.fence = fence

    def __str__(self) -> str:
        return f"the lease of job {self.job} (fence {self.fence}) is lost"


class StoreError(TidegateError):
    """The database rejected the operation, or is not in the expected state."""


class StoreBusy(StoreError):
    """Locked or unreachable for the moment. Nothing was written, or the outcome is unknown."""


class StoreMissing(StoreBusy):
    """The database file was removed, replaced, or belongs to another store. Nothing is accepted."""


class StoreDamaged(StoreBusy):
    """The database file is damaged. Nothing is accepted until a copy is restored."""


class StoreFull(StoreError):
    """The disk of the database is full. Nothing was written."""


class UniqueTaken(StoreError):
    """Another row has the value that must be unique."""


class SchemaTooNew(StoreError):
    """A newer version created the database."""


def _rounded(wait: float) -> str:
    """Formats *wait* in its usual unit, rounded up so that a retry after it is not too early."""
    for most, size, unit in ((1, 0.001, "ms"), (120, 1, "s"), (7200, 60, "min"), (259_200, 3600, "h")):
        if wait < most:
            return f"{math.ceil(round(wait / size, 3))} {unit}"
    return f"{math.ceil(wait / 86400)} days"
