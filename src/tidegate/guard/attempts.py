"""Guarded calls over their attempts: the state of a call, its probes, and the drivers for sync and async functions."""

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
from tidegate.guard.key_health import THROTTLE, Admission
from tidegate.guard.pipeline import CANCELLED, CallPipeline

# -- state of a call ------------------------------------------------------------------------------------------------

_log = logging.getLogger("tidegate.target")
_MARGIN = 0.001  # seconds: a sleep may end a little early


@dataclass(frozen=True, slots=True)
class CallSpec:
    """The key and operation of a call, and its retry policy."""

    key: Hashable = None
    operation: str | None = None
    retry: Retry = ONCE


class CallAttempts:
    """Decides whether to retry, and records one outcome for all attempts of a call."""

    __slots__ = ("_deadline", "_owed", "_tries", "call", "pipeline", "spec", "pause")

    def __init__(self, pipeline: CallPipeline, spec: CallSpec, call: Admission | None = None) -> None:
        allowed = pipeline.policy.deadline
        self.pipeline = pipeline
        self.spec = spec
        self.call = call  # the attempt in progress
        self.pause = 0.0  # seconds until the next attempt
        self._tries = 0
        self._owed: tuple[Admission, Fault] | None = None  # settled, and recorded only if no other attempt follows
        self._deadline = math.inf if allowed is None else pipeline.clock.monotonic() + allowed

    def left(self) -> float:
        """Seconds until the deadline of all attempts together."""
        return self._deadline - self.pipeline.clock.monotonic()

    def admit(self) -> Admission | Held:
        """Admits the next attempt, or returns the reason."""
        admitted = self.pipeline.admit(self.spec.key, self.spec.operation, self.left())
        if not isinstance(admitted, Held):
            self.call = admitted
        return admitted

    def succeeded(self) -> None:
        if self.call is not None:
            self.pipeline.succeed(self.call)
        self.call = self._owed = None

    def failed(self, what: object, fault: Fault | None, *, may_repeat: bool = True) -> bool:
        """Returns whether to retry after `pause`. If not, the outcome is recorded.

        *what* is an exception or the evidence of a response. Without *may_repeat* this was the last attempt.
        """
        call, self.call = self.call, None
        if call is None:
            return False
        if fault is None:
            self._owed = None
            self.pipeline.succeed(call)  # a good response inside an exception
            return False
        mark(what, fault)
        own = self.pipeline.settle(call, fault, what)
        pause = None if own or not may_repeat else self._pause(call, fault)
        if pause is not None and self.pipeline.holds_throttled(fault):
            # Recorded now, so that other calls wait too. The retry goes when the hold ends.
            self._owed = None
            self.pipeline.record(call, fault, own=False)
            self.pause = self.pipeline.held_for(call) + pause + _MARGIN
            self._tries += 1
            return self.pause <= min(self.spec.retry.longest, self.left())
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
        """Records an attempt that was aborted, and a failure that no other attempt followed."""
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
        roll, minimum = self.pipeline.roll(), fault.retry_after or 0.0
        if self.pipeline.holds_throttled(fault):
            minimum = 0.0  # the hold says how long
        elif not minimum and fault.reason is Reason.THROTTLED:
            minimum = THROTTLE.delay(self._tries, roll)
        pause = self.spec.retry.pause(self._tries + 1, roll, minimum)
        return None if pause is None or pause > self.left() else pause


def mark(what: object, fault: Fault) -> None:
    """Attaches the verdict to an exception or a response, for `fault_of`, if it accepts attributes."""
    if isinstance(what, Evidence):
        what = what.response
    if what is None:
        return
    try:
        what.__tidegate_fault__ = fault  # type: ignore[attr-defined]
    except Exception:  # a third-party class may raise anything; the caller still gets its own exception
        _log.debug("fault_not_kept type=%s", type(what).__name__)


def raise_again(error: BaseException) -> NoReturn:
    """Raises the exception of an earlier attempt with the traceback of the user's code."""
    context, trace = error.__context__, error.__traceback__
    try:
        # The first entry is the current frame, which the raise adds again.
        raise error.with_traceback(None if trace is None else trace.tb_next)
    finally:
        error.__context__ = context
        del error, context, trace  # breaks a reference cycle: the traceback holds this frame


