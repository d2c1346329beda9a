"""Guarded calls over their attempts: the state, and the drivers for sync and async functions."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, NoReturn, TypeVar

from tidegate.errors import Held
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Fault, Reason
from tidegate.faults.introspection import is_bug
from tidegate.faults.redaction import redact
from tidegate.guard.backoff import ONCE, Retry
from tidegate.guard.breaker import Breaker
from tidegate.guard.functions import WrongFunctionKind, check_awaitable, refuse
from tidegate.guard.key_health import Admission
from tidegate.guard.pipeline import CANCELLED, CallPipeline

# The state of one guarded call over its attempts; the shells in `calling` do what it decides.

_log = logging.getLogger("tidegate.target")


@dataclass(frozen=True, slots=True)
class CallSpec:
    """Where a call belongs, and how often it is tried at once."""

    key: Hashable = None
    operation: str | None = None
    retry: Retry = ONCE


class CallAttempts:
    """Decides whether to go again, and records how it ended: one outcome for all attempts, whatever happens."""

    __slots__ = ("_deadline", "_owed", "_tries", "call", "pipeline", "spec", "pause")

    def __init__(self, pipeline: CallPipeline, spec: CallSpec, call: Admission | None = None) -> None:
        allowed = pipeline.policy.deadline
        self.pipeline = pipeline
        self.spec = spec
        self.call = call  # the one that is under way
        self.pause = 0.0  # seconds until the next one
        self._tries = 0
        self._owed: tuple[Admission, Fault] | None = None  # settled, and on record only if no other attempt follows
        self._deadline = math.inf if allowed is None else pipeline.clock.monotonic() + allowed

    def left(self) -> float:
        """Seconds until the deadline of all the attempts together."""
        return self._deadline - self.pipeline.clock.monotonic()

    def admit(self) -> Admission | Held:
        """The next attempt, which is under way now; or why it may not go."""
        found = self.pipeline.admit(self.spec.key, self.spec.operation, self.left())
        if not isinstance(found, Held):
            self.call = found
        return found

    def succeeded(self) -> None:
        if self.call is not None:
            self.pipeline.succeed(self.call)
        self.call = self._owed = None

    def failed(self, what: object, fault: Fault | None, *, may_repeat: bool = True) -> bool:
        """Whether to go again after `pause`; if not, the outcome is on record.

        *what* is an exception or the evidence of a response; without *may_repeat* this was the last attempt.
        """
        call, self.call = self.call, None
        if call is None:
            return False
        if fault is None:
            self._owed = None
            self.pipeline.succeed(call)  # a good answer inside an exception
            return False
        mark(what, fault)
        own = self.pipeline.settle(call, fault, what)
        pause = None if own or not may_repeat else self._pause(call, fault)
        if pause is not None:
            self._owed, self.pause = (call, fault), pause
            self._tries += 1
            return True
        self.pipeline.record(call, fault, own=own)
        if fault.reason is Reason.CANCELLED or self.pipeline.passes(fault):
            self.close()  # this attempt says nothing about the service, so the failure before it is the outcome
        self._owed = None
        return False

    def close(self) -> None:
        """Leaves nothing behind: of an attempt that was broken off, or of one that no other has followed."""
        call, self.call = self.call, None
        if call is not None:
            self.pipeline.record(call, CANCELLED, own=self.pipeline.settle(call, CANCELLED, None))
        if self._owed is not None:
            owed, self._owed = self._owed, None
            self.pipeline.record(*owed, own=False)

    def _pause(self, call: Admission, fault: Fault) -> float | None:
        if self.spec.retry is ONCE or fault.fatal or fault.reason is Reason.CANCELLED or self.pipeline.passes(fault):
            return None
        if math.isfinite(call.probe_until):
            return None  # a probe is one call
        pause = self.spec.retry.pause(self._tries + 1, self.pipeline.roll(), fault.retry_after or 0.0)
        return None if pause is None or pause > self.left() else pause


def mark(what: object, fault: Fault) -> None:
    """Leaves the verdict on an exception or an answer, for `fault_of`; one that takes no attributes goes without."""
    if isinstance(what, Evidence):
        what = what.response
    if what is None:
        return
    try:
        what.__tidegate_fault__ = fault  # type: ignore[attr-defined]
    except Exception:  # a stranger's class: whatever it says, the caller gets its own exception
        _log.debug("fault_not_kept type=%s", type(what).__name__)


def raise_again(error: BaseException) -> NoReturn:
    """Raises what an earlier attempt raised, as the user's code left it."""
    context, trace = error.__context__, error.__traceback__
    try:
        # The first entry is the frame that is about to be entered again.
        raise error.with_traceback(None if trace is None else trace.tb_next)
    finally:
        error.__context__ = context
        del error, context, trace  # a traceback holds this frame: a cycle that only the collector would end


# Probes, in both colours: of an open breaker, and of a verdict that is in doubt.

R = TypeVar("R")


def probe_breaker(pipeline: CallPipeline, key: Hashable, operation: str | None) -> None:
    """Asks the health probe, if one is due, whether an open breaker may go half-open."""
    breaker, probe = pipeline.probe_due(key, operation), pipeline.policy.probe
    if breaker is not None and probe is not None:
        _opened(breaker, _asked(probe, "probe"))


async def aprobe_breaker(pipeline: CallPipeline, key: Hashable, operation: str | None, left: float = math.inf) -> None:
    """As `knock`; a probe that takes until the next one is due, or to the deadline, has failed."""
    breaker, probe = pipeline.probe_due(key, operation), pipeline.policy.probe
    if breaker is not None and probe is not None:
        _opened(breaker, await _aasked(probe, min(left, pipeline.policy.probe_every)))


