"""The values of a job: states, new and claimed jobs, outcomes and events."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from tidegate.validation import did_you_mean

DEFAULT_ATTEMPTS = 10
DEFAULT_CRASHES = 3  # worker crashes while a job ran alone that make it fail
NO_ATTEMPT_LEFT = "The work stopped before it was finished, and no attempt is left."


class JobState(StrEnum):
    """The states of a job that users see."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class StoredState(StrEnum):
    """The states of a job in the database. A queued job is blocked by a parent, waits for a time, or is ready."""

    BLOCKED = "blocked"
    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def state(self) -> JobState:
        return (
            JobState.QUEUED
            if self in (StoredState.BLOCKED, StoredState.WAITING, StoredState.READY)
            else JobState(self.value)
        )


# The bits of the column `unique_while`.
_BITS = {
    JobState.QUEUED: 1,
    JobState.RUNNING: 2,
    JobState.DONE: 4,
    JobState.FAILED: 8,
    JobState.CANCELLED: 16,
}
_LIVE = _BITS[JobState.QUEUED] | _BITS[JobState.RUNNING]


def while_mask(states: AbstractSet[str]) -> int:
    """The bit mask of the states in which a job holds its unique key. Raises ValueError for an unknown state.

    The states must include queued and running. A job moves between the two, and a duplicate that was inserted while it
    did not hold the key would conflict with it.
    """
    try:
        mask = sum(_BITS[JobState(state)] for state in set(states))
    except ValueError:
        allowed = ", ".join(JobState)
        unknown = next(state for state in sorted(states) if state not in list(JobState))
        raise ValueError(
            f"while_: {sorted(states)!r} is not allowed; give some of: {allowed}{did_you_mean(unknown, list(JobState))}"
        ) from None
    if mask & _LIVE != _LIVE:
        raise ValueError(f"while_: {sorted(states)!r} is not allowed; 'queued' and 'running' must be among them")
    return mask


@dataclass(slots=True, kw_only=True)
class NewJob:
    """A job to insert. Treat it as immutable: a frozen dataclass takes three times as long to construct."""

    queue: str
    kind: str
    args: str  # JSON
    target: str = ""
    lane: str = ""
    priority: int = 0
    due_at: float | None = None
    due_in: float | None = None  # seconds after the insert, by the store's clock
    expires_in: float | None = None  # seconds after the insert, by the store's clock
    most_attempts: int = DEFAULT_ATTEMPTS
    unique_key: str | None = None
    unique_while: int = 0
    parents: tuple[int, ...] = ()
    cancellable: bool = True

    @property
    def alone(self) -> bool:
        """Whether the job cannot have a duplicate and has no parents."""
        return self.unique_key is None and not self.parents


class Claimed(NamedTuple):
    """A job under a lease."""

    id: int
    queue: str
    kind: str
    target: str
    lane: str
    priority: int
    attempt: int
    most_attempts: int
    deaths: int
    suspect: int
    fence: int
    lease_until: float
    claimed_at: float
    args: str
    saved: str | None
    parents: int
    children: int
    created_at: float
    expires_at: float | None
    last_code: str | None


class OutcomeKind(StrEnum):
    """How an attempt ended. The value is the kind of its event."""

    DONE = "done"
    AGAIN = "again"
    TRIAL = "trial"  # a trial call failed during an outage; it does not count as an attempt
    FAILED = "failed"
    CANCELLED = "cancelled"
    GIVEN_BACK = "given_back"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """What settling an attempt writes, under its lease."""

    job: Claimed
    ending: OutcomeKind
    stage: StoredState
    wait: float | None = None  # seconds until the job may be claimed again
    refund: bool = False  # nothing was sent, so the attempt does not count
    accepted: bool = False  # the target has accepted it: it counts against the capacity until the depth shows it
    keep_place: bool = False  # the target may have accepted it: it counts against the capacity for a while
    result: str | None = None  # JSON
    code: str | None = None
    status: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as stored. The fields are in the order of the columns.

    In the store, `args`, `result` and `saved` are JSON text. In a job that a `Queue` returns, they are plain values.
    """

    id: int
    queue: str
    kind: str
    target: str
    lane: str
    stage: str
    priority: int
    created_at: float
    due_at: float
    expires_at: float | None
    args: Any
    attempt: int
    most_attempts: int
    deaths: int
    fence: int
    lease_by: str | None
    lease_until: float | None
    claimed_at: float | None
    stop_asked: int
    saved: Any
    result: Any
    error_code: str | None
    error_message: str | None
    last_code: str | None
    last_status: int | None
    last_message: str | None
    last_at: float | None
    finished_at: float | None
    unique_key: str | None
    unique_while: int
    parents_open: int
    children: int
    manual_retries: int
    cancellable: int
    deaths_alone: int
    suspect: int

    @property
    def state(self) -> JobState:
        return StoredState(self.stage).state

    def read(self) -> Job:
        """A copy with the JSON fields decoded."""
        saved, result = (None if text is None else json.loads(text) for text in (self.saved, self.result))
        return replace(self, args=json.loads(self.args), saved=saved, result=result)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One entry in the history of a job."""

    kind: str
    at: float
    attempt: int
    fence: int
    code: str | None = None
    status: int | None = None
    message: str | None = None
    actor: str | None = None
    duration: float | None = None  # seconds, of an attempt

    def as_json(self) -> dict[str, object]:
        ms = None if self.duration is None else round(self.duration * 1000)
        return {
            "kind": self.kind,
            "at": self.at,
            "attempt": self.attempt,
            "fence": self.fence,
            "code": self.code,
            "status": self.status,
            "message": self.message,
            "actor": self.actor,
            "duration_ms": ms,
        }
