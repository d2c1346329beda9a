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

# The guard of a target with a breaker, where nothing but the breaker stands before a call most of the time.
#
# Two short ways that end as the long one through `CallAttempts` does: while the breaker is open, a rejection costs
# little more than its exception; while all is well, a call costs little more than the breaker.

P = ParamSpec("P")
R = TypeVar("R")
_REASON = str(HoldReason.BREAKER)


def breaker_before(pipeline: CallPipeline, operation: str) -> Breaker | None:
    """The breaker that may be asked first; None where the long way must be gone.

    The breaker of a key is made when that key fails. A health probe has to be asked while the breaker is open, a
    breaker with a clock of its own cannot tell whether a key is held, which comes before it, and one of a class of the
    user's may admit in a way of its own.
    """
    breaker = None if pipeline.key_breakers is not None else pipeline.breaker(operation, None)
    if type(breaker) is not Breaker or pipeline.policy.probe is not None:
        return None
    _, clock, *_ = breaker.hot()
    return breaker if clock == pipeline.clock.monotonic else None


def guard_with_breaker(
    pipeline: CallPipeline, breaker: Breaker, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, R]:
    """As `guarding.guard`, for a *breaker* that may be asked first."""
    if is_async_function(fn):
        return cast("Callable[P, R]", _guard_async_with_breaker(pipeline, breaker, fn, key_of, operation, retry))
    # Any: a type checker would take what they say before the call for true after it.
    keys, link = cast("tuple[Any, Any]", (pipeline.keys, pipeline.network_guard))
    states, clock, rejected, offset = breaker.hot()
    name, must_hear = pipeline.policy.name, pipeline.must_hear
    known, find = (key_of.key, None) if isinstance(key_of, Fixed) else (None, key_of)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        key = known if find is None else find(args, kwargs)
        epoch, since, until = states.window, states.since, states.until
        now = clock()  # after them, so that it is never before *since*
        if now < until and now >= keys.no_holds_after:
            next(rejected)
            raise BreakerOpen(name, key, _REASON, since, until, until - now, offset)
        if not (pipeline.breakers_only and keys.is_healthy) or link.armed or now >= epoch.ends:
            return call(CallAttempts(pipeline, CallSpec(key, operation, retry)), fn, args, kwargs)
        clears = keys.clears
        next(epoch.admitted)
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:  # whatever it is gets a verdict, and the breaker is told
            made = Admission(key, operation, clears=clears, ticket=epoch)
            attempts = CallAttempts(pipeline, CallSpec(key, operation, retry), made)
            if not failed(attempts, error):
                raise
            first: BaseException | None = error
        else:
            ok = epoch.ok
            ok()
            pipeline.worked = True
            # Something went wrong meanwhile and wants to hear of it, or nobody knows yet that it works.
            if not keys.is_healthy or link.armed or (must_hear is not None and must_hear(key, operation)):
                pipeline.succeed(Admission(key, operation, clears=clears))
            return result
        try:
            return call(attempts, fn, args, kwargs, first)
        finally:
            first = None  # its traceback holds this frame: a cycle that only the collector would end

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
            made = Admission(key, operation, clears=clears, ticket=epoch)
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


# The decorator: a function of the user's, behind a target.


def guard(pipeline: CallPipeline, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry) -> Callable[P, R]:
    """*fn* behind the gates of *caller*; it raises its own exceptions, or Held when the call was not made.

    While nothing at all is wrong with the target, a call costs a few tests and no allocation.
    """
    breaker = breaker_before(pipeline, operation)
    if breaker is not None:
        return guard_with_breaker(pipeline, breaker, fn, key_of, operation, retry)
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
