"""The decorator: a function of the user's, behind a target."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, ParamSpec, TypeVar, cast

from tidegate.core.fault import Fault
from tidegate.errors import Held
from tidegate.runtime.caller import Admission, Caller
from tidegate.runtime.calling import How, acall, call
from tidegate.runtime.stale import Answer, Shelf, place_of

P = ParamSpec("P")
R = TypeVar("R")
KeyOf = Callable[[tuple[Any, ...], dict[str, Any]], Hashable]


def guard(caller: Caller, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: int) -> Callable[P, R]:
    """*fn* behind the gates of *caller*; it raises its own exceptions, or Held when the call was not made.

    While nothing at all is wrong with the target, a call costs two tests and no allocation.
    """
    if inspect.iscoroutinefunction(fn):
        return cast("Callable[P, R]", _guard_async(caller, fn, key_of, operation, retry))
    plain, states, keys, link = caller.plain, caller.keys.states, caller.keys, caller.link

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        first = None
        if plain and not states and not link.armed and keys.paused is None:
            clears = keys.clears
            try:
                result = fn(*args, **kwargs)
            except Exception as error:  # whatever it is gets a verdict, and is raised again
                first = (Admission(key_of(args, kwargs), operation, clears=clears), error)
            else:
                caller.worked = True
                return result
        how = How(key_of(args, kwargs), operation, retry)
        return call(caller, how, fn, args, kwargs, first)

    return guarded


def _guard_async(
    caller: Caller, fn: Callable[P, Awaitable[R]], key_of: KeyOf, operation: str, retry: int
) -> Callable[P, Awaitable[R]]:
    plain, states, keys, link = caller.plain, caller.keys.states, caller.keys, caller.link

    @functools.wraps(fn)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        first = None
        if plain and not states and not link.armed and keys.paused is None:
            clears = keys.clears
            try:
                result = await fn(*args, **kwargs)
            except Exception as error:  # whatever it is gets a verdict, and is raised again
                first = (Admission(key_of(args, kwargs), operation, clears=clears), error)
            else:
                caller.worked = True
                return result
        how = How(key_of(args, kwargs), operation, retry)
        return await acall(caller, how, fn, args, kwargs, first)

    return guarded


def guard_stale(
    caller: Caller, shelf: Shelf, fn: Callable[P, R], key_of: KeyOf, operation: str, retry: int
) -> Callable[P, R]:
    """As `guard`, but an old answer stands in where there is one."""
    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def aguarded(*args: P.args, **kwargs: P.kwargs) -> Any:
            how = How(key_of(args, kwargs), operation, retry)
            return (await acall_stale(caller, shelf, how, fn, args, kwargs)).value

        return cast("Callable[P, R]", aguarded)

    @functools.wraps(fn)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        how = How(key_of(args, kwargs), operation, retry)
        return call_stale(caller, shelf, how, fn, args, kwargs).value

    return guarded


def key_getter(fn: Callable[..., Any], key: str | Callable[..., Hashable] | None, otherwise: Hashable) -> KeyOf:
    """Finds the key among the arguments of a call: by a parameter's name, or by a function of all of them."""
    if key is None:
        return lambda args, kwargs: otherwise
    if callable(key):
        return lambda args, kwargs: key(*args, **kwargs)
    parameters = list(inspect.signature(fn).parameters.values())
    at = next((i for i, each in enumerate(parameters) if each.name == key), None)
    if at is None:
        raise TypeError(f"key: {getattr(fn, '__qualname__', fn)!r} has no parameter {key!r}")
    if parameters[at].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise TypeError(f"key: {key!r} takes any number of arguments; name a single parameter")
    default = None if parameters[at].default is inspect.Parameter.empty else parameters[at].default
    by_position = parameters[at].kind is not inspect.Parameter.KEYWORD_ONLY

    def found(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        if key in kwargs:
            return cast("Hashable", kwargs[key])
        return cast("Hashable", args[at] if by_position and at < len(args) else default)

    return found


def call_stale(
    caller: Caller, shelf: Shelf, how: How, fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Answer[R]:
    """A fresh answer, or the last good one with its age when the call may not be made or fails in passing."""
    place = place_of(fn, args, kwargs)
    try:
        value = call(caller, how, fn, args, kwargs)
    except Exception as error:
        old = shelf.get(place, caller.clock.monotonic()) if passing(error) else None
        if old is None:
            raise
        return old
    shelf.put(place, value, caller.clock.monotonic())
    return Answer(value, stale=False, age=0.0)


async def acall_stale(
    caller: Caller,
    shelf: Shelf,
    how: How,
    fn: Callable[..., Awaitable[R]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Answer[R]:
    place = place_of(fn, args, kwargs)
    try:
        value = await acall(caller, how, fn, args, kwargs)
    except Exception as error:
        old = shelf.get(place, caller.clock.monotonic()) if passing(error) else None
        if old is None:
            raise
        return old
    shelf.put(place, value, caller.clock.monotonic())
    return Answer(value, stale=False, age=0.0)


def passing(error: Exception) -> bool:
    """Whether an old answer may stand in: the call was held, or failed in a way that may pass."""
    fault: Fault | None = getattr(error, "__tidegate_fault__", None)
    return isinstance(error, Held) or (fault is not None and fault.retriable)
