"""The decorator: a function of the user's, behind a target."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast

from tidegate.core.retry import Retry
from tidegate.face import behind_breaker
from tidegate.face.signatures import Asked, Fixed, KeyOf, is_async
from tidegate.runtime.admission import Admission
from tidegate.runtime.attempts import Attempts, How
from tidegate.runtime.caller import Caller
from tidegate.runtime.calling import acall, afailed, call, failed

P = ParamSpec("P")
R = TypeVar("R")


def guard(caller: Caller, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry) -> Callable[P, R]:
    """*fn* behind the gates of *caller*; it raises its own exceptions, or Held when the call was not made.

    While nothing at all is wrong with the target, a call costs a few tests and no allocation.
    """
    breaker = behind_breaker.breaker_before(caller, operation)
    if breaker is not None:
        return behind_breaker.guard(caller, breaker, fn, key_of, operation, retry)
    if is_async(fn):
        return cast("Callable[P, R]", _guard_async(caller, fn, key_of, operation, retry))
    # Any: a type checker would take what they say before the call for true after it.
    keys, link = cast("tuple[Any, Any]", (caller.keys, caller.link))
    asked = isinstance(key_of, Asked)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        which = Fixed(key_of(args, kwargs)) if asked else key_of
        if not keys.calm or link.armed:
            return call(Attempts(caller, How(which(args, kwargs), operation, retry)), fn, args, kwargs)
        clears = keys.clears
        try:
            result = fn(*args, **kwargs)
        except Exception as error:  # whatever it is gets a verdict
            how = How(which(args, kwargs), operation, retry)
            attempts = Attempts(caller, how, Admission(how.key, operation, clears=clears))
            if not failed(attempts, error):
                raise
            first: Exception | None = error
        else:
            caller.worked = True
            if not keys.calm or link.armed:  # something went wrong meanwhile, and wants to hear of it
                caller.succeed(Admission(which(args, kwargs), operation, clears=clears))
            return result
        try:
            return call(attempts, fn, args, kwargs, first)
        finally:
            first = None  # its traceback holds this frame: a cycle that only the collector would end

    return guarded


def _guard_async(
    caller: Caller, fn: Callable[P, Awaitable[R]], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, Awaitable[R]]:
    keys, link = cast("tuple[Any, Any]", (caller.keys, caller.link))
    asked = isinstance(key_of, Asked)

    @functools.wraps(fn)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        which = Fixed(key_of(args, kwargs)) if asked else key_of
        if not keys.calm or link.armed:
            return await acall(Attempts(caller, How(which(args, kwargs), operation, retry)), fn, args, kwargs)
        clears = keys.clears
        try:
            result = await fn(*args, **kwargs)
        except Exception as error:  # whatever it is gets a verdict
            how = How(which(args, kwargs), operation, retry)
            attempts = Attempts(caller, how, Admission(how.key, operation, clears=clears))
            if not await afailed(attempts, error):
                raise
            first: Exception | None = error
        else:
            caller.worked = True
            if not keys.calm or link.armed:
                caller.succeed(Admission(which(args, kwargs), operation, clears=clears))
            return result
        try:
            return await acall(attempts, fn, args, kwargs, first)
        finally:
            first = None

    return guarded
