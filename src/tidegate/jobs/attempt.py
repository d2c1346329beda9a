"""One attempt of a job, in this process or in a child process."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidegate.children.pool import ChildCall, ChildError, fault_in
from tidegate.children.protocol import Frame
from tidegate.errors import Held, LeaseLost, StoreError, StoreFull
from tidegate.faults.classification import classify
from tidegate.faults.codes import CORE
from tidegate.faults.fault import Fault, Reach, Reason
from tidegate.faults.origin import with_origin
from tidegate.faults.rule import Pack
from tidegate.guard.policy import TargetRules
from tidegate.jobs import outcome as job_outcome
from tidegate.jobs.context import Context, enter
from tidegate.jobs.fetch import FinishedAttempt
from tidegate.jobs.function import JobKind
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.jobs.key_gates import ClaimAdmission, TargetVerdict
from tidegate.jobs.outcome import Again, Done, Fail
from tidegate.jobs.threads import Executors
from tidegate.logs import logger
from tidegate.process import is_interruptible
from tidegate.serialization.arguments import Bound, Hook
from tidegate.store.base import BoundStatement

# -- child processes -------------------------------------------------------------------------------------------------

_BAD_ANSWER = CORE["child_died"].fault("child", detail="it answered with something else")


def call_of(kind: JobKind, args: str, context: Context) -> ChildCall:
    """The call that runs a job in a child process. It saves under the lease of *context*."""
    job: Claimed = context._job
    told = {"job": tuple(job), "store_id": context._store_id, "parents": dict(context.parent_results)}
    return ChildCall(kind.place, args, kind.limits, told, lambda saved: context._saver.save_now(job, saved))


def result_of(answer: Frame, job: Claimed | None = None) -> Any:
    """Returns or raises what the handler in the child did, as if it had run in this process."""
    fields, text = answer
    try:
        match fields.get("end"):
            case "done":
                writes = [BoundStatement(str(name), dict(params)) for name, params in fields["writes"]]
                result = json.loads(text)
                return Done(result, writes, unsent=bool(fields["unsent"])) if writes or fields["unsent"] else result
            case "again":
                raise Again(
                    float(fields["delay"]),
                    ladder=bool(fields["ladder"]),
                    keep_attempt=bool(fields["keep_attempt"]),
                    keep_place=bool(fields["keep_place"]),
                    code=fields["code"],
                    message=str(fields["message"]),
                    status=fields["status"],
                    fault=_fault(fields),
                )
            case "fail":
                raise Fail(
                    str(fields["code"]),
                    str(fields["message"]),
                    keep_place=bool(fields["keep_place"]),
                    status=fields["status"],
                    fault=_fault(fields),
                )
            case "held":
                raise Held(str(fields["target"]), None, str(fields["reason"]), 0.0, None, fields["retry_after"])
            case "lost" if job is not None:
                raise LeaseLost(job.id, job.fence)
            case "memory":
                raise ChildError(CORE["child_memory"].fault("child"))
            case "fault":
                raise ChildError(fault_in(fields["fault"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ChildError(_BAD_ANSWER) from error
    raise ChildError(_BAD_ANSWER)


def _fault(fields: dict[str, Any]) -> Fault | None:
    return None if fields["fault"] is None else fault_in(fields["fault"])


def is_current(task: asyncio.Task[None] | None) -> bool:
    """Whether *task* is running. It is not if Python closes its coroutine after the loop has ended."""
    try:
        return task is asyncio.current_task()
    except RuntimeError:
        return False


# -- attempts --------------------------------------------------------------------------------------------------------

_log = logger("tidegate.worker")

# Seconds before a job of an unknown kind is claimed again, first and at most. A newer program may know its kind.
_UNKNOWN_WAIT = (60.0, 3600.0)
ARGUMENTS_MISMATCH = "arguments_mismatch"
# Seconds before a held job runs again: if the hold has no end, and at least (so that a short hold does not spin).
_NO_END, _LEAST_HOLD = 60.0, 0.05


class Attempt:
    """A claimed job, until it is settled."""

    __slots__ = (
        "admission",
        "claimed",
        "context",
        "deadline",
        "ended",
        "job",
        "kind",
        "outer",
        "stop",
        "suspect",
        "task",
    )

    def __init__(
        self,
        job: Claimed,
        kind: JobKind | None,
        context: Context,
        admission: ClaimAdmission,
        claimed: float,
        lease: float,
    ) -> None:
        self.job = job
        self.kind = kind
        self.context = context
        self.admission = admission
        self.claimed = claimed  # monotonic, before the claim was sent
        self.deadline = claimed + lease  # monotonic; until then this worker certainly holds the lease
        self.ended = False  # its outcome is known but not settled
        self.stop: str | None = None  # why it was interrupted: "person", "shutdown", "fenced" or "lost"
        self.task: asyncio.Task[None] | None = None
        self.suspect = bool(job.suspect)  # it must run alone until it is cleared
        self.outer: Attempt | None = None  # the attempt whose handler started this worker

    @property
    def lost_code(self) -> str:
        return job_outcome.WORKER_LOST if self.kind is None else self.kind.lost_code

    @property
    def key(self) -> tuple[int, int]:
        """ID and fence. A job that was lost and claimed again is another attempt, and the old one may still run."""
        return self.job.id, self.job.fence

    def request_cancel(self) -> None:
        """Interrupts the attempt because a user cancelled the job."""
        if self.stop is None and not self.ended:
            self.interrupt("person")

    def interrupt(self, why: str) -> None:
        """Stops the handler: cancels an `async def`, kills a child process. A `def` must check `job.cancelled`."""
        gone = why in ("fenced", "lost")
        if self.stop is None or gone:
            self.stop = why
        self.context.cancelled = True
        self.context.lost = self.context.lost or gone
        if self.task is not None and self.kind is not None and self.kind.colour != "thread":
            self.task.cancel()


async def run(
    attempt: Attempt, executors: Executors, rules: TargetRules | None, roll: Callable[[], float]
) -> FinishedAttempt | None:
    """Runs the attempt. Returns None when its lease is lost and nothing is to be settled. *rules*: of its target."""
    job, kind = attempt.job, attempt.kind
    if kind is None:
        _log.error("unknown_kind queue=%s kind=%s job=%s", job.queue, job.kind, job.id)
        first, longest = _UNKNOWN_WAIT
        wait = min(first * 2 ** min(job.fence - 1, 16), longest)
        return FinishedAttempt(job_outcome.released(job, unsent=True, wait=wait, code="unexpected"))
    try:
        result = await _call(attempt, kind, executors)
    except BaseException as error:
        if isinstance(error, GeneratorExit) or (isinstance(error, KeyboardInterrupt) and is_interruptible()):
            raise
        return _raised(attempt, kind, _single(error), rules, roll())
    return _finished(attempt, kind, result)


def abandon(attempt: Attempt, rules: TargetRules | None, roll: float) -> FinishedAttempt | None:
    """The outcome of an attempt whose handler raised GeneratorExit; None if the loop has ended."""
    if attempt.kind is None or attempt.task is None or not is_current(attempt.task):
        return None
    return _raised(attempt, attempt.kind, GeneratorExit(), rules, roll)


async def _call(attempt: Attempt, kind: JobKind, executors: Executors) -> Any:
    parameters, context = kind.parameters, attempt.context
    try:
        bound = parameters.decode(attempt.job.args)
    except Exception as error:
        raise _Misfit(str(error)) from error
    if kind.verify is not None and context.retried:
        verified = await _verified(kind.verify, kind.verify_is_async, parameters.complete(bound), context, executors)
        if verified is not None:
            return verified
    enter(context)
    if kind.colour == "async":
        return await parameters.call(kind.handler, bound, context)
    if kind.colour == "process":
        return await executors.process(kind, attempt.job.args, context)
    return await executors.handler(lambda: _in_thread(kind, bound, context))


def _in_thread(kind: JobKind, bound: Bound, context: Context) -> Any:
    enter(context)
    try:
        return kind.parameters.call(kind.handler, bound, context)
    finally:
        enter(None)


async def _verified(verify: Hook, is_async: bool, bound: Bound, context: Context, executors: Executors) -> Any:
    """The result of an earlier attempt that the *verify* hook found, `Done()` if it has no value, or None."""
    if is_async:
        return await verify(bound, context)
    result = await executors.handler(lambda: verify(bound, context))
    return await result if inspect.isawaitable(result) else result


class _Misfit(Exception):
    """The stored arguments do not fit the function: another version of the program has stored them."""


def _single(error: BaseException) -> BaseException:
    """Unwraps an exception group with one exception. Of a group of holds, returns the longest."""
    while isinstance(error, BaseExceptionGroup):
        inner = error.exceptions
        if len(inner) > 1 and all(isinstance(hold, Held) for hold in inner):
            return max(inner, key=lambda hold: getattr(hold, "retry_after", None) or _NO_END)
        if len(inner) > 1:
            return error
        error = inner[0]
    return error


def _raised(
    attempt: Attempt, kind: JobKind, error: BaseException, rules: TargetRules | None, roll: float
) -> FinishedAttempt | None:
    job, pack = attempt.job, None if rules is None else rules.rule_pack
    outage = attempt.admission.outage
    match error:
        case Again():
            note = None if error.fault is None else _note(attempt, ok=_well(error.fault), fault=error.fault)
            return FinishedAttempt(job_outcome.again(job, error, kind.policy, roll, outage=outage), note)
        case Fail():
            known = pack.code_book.get(error.code) if pack is not None else CORE.get(error.code)
            message = error.message or ("" if known is None else known.message)
            failed = job_outcome.failed(job, error.code, message, error.status)
            failed = replace(failed, keep_place=error.keep_place)
            return FinishedAttempt(failed, _note(attempt, ok=_well(error.fault), fault=error.fault))
        case Held():
            wait = _NO_END if error.retry_after is None else max(error.retry_after, _LEAST_HOLD)
            return FinishedAttempt(job_outcome.released(job, unsent=True, wait=wait), held=True)
        case LeaseLost():
            attempt.interrupt("lost")
            return None
        case _Misfit():
            _log.error("arguments_mismatch kind=%s job=%s error=%s", job.kind, job.id, error)
            return FinishedAttempt(
                job_outcome.not_started(job, ARGUMENTS_MISMATCH, f"{CORE[ARGUMENTS_MISMATCH].message} {error}")
            )
        case asyncio.CancelledError() if attempt.stop is not None or _ended_from_outside():
            return _stopped(attempt)
    fault = error.fault if isinstance(error, ChildError) else with_origin(_fault_of(error, pack), error)
    if fault.reason is Reason.CANCELLED and attempt.stop is not None:
        return _stopped(attempt)  # the handler converted its cancellation into another exception
    outcome = job_outcome.after_fault(job, fault, kind.policy, roll, gated=rules is not None, outage=outage)
    return _faulted(attempt, outcome, fault, error)


def _ended_from_outside() -> bool:
    """Whether the task was cancelled from outside, for example by the end of the loop, and not by the handler."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0 and getattr(task, "owner_cancelled", True)


