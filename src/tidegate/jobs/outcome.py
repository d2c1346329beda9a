"""Outcomes of attempts: what handlers return or raise, and the rules that turn it into a state. No I/O."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from tidegate.durations import Duration, seconds
from tidegate.faults.fault import Fault, Reach
from tidegate.guard.backoff import Backoff
from tidegate.jobs.job import DEFAULT_ATTEMPTS, NO_ATTEMPT_LEFT, AttemptOutcome, Claimed, OutcomeKind, StoredState
from tidegate.validation import JsonObject

MAX_RETRY_AFTER = 3600.0  # seconds; a longer Retry-After is cut to this
FREE_TRIALS = 86_400.0  # seconds of an outage in which a failed trial costs no attempt
WORKER_LOST = "worker_lost"

R_co = TypeVar("R_co", covariant=True)

JOB_BACKOFF = Backoff(5, cap=3600, jitter=0.25)
_MAX_CODE_LENGTH = 64  # characters


def _word(code: object, *, field: str) -> str:
    """Validates a code. Jobs are counted and searched by code, so it must be a word, not a sentence."""
    if not isinstance(code, str) or not 0 < len(code) <= _MAX_CODE_LENGTH or any(map(str.isspace, code)):
        raise ValueError(f"{field}: {code!r:.80} is no code; give a word, and the sentence as its message")
    return code


class Again(Exception):
    """Raised by a handler to run the job again after *delay*.

    *ladder*: wait by the kind's backoff instead. *keep_attempt*: nothing was sent, so the attempt does not count.
    *keep_place*: the target may have accepted the request, so it still counts against its capacity. *code*, *message*
    and *status* describe the attempt in the history. *fault*: the fault of the target, if there was one.
    """

    def __init__(
        self,
        delay: Duration = 0,
        *,
        ladder: bool = False,
        keep_attempt: bool = False,
        keep_place: bool = False,
        code: str | None = None,
        message: str = "",
        status: int | None = None,
        fault: Fault | None = None,
    ) -> None:
        self.delay = seconds(delay, field="delay")
        if code is not None:
            _word(code, field="Again.code")
        self.ladder = ladder
        self.keep_attempt = keep_attempt
        self.keep_place = keep_place
        self.code = code
        self.message = message
        self.status = status
        self.fault = fault
        super().__init__("again, by its ladder" if ladder else f"again in {self.delay:g} s")

    def __reduce__(self) -> tuple[Any, ...]:
        kept = ("ladder", "keep_attempt", "keep_place", "code", "message", "status", "fault")
        return _again, (self.delay, {name: getattr(self, name) for name in kept})


class Fail(Exception):
    """Raised by a handler to fail the job without a retry. *code* is a word for programs, *message* a line for users.

    *keep_place*: the target may have accepted the request, so it still counts against its capacity. *fault*: the fault
    of the target, if there was one.
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        keep_place: bool = False,
        status: int | None = None,
        fault: Fault | None = None,
    ) -> None:
        self.code = _word(code, field="Fail.code")
        self.message = message
        self.keep_place = keep_place
        self.status = status
        self.fault = fault
        super().__init__(message or code)

    def __reduce__(self) -> tuple[Any, ...]:
        kept = ("keep_place", "status", "fault")
        return _fail, (self.code, self.message, {name: getattr(self, name) for name in kept})


def _again(delay: float, kept: JsonObject) -> Again:
    return Again(delay, **kept)


def _fail(code: str, message: str, kept: JsonObject) -> Fail:
    return Fail(code, message, **kept)


@dataclass(frozen=True, slots=True)
class Done(Generic[R_co]):
    """Returned by a handler: its result, and the application's statements for the transaction that settles the job.

    *unsent*: the handler sent nothing, so the target's health and capacity do not change. *after*: called on the
    worker's loop after the commit, so it must not block. It is called once or not at all: not when the lease was lost,
    and not when the worker ends or loses the database in between.
    """

    result: R_co | None = None
    writes: tuple[Any, ...] | list[Any] = ()
    unsent: bool = False
    after: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        after: object = self.after
        if after is not None and (not callable(after) or inspect.iscoroutinefunction(after)):
            raise TypeError(f"Done.after: {after!r:.80} is no plain function; give a `def` without arguments")


def from_child(result: Any) -> Any:
    """Checks the result of a handler in a child process. Raises TypeError for `Done.after`, which cannot be sent."""
    if isinstance(result, Done) and result.after is not None:
        raise TypeError("Done.after: a child process never hears of the commit; give it in a job without `process`")
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class KindPolicy:
    """The retry policy of a kind."""

    attempts: int = DEFAULT_ATTEMPTS
    per_code: Mapping[str, int] = field(default_factory=dict)
    backoff: Backoff = JOB_BACKOFF
    max_retry_after: float = MAX_RETRY_AFTER
    free_trials: float = FREE_TRIALS

    @property
    def counts_every_attempt(self) -> bool:
        """Whether a job never runs more often than its attempts, not even after a crash or a trial."""
        return self.free_trials == 0

    def allows(self, job: Claimed, code: str) -> bool:
        """Whether the policy allows another attempt, within the limit that was stored with the job."""
        return job.attempt < min(job.most_attempts, self.attempts, self.per_code.get(code, self.attempts))

    def is_free(self, fault: Fault | None, outage: float | None) -> bool:
        """Whether an attempt with this fault of the target costs nothing: a trial during an *outage*, in seconds."""
        if outage is None or fault is None or fault.fatal or not fault.counts_as_failure:
            return False
        return outage < self.free_trials


