"""What a handler takes and gives, read off its annotations once."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.serial import Serial

_TAKES = "a handler takes one value, such as a dataclass (or None, if it needs nothing), and a Context if it wants one"


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of one handler."""

    arguments: Serial
    result: Serial
    takes_context: bool
    is_async: bool


def signature_of(fn: Callable[..., Any], scope: Mapping[str, Any] | None = None) -> Signature:
    """The signature of a handler; TypeError when it cannot be one. *scope* has the names where it was declared."""
    name = getattr(fn, "__qualname__", None)
    if name is None or isinstance(fn, type):
        raise TypeError(f"{fn!r:.80} is no function; declare a `def` or an `async def`")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"{name} yields, so nothing would run it to its end; a handler returns")
    needed = _needed(fn, name)
    known = {**_enclosed(fn), **(scope or {})}
    hints = _annotations(fn)
    try:
        arguments = Serial(_resolved(fn, hints.get(needed[0].name, Any), known), known)
    except NameError as error:
        raise TypeError(
            f"{name}: {error}; the type of {needed[0].name!r} must be known when the program runs, "
            "not to type checkers only"
        ) from error
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from error
    return Signature(arguments, _result(fn, hints, known), len(needed) == 2, inspect.iscoroutinefunction(fn))


def verify_takes_context(verify: Callable[..., Any], takes_context: bool) -> bool:
    """Whether the hook is given a Context: as its handler is, if it can be called so; TypeError when it never can."""
    try:
        signature = inspect.signature(verify)
    except (TypeError, ValueError):  # one that is written in C may not tell
        return takes_context
    for each in (takes_context, not takes_context):
        with contextlib.suppress(TypeError):
            signature.bind(*(None,) * (1 + each))
            return each
    name = getattr(verify, "__qualname__", verify)
    raise TypeError(f"verify: {name}{signature} is given what a handler is: its value, and a Context if it wants one")


def _needed(fn: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    parameters = inspect.signature(fn).parameters.values()
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not 1 <= len(needed) <= 2 or any(each.kind not in by_place for each in needed):
        raise TypeError(f"{name}{inspect.signature(fn)}: {_TAKES}")
    return needed


def _result(fn: Callable[..., Any], hints: Mapping[str, Any], known: Mapping[str, Any]) -> Serial:
    """The type of what comes back; whatever JSON can hold where nothing better is said."""
    try:
        return Serial(_without_done(_resolved(fn, hints.get("return", Any), known)), known)
    except (NameError, TypeError):
        return Serial()


def _without_done(kind: Any) -> Any:
    """What is kept of a result: what is inside a `Done`, not the `Done` itself."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_without_done(each) for each in inner)]  # noqa: UP007 - made while it runs
    if getattr(origin or kind, "__qualname__", "") == "Done":  # by name: a child that needs no jobs imports none
        return (*inner, Any)[0]
    return kind


def _resolved(fn: Callable[..., Any], hint: Any, known: Mapping[str, Any]) -> Any:
    """The type that a hint stands for; NameError when nobody knows its name."""
    if hint is None:
        return type(None)
    holder = types.SimpleNamespace(__annotations__={"it": hint})
    return typing.get_type_hints(holder, _globals(fn), dict(known))["it"]


def _annotations(fn: Callable[..., Any]) -> Mapping[str, Any]:
    inner = inspect.unwrap(fn)
    if sys.version_info >= (3, 14):  # one name that only type checkers know must not hide the others
        import annotationlib

        return annotationlib.get_annotations(inner, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(inner)


def _globals(fn: Callable[..., Any]) -> dict[str, Any]:
    return getattr(inspect.unwrap(fn), "__globals__", {})


def _enclosed(fn: Callable[..., Any]) -> Mapping[str, Any]:
    """The names that a function inside a function has closed over."""
    inner = inspect.unwrap(fn)
    if not inspect.isfunction(inner):
        return {}
    found = {}
    for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that is only given a value further down
            found[name] = cell.cell_contents
    return found
