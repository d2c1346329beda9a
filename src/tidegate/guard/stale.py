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

# -- cache ----------------------------------------------------------------------------------------------------------

T = TypeVar("T")
CacheKey = tuple[Hashable, Hashable]  # a key, and the function with its arguments


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A value, whether it is stale, and its age in seconds since it was fetched."""

    value: T
    stale: bool
    age: float


class StaleCache:
    """The last good values per key, function and arguments. Above the limit, the oldest are evicted."""

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
            entry = self._values.get(entry_key)
        return None if entry is None else Answer(entry[0], stale=True, age=max(0.0, now - entry[1]))

    def forget(self, key: Hashable) -> None:
        """Drops all values of a key: after a reconnect, another account may have other values."""
        with self._lock:
            for entry_key in [entry_key for entry_key in self._values if entry_key[0] == key]:
                del self._values[entry_key]


def cache_key(key: Hashable, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, object]) -> CacheKey:
    """Returns the identity of a call. TypeError if an argument is not hashable."""
    named = tuple(sorted(kwargs.items()))
    # 1, 1.0 and True are equal, but not the same argument.
    place = (key, (fn, args, named, tuple(map(type, args)), tuple(type(value) for _, value in named)))
    try:
        hash(place)
    except TypeError as error:
        raise TypeError(f"stale answers need hashable arguments: {error}") from error
    return place


# -- guarded calls --------------------------------------------------------------------------------------------------

P = ParamSpec("P")
R = TypeVar("R")


def guard_stale(
    pipeline: CallPipeline, cache: StaleCache, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, R]:
    """Guards *fn* like `guard`, but returns a stale value if there is one.

    Calls with unhashable arguments have none.
    """
    if is_async_function(fn):

        @functools.wraps(fn)
        async def aguarded(*args: P.args, **kwargs: P.kwargs) -> Any:
            spec = CallSpec(key_of(args, kwargs), operation, retry)
            try:
                hash((args, tuple(kwargs.values())))
            except TypeError:
                return await acall(CallAttempts(pipeline, spec), fn, args, kwargs)
            return (await acall_stale(pipeline, cache, spec, fn, args, kwargs)).value

        return cast("Callable[P, R]", aguarded)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        spec = CallSpec(key_of(args, kwargs), operation, retry)
        try:
            hash((args, tuple(kwargs.values())))
        except TypeError:
            return call(CallAttempts(pipeline, spec), fn, args, kwargs)
        return call_stale(pipeline, cache, spec, fn, args, kwargs).value

    return guarded


def call_stale(
    pipeline: CallPipeline,
    cache: StaleCache,
    spec: CallSpec,
    fn: Callable[..., R],
    args: tuple[Any, ...],
    kwargs: dict[str, object],
    *,
    plain: bool = False,
) -> Answer[R]:
    """Returns a fresh value, or the last good one if the call is held or fails with a retriable fault."""
    entry_key = cache_key(spec.key, fn, args, kwargs)
    try:
        value = call(CallAttempts(pipeline, spec), fn, args, kwargs, plain=plain)
    except Exception as error:
        old = _old(pipeline, cache, entry_key, error)
        if old is None:
            raise
        return old
    return _fresh(pipeline, cache, entry_key, value)


async def acall_stale(
    pipeline: CallPipeline,
    cache: StaleCache,
    spec: CallSpec,
    fn: Callable[..., Awaitable[R]],
    args: tuple[Any, ...],
    kwargs: dict[str, object],
) -> Answer[R]:
    entry_key = cache_key(spec.key, fn, args, kwargs)
    try:
        value = await acall(CallAttempts(pipeline, spec), fn, args, kwargs)
    except Exception as error:
        old = _old(pipeline, cache, entry_key, error)
        if old is None:
            raise
        return old
    return _fresh(pipeline, cache, entry_key, value)


def _fresh(pipeline: CallPipeline, cache: StaleCache, entry_key: CacheKey, value: R) -> Answer[R]:
    cache.put(entry_key, value, pipeline.clock.monotonic())
    return Answer(value, stale=False, age=0.0)


def _old(pipeline: CallPipeline, cache: StaleCache, entry_key: CacheKey, error: Exception) -> Answer[Any] | None:
    """Returns the stale value if the call was held or failed with a retriable fault."""
    fault: Fault | None = getattr(error, "__tidegate_fault__", None)
    if isinstance(error, Held) or (fault is not None and fault.retriable and not pipeline.passes(fault)):
        return cache.get(entry_key, pipeline.clock.monotonic())
    return None
