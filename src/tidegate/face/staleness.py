"""Guarded calls for which an old answer may stand in."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast

from tidegate.core.fault import Fault
from tidegate.core.retry import Retry
from tidegate.errors import Held
from tidegate.face.signatures import KeyOf, is_async
from tidegate.runtime.attempts import Attempts, How
from tidegate.runtime.caller import Caller
from tidegate.runtime.calling import acall, call
from tidegate.runtime.stale import Answer, Place, Shelf, place_of

P = ParamSpec("P")
R = TypeVar("R")


def guard_stale(
    caller: Caller, shelf: Shelf, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: Retry
) -> Callable[P, R]:
    """As `guard`, but an old answer stands in where there is one. Arguments without a hash go without."""
    if is_async(fn):

        @functools.wraps(fn)
        async def aguarded(*args: P.args, **kwargs: P.kwargs) -> Any:
            how = How(key_of(args, kwargs), operation, retry)
            try:
                hash((args, tuple(kwargs.values())))
            except TypeError:
                return await acall(Attempts(caller, how), fn, args, kwargs)
            return (await acall_stale(caller, shelf, how, fn, args, kwargs)).value

        return cast("Callable[P, R]", aguarded)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        how = How(key_of(args, kwargs), operation, retry)
        try:
            hash((args, tuple(kwargs.values())))
        except TypeError:
            return call(Attempts(caller, how), fn, args, kwargs)
        return call_stale(caller, shelf, how, fn, args, kwargs).value

    return guarded


def call_stale(
    caller: Caller, shelf: Shelf, how: How, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any],
    *, plain: bool = False,
) -> Answer[R]:  # fmt: skip
    """A fresh answer, or the last good one with its age when the call may not be made or fails in passing."""
    place = place_of(how.key, fn, args, kwargs)
    try:
        value = call(Attempts(caller, how), fn, args, kwargs, plain=plain)
    except Exception as error:
        old = _old(caller, shelf, place, error)
        if old is None:
            raise
        return old
    return _fresh(caller, shelf, place, value)


async def acall_stale(
    caller: Caller,
    shelf: Shelf,
    how: How,
    fn: Callable[..., Awaitable[R]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Answer[R]:
    place = place_of(how.key, fn, args, kwargs)
    try:
        value = await acall(Attempts(caller, how), fn, args, kwargs)
    except Exception as error:
        old = _old(caller, shelf, place, error)
        if old is None:
            raise
        return old
    return _fresh(caller, shelf, place, value)


def _fresh(caller: Caller, shelf: Shelf, place: Place, value: R) -> Answer[R]:
    shelf.put(place, value, caller.clock.monotonic())
    return Answer(value, stale=False, age=0.0)


def _old(caller: Caller, shelf: Shelf, place: Place, error: Exception) -> Answer[Any] | None:
    """What may stand in: the call was held, or failed in a way that may pass."""
    fault: Fault | None = getattr(error, "__tidegate_fault__", None)
    if isinstance(error, Held) or (fault is not None and fault.retriable and not caller.passes(fault)):
        return shelf.get(place, caller.clock.monotonic())
    return None
