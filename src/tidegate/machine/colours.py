"""Which colour a function has: a guard around the wrong one would see its start and not its outcome."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CoroutineType
from typing import Any


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling *fn* gives something to await; TypeError when it gives something to iterate."""
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"{fn.__qualname__} yields, so a call of it proves nothing; use `with breaker.permit()`")
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def refuse(result: object) -> None:
    """Raises TypeError: *result* is a coroutine that came out of `call`."""
    if isinstance(result, CoroutineType):
        result.close()  # one that is never awaited would warn
    raise TypeError("call: the function is async def, and nothing of it has run; use `await breaker.acall(...)`")
