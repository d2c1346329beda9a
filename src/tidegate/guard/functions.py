"""Signatures of guarded functions: sync or async, and which argument is the key."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable
from types import CoroutineType
from typing import Any, NoReturn, TypeGuard, cast

from tidegate.validation import did_you_mean

# -- sync or async --------------------------------------------------------------------------------------------------


class WrongFunctionKind(TypeError):
    """A sync function was passed to `acall`, or an async one to `call`: a bug of the program."""


def require_async_kind(fn: Callable[..., Any]) -> bool:
    """Whether *fn* is async. TypeError if it is a generator function or not callable."""
    if not callable(fn):
        raise TypeError(f"{fn!r:.60} is no function; put the decorator above a `def` or an `async def`")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"{fn.__qualname__} yields, so a call of it proves nothing; use `with breaker.permit()`")
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def refuse(result: object, whose: str = "breaker") -> NoReturn:
    """Raises: *result* is a coroutine from `call`."""
    if isinstance(result, CoroutineType):
        result.close()  # avoids the warning about a coroutine that was never awaited
    raise WrongFunctionKind(
        f"call: the function is async def, and nothing of it has run; use `await {whose}.acall(...)`"
    )


def check_awaitable(result: object, whose: str = "breaker") -> None:
    """Raises if *result*, from the function of an `acall`, is not awaitable."""
    if not inspect.isawaitable(result):
        raise WrongFunctionKind(f"acall: the function gave nothing to await; use `{whose}.call(...)` for a plain `def`")


# -- keys -----------------------------------------------------------------------------------------------------------

KeyOf = Callable[[tuple[Any, ...], dict[str, object]], Hashable]


class Fixed:
    """The same key for all arguments."""

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        self.key = key

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, object]) -> Hashable:
        return self.key


class CallableKey:
    """The user's function of the arguments. It runs before the call, which may change them."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[..., Hashable]) -> None:
        self._ask = ask

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, object]) -> Hashable:
        key = self._ask(*args, **kwargs)
        try:
            hash(key)
        except TypeError:
            raise _without_hash(key) from None
        return key


def check_function(fn: object) -> None:
    """TypeError if a guard around *fn* could not observe the outcome of a call."""
    if not callable(fn):
        hint = f"; did you mean guard(key={fn!r:.40})?" if isinstance(fn, str) else ""
        raise TypeError(f"guard decorates a function, got {fn!r:.60}{hint}")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"guard: {named(fn)} yields, so a call of it proves nothing; guard what it calls")


def named(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", None) or type(fn).__name__)


def is_async_function(fn: Callable[..., Any]) -> TypeGuard[Callable[..., Awaitable[Any]]]:
    """Whether calling *fn* returns an awaitable: `async def`, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def key_getter(fn: Callable[..., Any], key: str | Callable[..., Hashable] | None, otherwise: Hashable) -> KeyOf:
    """Returns a function that gets the key from the arguments: a named parameter, or the user's function."""
    if key is None:
        return Fixed(otherwise)
    if callable(key):
        return CallableKey(key)
    parameters = list(inspect.signature(fn).parameters.values())
    at = next((i for i, parameter in enumerate(parameters) if parameter.name == key), None)
    if at is None:
        names = [parameter.name for parameter in parameters]
        allowed = f"one of {', '.join(map(repr, names))}" if names else "left out, for there are none"
        raise TypeError(
            f"key must be a parameter of {getattr(fn, '__qualname__', fn)}, {allowed}, got {key!r:.60}"
            f"{did_you_mean(key, names)}"
        )
    if parameters[at].kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise TypeError(f"key: {key!r} takes any number of arguments; name a single parameter")
    default = None if parameters[at].default is inspect.Parameter.empty else parameters[at].default
    by_position = parameters[at].kind is not inspect.Parameter.KEYWORD_ONLY
    by_name = parameters[at].kind is not inspect.Parameter.POSITIONAL_ONLY

    def get_key(args: tuple[Any, ...], kwargs: dict[str, object]) -> Hashable:
        named = by_name and key in kwargs
        value = kwargs[key] if named else args[at] if by_position and at < len(args) else default
        try:
            hash(value)
        except TypeError:
            raise _without_hash(value) from None
        return cast("Hashable", value)

    return get_key


def _without_hash(key: object) -> TypeError:
    return TypeError(
        f"key: {key!r:.60} has no hash, so nothing can be kept for it; name a number, a text or a tuple of them"
    )
