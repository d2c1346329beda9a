"""The two shells around `CallAttempts`: one guarded call, with its short inline retries, in either colour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType
from typing import Any, TypeVar

from tidegate.errors import Held
from tidegate.machine.colours import WrongFunctionKind, check_awaitable, refuse
from tidegate.runtime.admission import Admission
from tidegate.runtime.attempts import CallAttempts, raise_again
from tidegate.runtime.probing import aconfirm_by_probe, aprobe_breaker, confirm_by_probe, probe_breaker, within

R = TypeVar("R")


def call(
    attempts: CallAttempts, fn: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any],
    before: BaseException | None = None, *, plain: bool = False,
) -> R:  # fmt: skip
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
    attempts: CallAttempts, fn: Callable[..., Awaitable[R]], args: tuple[Any, ...], kwargs: Mapping[str, Any],
    before: BaseException | None = None,
) -> R:  # fmt: skip
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
