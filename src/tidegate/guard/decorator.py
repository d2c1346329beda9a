"""The guard decorator, with and without a breaker. This is the hot path."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast

from tidegate.errors import BreakerOpen
from tidegate.guard.attempts import CallAttempts, CallSpec, acall, afailed, call, failed
from tidegate.guard.backoff import Retry
from tidegate.guard.breaker import Breaker
from tidegate.guard.functions import CallableKey, Fixed, KeyOf, is_async_function
from tidegate.guard.hold import HoldReason
from tidegate.guard.key_health import Admission
from tidegate.guard.pipeline import CallPipeline

# -- with a breaker -------------------------------------------------------------------------------------------------

P = ParamSpec("P")
R = TypeVar("R")
_REASON = str(HoldReason.BREAKER)


def breaker_before(pipeline: CallPipeline, operation: str) -> Breaker | None:
    """Returns the breaker that the fast path may check first, or None if every call needs `CallAttempts`.

    The breaker of a key does not exist before that key fails. A health probe must run while the breaker is open. A
    breaker with its own clock cannot tell whether a key is held, which is checked before the breaker. A user's subclass
    may admit calls differently.
    """
    breaker = None if pipeline.key_breakers is not None else pipeline.breaker(operation, None)
    if type(breaker) is not Breaker or pipeline.policy.probe is not None:
        return None
    _, clock, *_ = breaker.hot()
    return breaker if clock == pipeline.clock.monotonic else None


def guard_with_breaker(
    pipeline: CallPipeline, breaker: Breaker, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, R]:
    """Guards *fn* with a *breaker* that is checked first.

    Both fast paths have the same result as `CallAttempts`. While the breaker is open, a rejection costs little more
    than its exception. While the target is healthy, a call costs little more than the breaker.
    """
    if is_async_function(fn):
        return cast("Callable[P, R]", _guard_async_with_breaker(pipeline, breaker, fn, key_of, operation, retry))
    # Any: type checkers would assume that the flags do not change during the call.
    keys, link = cast("tuple[Any, Any]", (pipeline.keys, pipeline.network_guard))
    states, clock, rejected, offset = breaker.hot()
    name, must_hear = pipeline.policy.name, pipeline.must_hear
    known, find = (key_of.key, None) if isinstance(key_of, Fixed) else (None, key_of)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        key = known if find is None else find(args, kwargs)
        epoch, since, until = states.window, states.since, states.until
        now = clock()  # read last, so that it is never before *since*
        if now < until and now >= keys.no_holds_after:
            next(rejected)
            raise BreakerOpen(name, key, _REASON, since, until, until - now, offset)
        if not (pipeline.breakers_only and keys.is_healthy) or link.armed or now >= epoch.ends:
            return call(CallAttempts(pipeline, CallSpec(key, operation, retry)), fn, args, kwargs)
        clears = keys.clears
        next(epoch.admitted)
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:  # every exception is classified, and the breaker must count it
            made = Admission(key, operation, clears=clears, ticket=epoch, began_at=now)
            attempts = CallAttempts(pipeline, CallSpec(key, operation, retry), made)
            if not failed(attempts, error):
                raise
            first: BaseException | None = error
        else:
            ok = epoch.ok
            ok()
            pipeline.worked = True
            # Something failed during the call and needs this success, or this is the first success.
            if not keys.is_healthy or link.armed or (must_hear is not None and must_hear(key, operation)):
                pipeline.succeed(Admission(key, operation, clears=clears))
            return result
        try:
            return call(attempts, fn, args, kwargs, first)
        finally:
            first = None  # breaks a reference cycle: the traceback holds this frame

    return guarded


def _guard_async_with_breaker(
    pipeline: CallPipeline, breaker: Breaker, fn: Callable[P, Awaitable[R]], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, Awaitable[R]]:
    keys, link = cast("tuple[Any, Any]", (pipeline.keys, pipeline.network_guard))
    states, clock, rejected, offset = breaker.hot()
    name, must_hear = pipeline.policy.name, pipeline.must_hear
    known, find = (key_of.key, None) if isinstance(key_of, Fixed) else (None, key_of)

    @functools.wraps(fn)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        key = known if find is None else find(args, kwargs)
        epoch, since, until = states.window, states.since, states.until
        now = clock()
        if now < until and now >= keys.no_holds_after:
            next(rejected)
            raise BreakerOpen(name, key, _REASON, since, until, until - now, offset)
        if not (pipeline.breakers_only and keys.is_healthy) or link.armed or now >= epoch.ends:
            return await acall(CallAttempts(pipeline, CallSpec(key, operation, retry)), fn, args, kwargs)
        clears = keys.clears
        next(epoch.admitted)
        try:
            result = await fn(*args, **kwargs)
        except BaseException as error:
            made = Admission(key, operation, clears=clears, ticket=epoch, began_at=now)
            attempts = CallAttempts(pipeline, CallSpec(key, operation, retry), made)
            if not await afailed(attempts, error):
                raise
            first: BaseException | None = error
        else:
            ok = epoch.ok
            ok()
            pipeline.worked = True
            if not keys.is_healthy or link.armed or (must_hear is not None and must_hear(key, operation)):
                pipeline.succeed(Admission(key, operation, clears=clears))
            return result
        try:
            return await acall(attempts, fn, args, kwargs, first)
        finally:
            first = None

    return guarded


# -- without a breaker ----------------------------------------------------------------------------------------------


def guard(pipeline: CallPipeline, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry) -> Callable[P, R]:
    """Guards *fn* with the gates of *pipeline*. Raises what *fn* raises, or Held if the call was not made.

    While the target is healthy, a call costs a few tests and no allocation.
    """
    breaker = breaker_before(pipeline, operation)
    if breaker is not None:
        return guard_with_breaker(pipeline, breaker, fn, key_of, operation, retry)
    if is_async_function(fn):
        return cast("Callable[P, R]", _guard_async(pipeline, fn, key_of, operation, retry))
    # Any: type checkers would assume that the flags do not change during the call.
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
        except Exception as error:  # every exception is classified
            how = CallSpec(which(args, kwargs), operation, retry)
            attempts = CallAttempts(pipeline, how, Admission(how.key, operation, clears=clears))
            if not failed(attempts, error):
                raise
            first: Exception | None = error
        else:
            pipeline.worked = True
            if not keys.is_idle or link.armed:  # something failed during the call and needs this success
                pipeline.succeed(Admission(which(args, kwargs), operation, clears=clears))
            return result
        try:
            return call(attempts, fn, args, kwargs, first)
        finally:
            first = None  # breaks a reference cycle: the traceback holds this frame

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
        except Exception as error:  # every exception is classified
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