# -- probes ---------------------------------------------------------------------------------------------------------

R = TypeVar("R")


def probe_breaker(pipeline: CallPipeline, key: Hashable, operation: str | None) -> None:
    """Runs the health probe if one is due. If it succeeds, the open breaker goes half-open."""
    breaker, probe = pipeline.probe_due(key, operation), pipeline.policy.probe
    if breaker is not None and probe is not None:
        _opened(breaker, _asked(probe, "probe"))


async def aprobe_breaker(pipeline: CallPipeline, key: Hashable, operation: str | None, left: float = math.inf) -> None:
    """The async form of `probe_breaker`. The probe fails at the deadline, or when the next one is due."""
    breaker, probe = pipeline.probe_due(key, operation), pipeline.policy.probe
    if breaker is not None and probe is not None:
        _opened(breaker, await _aasked(probe, min(left, pipeline.policy.probe_every)))


def confirm_by_probe(pipeline: CallPipeline, call: Admission, what: object) -> Fault | None:
    """Classifies an outcome. Runs the probe of the verdict if it has one."""
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
    """Awaits *made* for up to *left* seconds. Then cancels it and raises TimeoutError."""
    if left == math.inf:
        return await made
    import asyncio

    async with asyncio.timeout(left):
        return await made


def _asked(probe: Callable[[], Any], name: str) -> Exception | None:
    """Returns what the probe raised."""
    try:
        response = probe()
        if inspect.isawaitable(response):
            _refuse(response, name)
    except Exception as error:
        return error
    return None


async def _aasked(probe: Callable[[], Any], left: float) -> Exception | None:
    try:
        response = probe()
        if inspect.isawaitable(response):
            await within(left, response)
    except Exception as error:
        return error
    return None


def _opened(breaker: Breaker, error: Exception | None) -> None:
    if error is None:
        breaker.half_open()
    elif is_bug(error):
        # Such a probe never succeeds, and only a probe ends the open state: an operator must fix it.
        _log.error("probe_failed name=%s error=%s", breaker.name, redact(f"{type(error).__name__}: {error}"))
    else:
        _log.info("probe_failed name=%s error=%s", breaker.name, type(error).__name__)


def _refuse(response: object, name: str) -> NoReturn:
    close = getattr(response, "close", None)
    if close is not None:
        close()  # avoids the warning about a coroutine that was never awaited
    raise TypeError(f"{name} is async def, but the guarded call is not; give a plain `def`, or guard an async one")


# -- drivers --------------------------------------------------------------------------------------------------------


def call(
    attempts: CallAttempts,
    fn: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: Mapping[str, object],
    before: BaseException | None = None,
    *,
    plain: bool = False,
) -> R:
    """Makes the guarded call `fn(*args, **kwargs)`. *before* is the exception of an attempt to retry.

    With *plain*, a coroutine as the result raises: none of its code has run.
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
                    raise_again(before)  # the failure, not the hold of its retry
                raise entered
            try:
                if entered.wait:
                    caller.clock.sleep(entered.wait)
                result = fn(*args, **kwargs)
                if plain and type(result) is CoroutineType:
                    refuse(result, "target")
            except WrongFunctionKind:
                raise  # says nothing about the service: `close` releases the attempt
            except BaseException as error:
                if not failed(attempts, error):
                    raise
                before = error
            else:
                attempts.succeeded()
                return result
    finally:
        attempts.close()
        del before, entered  # breaks a reference cycle: the traceback holds this frame


async def acall(
    attempts: CallAttempts,
    fn: Callable[..., Awaitable[R]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, object],
    before: BaseException | None = None,
) -> R:
    """Makes the guarded call `await fn(*args, **kwargs)`, within the deadline of the target."""
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
    """Returns whether to retry after *error*. If not, the outcome is recorded."""
    if attempts.call is None:
        return False
    try:
        return attempts.failed(error, confirm_by_probe(attempts.pipeline, attempts.call, error))
    except BaseException:  # the probe that confirms the verdict was aborted
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
