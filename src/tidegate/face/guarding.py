"""The decorator: a function of the user's, behind a target."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast

from tidegate.core.retry import Retry
from tidegate.face import behind_breaker
from tidegate.face.signatures import CallableKey, Fixed, KeyOf, is_async_function
from tidegate.runtime.admission import Admission
from tidegate.runtime.attempts import CallAttempts, CallSpec
from tidegate.runtime.caller import CallPipeline
from tidegate.runtime.calling import acall, afailed, call, failed

P = ParamSpec("P")
R = TypeVar("R")


def guard(pipeline: CallPipeline, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry) -> Callable[P, R]:
    """*fn* behind the gates of *caller*; it raises its own exceptions, or Held when the call was not made.

    While nothing at all is wrong with the target, a call costs a few tests and no allocation.
    """
    breaker = behind_breaker.breaker_before(pipeline, operation)
    if breaker is not None:
        return behind_breaker.guard_with_breaker(pipeline, breaker, fn, key_of, operation, retry)
    if is_async_function(fn):
        return cast("Callable[P, R]", _guard_async(pipeline, fn, key_of, operation, retry))
    # Any: a type checker would take what they say before the call for true after it.
    keys, link = cast("tuple[Any, Any]", (pipeline.keys, pipeline.network_guard))
    asked = isinstance(key_of, CallableKey)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        which = Fixed(key_of(args, kwargs)) if asked else key_of
        if not keys.is_idle or link.armed:
            return call(CallAttempts(pipeline, CallSpec(which(args, kwargs), operation, retry)), fn, args, kwargs)
        clears = keys.clears
        try:
            result = fn(*args, **kwargs)
        except Exception as error:  # whatever it is gets a verdict
            how = CallSpec(which(args, kwargs), operation, retry)
            attempts = CallAttempts(pipeline, how, Admission(how.key, operation, clears=clears))
            if not failed(attempts, error):
                raise
            first: Exception | None = error
        else:
            pipeline.worked = True
            if not keys.is_idle or link.armed:  # something went wrong meanwhile, and wants to hear of it
                pipeline.succeed(Admission(which(args, kwargs), operation, clears=clears))
            return result
        try:
            return call(attempts, fn, args, kwargs, first)
        finally:
            first = None  # its traceback holds this frame: a cycle that only the collector would end

    return guarded


def _guard_async(
    pipeline: CallPipeline, fn: Callable[P, Awaitable[R]], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, Awaitable[R]]:
    keys, link = cast("tuple[Any, Any]", (pipeline.keys, pipeline.network_guard))
    asked = isinstance(key_of, CallableKey)

    @functools.wraps(fn)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        which = Fixed(key_of(args, kwargs)) if asked else key_of
        if not keys.is_idle or link.armed:
            return await acall(
                CallAttempts(pipeline, CallSpec(which(args, kwargs), operation, retry)), fn, args, kwargs
            )
        clears = keys.clears
        try:
            result = await fn(*args, **kwargs)
        except Exception as error:  # whatever it is gets a verdict
            how = CallSpec(which(args, kwargs), operation, retry)
            attempts = CallAttempts(pipeline, how, Admission(how.key, operation, clears=clears))
            if not await afailed(attempts, error):
                raise
            first: Exception | None = error
        else:
            pipeline.worked = True
            if not keys.is_idle or link.armed:
                pipeline.succeed(Admission(which(args, kwargs), operation, clears=clears))
            return result
        try:
            return await acall(attempts, fn, args, kwargs, first)
        finally:
            first = None

    return guarded