def _fault_of(error: BaseException, rule_pack: Pack | None) -> Fault:
    unexpected = CORE["unexpected"]
    match error:
        case StoreFull():
            return CORE["own_disk"].fault("handler", detail=str(error))
        case StoreError():
            return unexpected.fault("handler", reach=Reach.SELF, detail=f"{type(error).__name__}: {error}")
        case asyncio.CancelledError() | SystemExit() | KeyboardInterrupt() | GeneratorExit():
            detail = f"the handler ended itself with {type(error).__name__}"
            return unexpected.fault("handler", reach=Reach.SELF, detail=detail)
    if not isinstance(error, Exception) and not isinstance(error, BaseExceptionGroup):
        detail = f"the handler raised {type(error).__name__}, which is not an Exception"
        return unexpected.fault("handler", reach=Reach.SELF, detail=detail)
    try:
        fault = classify(error, rule_pack)
    except Exception:
        _log.exception("classifier_failed")  # in a rule of the user
        fault = None
    # None: the response was good, but the handler failed. That is a bug of the handler, retried as an unknown fault.
    return fault or unexpected.fault("handler", reach=Reach.SELF)


def _finished(attempt: Attempt, kind: JobKind, result: Any) -> FinishedAttempt | None:
    # Even if the lease may be lost: the store decides, and records a late result.
    writes: tuple[Any, ...] = ()
    unsent, after = False, None
    if isinstance(result, Done):
        writes, unsent, after = tuple(result.writes), result.unsent, result.after
        result = result.result
    note = _note(attempt, ok=None if unsent else True)
    try:
        dumped = kind.encode_result(result)
    except Exception as error:
        _log.exception("result_not_serialisable kind=%s job=%s", kind.name, attempt.job.id)
        message = f"The result cannot be stored: {error}"
        if isinstance(result, (Again, Fail)):
            message = f"The handler returned {type(result).__name__}; it must raise it."
        return FinishedAttempt(job_outcome.failed(attempt.job, "bad_answer", message), note)
    return FinishedAttempt(job_outcome.done(attempt.job, dumped, unsent=unsent), note, writes, after=after)