def confirm_by_probe(pipeline: CallPipeline, call: Admission, what: object) -> Fault | None:
    """What an outcome means, after the probe has been asked where there is one for it."""
    fault, doubted = pipeline.judge(call, what)
    if fault is None or doubted is None or doubted.probe is None:
        return fault
    probe, key = doubted.probe, call.key
    return pipeline.probed(doubted, fault, _asked(lambda: probe(key), "Confirm.probe"))


async def aconfirm_by_probe(
    pipeline: CallPipeline, call: Admission, what: object, left: float = math.inf
) -> Fault | None:
    fault, doubted = pipeline.judge(call, what)
    if fault is None or doubted is None or doubted.probe is None:
        return fault
    probe, key = doubted.probe, call.key
    return pipeline.probed(doubted, fault, await _aasked(lambda: probe(key), left))


async def within(left: float, made: Awaitable[R]) -> R:
    """What *made* gives, if it does within *left* seconds; else TimeoutError, and it is cancelled."""
    if left == math.inf:
        return await made
    import asyncio

    async with asyncio.timeout(left):
        return await made


def _asked(probe: Callable[[], Any], name: str) -> Exception | None:
    """What the probe raised."""
    try:
        answer = probe()
        if inspect.isawaitable(answer):
            _refuse(answer, name)
    except Exception as error:
        return error
    return None


async def _aasked(probe: Callable[[], Any], left: float) -> Exception | None:
    try:
        answer = probe()
        if inspect.isawaitable(answer):
            await within(left, answer)
    except Exception as error:
        return error
    return None


def _opened(breaker: Breaker, error: Exception | None) -> None:
    if error is None:
        breaker.half_open()
    elif is_bug(error):
        # It will never succeed, and only a probe ends the open state: a person must act.
        _log.error("probe_failed name=%s error=%s", breaker.name, redact(f"{type(error).__name__}: {error}"))
    else:
        _log.info("probe_failed name=%s error=%s", breaker.name, type(error).__name__)


def _refuse(answer: object, name: str) -> NoReturn:
    close = getattr(answer, "close", None)
    if close is not None:
        close()  # a coroutine that is never awaited would warn
    raise TypeError(f"{name} is async def, but the guarded call is not; give a plain `def`, or guard an async one")


# The two shells around `CallAttempts`: one guarded call, with its short inline retries, in either colour.


def call(
    attempts: CallAttempts,
    fn: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    before: BaseException | None = None,
    *,
    plain: bool = False,
) -> R:
    """`fn(*args, **kwargs)` behind the gates; *before* is what the attempt before raised, if it is to be repeated.

    With *plain* a coroutine is refused: nothing of its call has run.
    """
    caller, how = attempts.pipeline, attempts.spec
    entered: Admission | Held | None = None
    try:
        while True:
            if before is not None:
                caller.clock.sleep(attempts.pause)
            probe_breaker(caller, how.key, how.operation)
            entered = attempts.admit()
            if isinstance(entered, Held):
                if before is not None:
                    raise_again(before)  # what happened, not that we may not go again
                raise entered
            try:
                if entered.wait:
                    caller.clock.sleep(entered.wait)
                result = fn(*args, **kwargs)
                if plain and type(result) is CoroutineType:
                    refuse(result, "target")
            except WrongFunctionKind:
                raise  # no news of the service: what is under way is given back below
            except BaseException as error:
                if not failed(attempts, error):
                    raise
                before = error
            else:
                attempts.succeeded()
                return result
    finally:
        attempts.close()
        del before, entered  # a traceback holds this frame: a cycle that only the collector would end


async def acall(
    attempts: CallAttempts,
    fn: Callable[..., Awaitable[R]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    before: BaseException | None = None,
) -> R:
    """`await fn(*args, **kwargs)` behind the gates, within the deadline of the target."""
    caller, how = attempts.pipeline, attempts.spec
    entered: Admission | Held | None = None
    try:
        while True:
            if before is not None:
                await caller.clock.asleep(attempts.pause)
            await aprobe_breaker(caller, how.key, how.operation, attempts.left())
            entered = attempts.admit()
            if isinstance(entered, Held):
                if before is not None:
                    raise_again(before)
                raise entered
            try:
                if entered.wait:
                    await caller.clock.asleep(entered.wait)
                made = fn(*args, **kwargs)
                if type(made) is not CoroutineType:
                    check_awaitable(made, "target")
                result = await within(attempts.left(), made)
            except WrongFunctionKind:
                raise
            except BaseException as error:
                if not await afailed(attempts, error):
                    raise
                before = error
            else:
                attempts.succeeded()
                return result
    finally:
        attempts.close()
        del before, entered


def failed(attempts: CallAttempts, error: BaseException) -> bool:
    """Whether to go again after *error*; if not, the outcome is on record."""
    if attempts.call is None:
        return False
    try:
        return attempts.failed(error, confirm_by_probe(attempts.pipeline, attempts.call, error))
    except BaseException:  # the probe of a doubtful verdict was broken off
        attempts.close()
        raise


async def afailed(attempts: CallAttempts, error: BaseException) -> bool:
    if attempts.call is None:
        return False
    try:
        return attempts.failed(error, await aconfirm_by_probe(attempts.pipeline, attempts.call, error, attempts.left()))
    except BaseException:
        attempts.close()
        raise
