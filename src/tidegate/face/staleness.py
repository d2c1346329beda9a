"""Guarded calls for which an old answer may stand in."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast

from tidegate.core.fault import Fault
from tidegate.core.retry import Retry
from tidegate.errors import Held
from tidegate.face.signatures import KeyOf, is_async_function
from tidegate.runtime.attempts import CallAttempts, CallSpec
from tidegate.runtime.caller import CallPipeline
from tidegate.runtime.calling import acall, call
from tidegate.runtime.stale import Answer, CacheKey, StaleCache, cache_key

P = ParamSpec("P")
R = TypeVar("R")


def guard_stale(
    pipeline: CallPipeline, cache: StaleCache, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, R]:
    """As `guard`, but an old answer stands in where there is one. Arguments without a hash go without."""
    if is_async_function(fn):

        @functools.wraps(fn)
        async def aguarded(*args: P.args, **kwargs: P.kwargs) -> Any:
            how = CallSpec(key_of(args, kwargs), operation, retry)
            try:
                hash((args, tuple(kwargs.values())))
            except TypeError:
                return await acall(CallAttempts(pipeline, how), fn, args, kwargs)
            return (await acall_stale(pipeline, cache, how, fn, args, kwargs)).value

        return cast("Callable[P, R]", aguarded)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        how = CallSpec(key_of(args, kwargs), operation, retry)
        try:
            hash((args, tuple(kwargs.values())))
        except TypeError:
            return call(CallAttempts(pipeline, how), fn, args, kwargs)
        return call_stale(pipeline, cache, how, fn, args, kwargs).value

    return guarded


def call_stale(
    pipeline: CallPipeline,
    cache: StaleCache,
    spec: CallSpec,
    fn: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    plain: bool = False,
) -> Answer[R]:
    """A fresh answer, or the last good one with its age when the call may not be made or fails in passing."""
    place = cache_key(spec.key, fn, args, kwargs)
    try:
        value = call(CallAttempts(pipeline, spec), fn, args, kwargs, plain=plain)
    except Exception as error:
        old = _old(pipeline, cache, place, error)
        if old is None:
            raise
        return old
    return _fresh(pipeline, cache, place, value)


async def acall_stale(
    pipeline: CallPipeline,
    cache: StaleCache,
    spec: CallSpec,
    fn: Callable[..., Awaitable[R]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Answer[R]:
    place = cache_key(spec.key, fn, args, kwargs)
    try:
        value = await acall(CallAttempts(pipeline, spec), fn, args, kwargs)
    except Exception as error:
        old = _old(pipeline, cache, place, error)
        if old is None:
            raise
        return old
    return _fresh(pipeline, cache, place, value)


def _fresh(pipeline: CallPipeline, cache: StaleCache, entry_key: CacheKey, value: R) -> Answer[R]:
    cache.put(entry_key, value, pipeline.clock.monotonic())
    return Answer(value, stale=False, age=0.0)


def _old(pipeline: CallPipeline, cache: StaleCache, entry_key: CacheKey, error: Exception) -> Answer[Any] | None:
    """What may stand in: the call was held, or failed in a way that may pass."""
    fault: Fault | None = getattr(error, "__tidegate_fault__", None)
    if isinstance(error, Held) or (fault is not None and fault.retriable and not pipeline.passes(fault)):
        return cache.get(entry_key, pipeline.clock.monotonic())
    return None
