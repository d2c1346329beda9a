"""Signatures of guarded functions: sync or async, and which argument names the key."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable
from types import CoroutineType
from typing import Any, NoReturn, TypeGuard, cast

# Which colour a function has: a guard around the wrong one would see its start and not its outcome.


class WrongFunctionKind(TypeError):
    """A function was handed to the call of the other colour: a mistake of the program, and no news of the service."""


def require_async_kind(fn: Callable[..., Any]) -> bool:
    """Whether calling *fn* gives something to await; TypeError when that is to be iterated, or *fn* is no function."""
    if not callable(fn):
        raise TypeError(f"{fn!r:.60} is no function; put the decorator above a `def` or an `async def`")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"{fn.__qualname__} yields, so a call of it proves nothing; use `with breaker.permit()`")
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def refuse(result: object, whose: str = "breaker") -> NoReturn:
    """Raises: *result* is a coroutine that came out of `call`."""
    if isinstance(result, CoroutineType):
        result.close()  # one that is never awaited would warn
    raise WrongFunctionKind(
        f"call: the function is async def, and nothing of it has run; use `await {whose}.acall(...)`"
    )


def check_awaitable(result: object, whose: str = "breaker") -> None:
    """Raises when *result*, which came out of the function of an `acall`, is nothing to await."""
    if not inspect.isawaitable(result):
        raise WrongFunctionKind(f"acall: the function gave nothing to await; use `{whose}.call(...)` for a plain `def`")


# What a guard must know of the function it is put around: its colour, and where its arguments name the key.

KeyOf = Callable[[tuple[Any, ...], dict[str, Any]], Hashable]


class Fixed:
    """The same key, whatever the arguments."""

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        self.key = key

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        return self.key


class CallableKey:
    """What a function of the user's makes of the arguments; before the call, which may change them."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[..., Hashable]) -> None:
        self._ask = ask

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        key = self._ask(*args, **kwargs)
        try:
            hash(key)
        except TypeError:
            raise _without_hash(key) from None
        return key


def check_function(fn: object) -> None:
    """TypeError when a guard around *fn* could not see how a call of it ends."""
    if not callable(fn):
        raise TypeError(
            f"guard: {fn!r:.60} is no function; was the decorator written without its parentheses? @target.guard()"
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"guard: {named(fn)} yields, so a call of it proves nothing; guard what it calls")


def named(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


def is_async_function(fn: Callable[..., Any]) -> TypeGuard[Callable[..., Awaitable[Any]]]:
    """Whether calling *fn* gives something to await: `async def`, also as the `__call__` of an object."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def key_getter(fn: Callable[..., Any], key: str | Callable[..., Hashable] | None, otherwise: Hashable) -> KeyOf:
    """Finds the key among the arguments of a call: by a parameter's name, or by a function of all of them."""
    if key is None:
        return Fixed(otherwise)
    if callable(key):
        return CallableKey(key)
    parameters = list(inspect.signature(fn).parameters.values())
    at = next((i for i, parameter in enumerate(parameters) if parameter.name == key), None)
    if at is None:
        raise TypeError(f"key: {getattr(fn, '__qualname__', fn)!r} has no parameter {key!r}")
    if parameters[at].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise TypeError(f"key: {key!r} takes any number of arguments; name a single parameter")
    default = None if parameters[at].default is inspect.Parameter.empty else parameters[at].default
    by_position = parameters[at].kind is not inspect.Parameter.KEYWORD_ONLY
    by_name = parameters[at].kind is not inspect.Parameter.POSITIONAL_ONLY

    def found(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        named = by_name and key in kwargs
        value = kwargs[key] if named else args[at] if by_position and at < len(args) else default
        try:
            hash(value)
        except TypeError:
            raise _without_hash(value) from None
        return cast("Hashable", value)

    return found


def _without_hash(key: object) -> TypeError:
    return TypeError(
        f"key: {key!r:.60} has no hash, so nothing can be kept for it; name a number, a text or a tuple of them"
    )