def done(job: Claimed, result: str | None, *, unsent: bool = False) -> AttemptOutcome:
    return AttemptOutcome(job=job, ending=OutcomeKind.DONE, stage=StoredState.DONE, result=result, accepted=not unsent)


def cancelled(job: Claimed, *, unsent: bool = False) -> AttemptOutcome:
    """A user cancelled the running job. Unless nothing was sent, the target may have accepted the request."""
    return AttemptOutcome(job=job, ending=OutcomeKind.CANCELLED, stage=StoredState.CANCELLED, keep_place=not unsent)


def released(
    job: Claimed, *, unsent: bool, wait: float | None = None, code: str | None = None, lost_code: str = WORKER_LOST
) -> AttemptOutcome:
    """Returns the job to the queue. The attempt does not count if it is *unsent*; else the last attempt fails it."""
    if not unsent and job.attempt >= job.most_attempts:
        return replace(failed(job, lost_code, NO_ATTEMPT_LEFT), keep_place=True)
    stage = StoredState.WAITING if wait else StoredState.READY
    return AttemptOutcome(
        job=job,
        ending=OutcomeKind.GIVEN_BACK,
        stage=stage,
        wait=wait or None,
        refund=unsent,
        keep_place=not unsent,
        code=code,
    )


def again(
    job: Claimed, raised: Again, policy: KindPolicy, roll: float = 0.5, *, outage: float | None = None
) -> AttemptOutcome:
    """The outcome of a raised `Again`: another attempt, or a failure if none is left. *outage*: as in `after_fault`."""
    free = policy.is_free(raised.fault, outage)
    if not (raised.keep_attempt or free) and not policy.allows(job, raised.code or ""):
        text = raised.message or f"It asked for another attempt, and {job.attempt} are all it may have."
        return replace(failed(job, raised.code or "unexpected", text, raised.status), keep_place=raised.keep_place)
    wait = policy.backoff.delay(_failures(job), roll) if raised.ladder else raised.delay
    return AttemptOutcome(
        job=job,
        ending=OutcomeKind.TRIAL if free else OutcomeKind.AGAIN,
        stage=StoredState.WAITING if wait else StoredState.READY,
        wait=wait or None,
        refund=raised.keep_attempt,
        keep_place=raised.keep_place,
        code=raised.code,
        status=raised.status,
        message=raised.message or None,
    )


def failed(job: Claimed, code: str, message: str, status: int | None = None) -> AttemptOutcome:
    return AttemptOutcome(
        job=job, ending=OutcomeKind.FAILED, stage=StoredState.FAILED, code=code, message=message or code, status=status
    )


def not_started(job: Claimed, code: str, message: str) -> AttemptOutcome:
    """Fails a job whose handler did not start."""
    return AttemptOutcome(
        job=job, ending=OutcomeKind.FAILED, stage=StoredState.FAILED, refund=True, code=code, message=message or code
    )


def after_fault(
    job: Claimed, fault: Fault, policy: KindPolicy, roll: float, *, gated: bool = True, outage: float | None = None
) -> AttemptOutcome:
    """The outcome of an attempt that ended in *fault*: a retry, a failure, or a release until the target's gate opens.

    *gated*: whether this program still declares the target of the job. *outage*: the seconds since the breaker of its
    target opened, if the attempt was a trial of a service that had not responded since.
    """
    status = fault.status or None
    if job.target and gated and fault.fatal and fault.reach in (Reach.CREDENTIAL, Reach.TARGET):
        # The gate of its key is closed until an operator opens it. The job did not cause this, so it waits.
        return released(job, unsent=True, code=fault.code)
    free = policy.is_free(fault, outage)
    if fault.fatal or not (free or policy.allows(job, fault.code)):
        return failed(job, fault.code, fault.message, status)
    wait = max(policy.backoff.delay(_failures(job), roll), min(fault.retry_after or 0.0, policy.max_retry_after))
    return AttemptOutcome(
        job=job,
        ending=OutcomeKind.TRIAL if free else OutcomeKind.AGAIN,
        stage=StoredState.WAITING,
        wait=wait,
        code=fault.code,
        status=status,
        message=fault.message,
    )


def _failures(job: Claimed) -> int:
    """How many attempts failed before this one. Crashed attempts do not lengthen the backoff."""
    return max(0, job.attempt - job.deaths - 1)
