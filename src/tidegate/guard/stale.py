"""Stale responses: a cache of the last good response per call, used while a target fails."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, cast

from tidegate.errors import Held
from tidegate.faults.fault import Fault
from tidegate.guard.attempts import CallAttempts, CallSpec, acall, call
from tidegate.guard.backoff import Retry
from tidegate.guard.functions import KeyOf, is_async_function
from tidegate.guard.pipeline import CallPipeline

# The last good answer of a call, for when there is no new one.

T = TypeVar("T")
CacheKey = tuple[Hashable, Hashable]  # a key, and what was asked


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A value, whether it is an old one, and how old: seconds since it was fetched."""

    value: T
    stale: bool
    age: float


class StaleCache:
    """The last good values per key, function and arguments; at most so many, the oldest go first."""

    __slots__ = ("_lock", "_limit", "_values")

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[CacheKey, tuple[Any, float]] = OrderedDict()

    def put(self, entry_key: CacheKey, value: object, now: float) -> None:
        with self._lock:
            self._values[entry_key] = (value, now)
            self._values.move_to_end(entry_key)
            if len(self._values) > self._limit:
                self._values.popitem(last=False)

    def get(self, entry_key: CacheKey, now: float) -> Answer[Any] | None:
        with self._lock:
            found = self._values.get(entry_key)
        return None if found is None else Answer(found[0], stale=True, age=max(0.0, now - found[1]))

    def forget(self, key: Hashable) -> None:
        """A reconnect: another account may have other answers."""
        with self._lock:
            for place in [place for place in self._values if place[0] == key]:
                del self._values[place]


def cache_key(key: Hashable, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CacheKey:
    """What tells one call from another; TypeError when an argument cannot be told apart by value."""
    named = tuple(sorted(kwargs.items()))
    # 1, 1.0 and True are equal, and not the same question.
    place = (key, (fn, args, named, tuple(map(type, args)), tuple(type(value) for _, value in named)))
    try:
        hash(place)
    except TypeError as error:
        raise TypeError(f"stale answers need hashable arguments: {error}") from error
    return place


# Guarded calls for which an old answer may stand in.

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