def _may_repeat_last(attempt: Attempt) -> bool:
    """Whether this is the last attempt, and the database being away must not fail the job."""
    counts = attempt.kind is not None and attempt.kind.policy.counts_every_attempt
    return not counts and attempt.job.attempt >= attempt.job.most_attempts > 1


def _stopped(attempt: Attempt) -> FinishedAttempt | None:
    match attempt.stop:
        case "person":
            return FinishedAttempt(job_outcome.cancelled(attempt.job))
        case "lost":
            return None
        case "fenced" if _may_repeat_last(attempt):
            return FinishedAttempt(replace(job_outcome.released(attempt.job, unsent=True), keep_place=True))
        case _:
            return FinishedAttempt(job_outcome.released(attempt.job, unsent=False, lost_code=attempt.lost_code))


def _faulted(attempt: Attempt, outcome: AttemptOutcome, fault: Fault, error: BaseException) -> FinishedAttempt:
    job = attempt.job
    about = (job.kind, job.id, job.attempt, str(outcome.ending), fault.code)
    text = "attempt_failed kind=%s job=%s attempt=%s then=%s code=%s"
    if fault.unclassified:
        _log.error(text, *about, exc_info=error)
    else:
        _log.log(fault.level.number, f"{text} error=%s", *about, fault.detail)
    return FinishedAttempt(outcome, _note(attempt, ok=_well(fault), fault=fault))


def _well(fault: Fault | None) -> bool | None:
    """Whether the fault shows a healthy target (True), a failing one (False) or neither (None)."""
    counts = None if fault is None else fault.counts_as_failure
    return None if counts is None else not counts


def _note(attempt: Attempt, *, ok: bool | None, fault: Fault | None = None) -> TargetVerdict | None:
    job = attempt.job
    return TargetVerdict(job.target, job.lane, attempt.admission.generation, ok, fault) if job.target else None


def parent_results(found: dict[int, str | None]) -> dict[int, Any]:
    return {parent: None if result is None else json.loads(result) for parent, result in found.items()}
