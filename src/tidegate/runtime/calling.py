"""The two shells around a `Caller`: one call, with its short inline retries, in either colour."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from tidegate.core.backoff import Backoff
from tidegate.core.fault import Fault, Reason
from tidegate.core.policy import Confirm
from tidegate.errors import Held
from tidegate.machine.breaker import Breaker
from tidegate.runtime.caller import Admission, Caller

R = TypeVar("R")
_log = logging.getLogger("tidegate.target")

# Inline retries are for hiccups: a longer wait is the business of the gate, not of a sleeping caller.
INLINE = Backoff(0.1, cap=2.0, factor=2, jitter=0.5)
_LONGEST_INLINE = 3.0


@dataclass(frozen=True, slots=True)
class How:
    """Where a call belongs, and how often it may be repeated at once."""

    key: Hashable = None
    operation: str | None = None
    retry: int = 0


def mark(error: BaseException, fault: Fault) -> None:
    """Leaves the verdict on the exception, for `fault_of`; an exception that takes no attributes goes without."""
    try:
        error.__tidegate_fault__ = fault  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        _log.debug("fault_not_kept type=%s", type(error).__name__)


class Attempts:
    """The state of one guarded call over its attempts: decides whether to go again, and records how it ended."""

    __slots__ = ("_caller", "_deadline", "_how", "_tries", "call")

    def __init__(self, caller: Caller, how: How) -> None:
        self._caller = caller
        self._how = how
        self._tries = 0
        self.call: Admission | None = None
        allowed = caller.policy.deadline
        self._deadline = None if allowed is None else caller.clock.monotonic() + allowed

    def left(self) -> float | None:
        """Seconds until the deadline of all the attempts together."""
        return None if self._deadline is None else self._deadline - self._caller.clock.monotonic()

    def admit(self) -> Admission:
        self.call = self._caller.admit(self._how.key, self._how.operation)
        return self.call

    def succeeded(self) -> None:
        if self.call is not None:
            self._caller.succeed(self.call)

    def again(self, fault: Fault | None, what: object) -> float | None:
        """Seconds until the next attempt; None when this was the last one, which is then on record."""
        call = self.call
        if call is None:
            return None
        if fault is None:
            self._caller.succeed(call)  # a good answer inside an exception
            return None
        own = self._caller.settle(call, fault, what)
        wait = None if own else self._pause(fault)
        if wait is None:
            self._caller.record(call, fault, own=own)
        self._tries += 1
        return wait

    def shut(self, fault: Fault) -> None:
        """The gate shut between two attempts: the failure before it is what happened."""
        if self.call is not None:
            self._caller.record(self.call, fault, own=False)

    def _pause(self, fault: Fault) -> float | None:
        if self._tries >= self._how.retry or fault.fatal or fault.reason is Reason.CANCELLED:
            return None
        wait = max(INLINE.delay(self._tries, self._caller.roll()), fault.retry_after or 0.0)
        if wait > _LONGEST_INLINE:
            return None
        if self._deadline is not None and self._caller.clock.monotonic() + wait >= self._deadline:
            return None
        return wait


def call(
    caller: Caller, how: How, fn: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any],
    first: tuple[Admission, Exception] | None = None,
) -> R:  # fmt: skip
    """`fn(*args, **kwargs)` behind the gates; *first* is an attempt that the hot path has already made."""
    attempts = Attempts(caller, how)
    failed: Exception | None = None
    fault: Fault | None = None
    while True:
        if first is not None:
            attempts.call, failed = first
            first = None
        else:
            try:
                _probe(caller, how.operation)
                wait = attempts.admit().wait
            except Held:
                if failed is None or fault is None:
                    raise
                attempts.shut(fault)
                raise failed from failed.__cause__  # what happened, not that we may not go again
            if wait:
                caller.clock.sleep(wait)
            try:
                result = fn(*args, **kwargs)
            except Exception as error:
                failed = error
            except BaseException as error:
                attempts.again(_verdict(caller, attempts, error), error)
                raise
            else:
                attempts.succeeded()
                return result
        fault = _verdict(caller, attempts, failed)
        if fault is not None:
            mark(failed, fault)
        pause = attempts.again(fault, failed)
        if pause is None:
            try:
                raise failed
            finally:
                del failed  # its traceback holds this frame: a cycle that only the collector would end
        caller.clock.sleep(pause)


async def acall(
    caller: Caller, how: How, fn: Callable[..., Awaitable[R]], args: tuple[Any, ...], kwargs: Mapping[str, Any],
    first: tuple[Admission, Exception] | None = None,
) -> R:  # fmt: skip
    """`await fn(*args, **kwargs)` behind the gates, within the deadline of the target."""
    attempts = Attempts(caller, how)
    failed: Exception | None = None
    fault: Fault | None = None
    while True:
        if first is not None:
            attempts.call, failed = first
            first = None
        else:
            try:
                await _aprobe(caller, how.operation)
                wait = attempts.admit().wait
            except Held:
                if failed is None or fault is None:
                    raise
                attempts.shut(fault)
                raise failed from failed.__cause__  # what happened, not that we may not go again
            try:
                if wait:
                    await caller.clock.asleep(wait)
                result = await _within(attempts.left(), fn, args, kwargs)
            except Exception as error:
                failed = error
            except BaseException as error:
                attempts.again((await _averdict(caller, attempts, error)), error)
                raise
            else:
                attempts.succeeded()
                return result
        fault = await _averdict(caller, attempts, failed)
        if fault is not None:
            mark(failed, fault)
        pause = attempts.again(fault, failed)
        if pause is None:
            try:
                raise failed
            finally:
                del failed  # its traceback holds this frame: a cycle that only the collector would end
        await caller.clock.asleep(pause)


async def _within(
    deadline: float | None, fn: Callable[..., Awaitable[R]], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> R:
    if deadline is None:
        return await fn(*args, **kwargs)
    import asyncio

    async with asyncio.timeout(deadline):
        return await fn(*args, **kwargs)


def _verdict(caller: Caller, attempts: Attempts, error: BaseException) -> Fault | None:
    if attempts.call is None:
        return None
    fault, doubted = caller.judge(attempts.call, error)
    if doubted is None or fault is None:
        return fault
    return caller.probed(doubted, fault, _asked(doubted, attempts.call.key))


async def _averdict(caller: Caller, attempts: Attempts, error: BaseException) -> Fault | None:
    if attempts.call is None:
        return None
    fault, doubted = caller.judge(attempts.call, error)
    if doubted is None or fault is None:
        return fault
    return caller.probed(doubted, fault, await _aasked(doubted, attempts.call.key))


def _asked(doubted: Confirm, key: Hashable) -> BaseException | None:
    """What the probe of a doubtful verdict raised."""
    try:
        answer = doubted.probe(key) if doubted.probe is not None else None
        if inspect.isawaitable(answer):
            _refuse(answer, "Confirm.probe")
    except Exception as error:
        return error
    return None


async def _aasked(doubted: Confirm, key: Hashable) -> BaseException | None:
    try:
        answer = doubted.probe(key) if doubted.probe is not None else None
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        return error
    return None


def _probe(caller: Caller, operation: str | None) -> None:
    breaker, probe = caller.probe_due(operation), caller.policy.probe
    if breaker is None or probe is None:
        return
    try:
        answer = probe()
        if inspect.isawaitable(answer):
            _refuse(answer, "probe")
    except Exception as error:
        _failed_probe(breaker, error)
    else:
        breaker.half_open()


async def _aprobe(caller: Caller, operation: str | None) -> None:
    breaker, probe = caller.probe_due(operation), caller.policy.probe
    if breaker is None or probe is None:
        return
    try:
        answer = probe()
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        _failed_probe(breaker, error)
    else:
        breaker.half_open()


def _failed_probe(breaker: Breaker, error: Exception) -> None:
    _log.info("probe_failed name=%s error=%s", breaker.name, type(error).__name__)


def _refuse(answer: object, name: str) -> NoReturn:
    close = getattr(answer, "close", None)
    if close is not None:
        close()  # a coroutine that is never awaited would warn
    raise TypeError(f"{name} is async def, but the guarded call is not")
