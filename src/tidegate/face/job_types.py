"""Types of functions that can be jobs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Protocol, TypeVar

from tidegate.machine.lifecycle import Done
from tidegate.runtime.context import Context

R = TypeVar("R")
Out_co = TypeVar("Out_co", covariant=True)
# What picks values out of the arguments: the name of a parameter, several names, or a function of arguments.
Key = str | tuple[str, ...] | Callable[..., Hashable]


class KeywordContext0(Protocol[Out_co]):
    """A function that takes the Context by keyword only. No type can leave out such a parameter.

    One class for each number of other parameters without a default: mypy loses its way in a union of them.
    """

    def __call__(self, *, job: Context) -> Out_co: ...


class KeywordContext1(Protocol[Out_co]):
    """The same, with one more parameter that has no default."""

    def __call__(self, a: Any, /, *, job: Context) -> Out_co: ...


class KeywordContext2(Protocol[Out_co]):
    """The same with two."""

    def __call__(self, a: Any, b: Any, /, *, job: Context) -> Out_co: ...


class KeywordContext3(Protocol[Out_co]):
    """The same with three."""

    def __call__(self, a: Any, b: Any, c: Any, /, *, job: Context) -> Out_co: ...


# What an `async def` returns: a `Done`, or a value that may be inside of one.
AsyncDone = Coroutine[Any, Any, Done[R]]
AsyncValue = Coroutine[Any, Any, R | Done[R]]
