"""Which colour a function has: a guard around the wrong one would see its start and not its outcome."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CoroutineType
from typing import Any, NoReturn


class WrongFunctionKind(TypeError):
    """A function was handed to the call of the other colour: a mistake of the program, and no news of the service."""


def is_async(fn: Callable[..., Any]) -> bool:
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
