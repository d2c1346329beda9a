"""What a function takes and returns, read off its annotations once."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.arguments import Hook, Parameters, hook_of, is_context
from tidegate.core.serial import Serial

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CONTEXT = re.compile(r"(?:Optional\[)?(?:\w+\.)*Context\]?(?:\s*\|\s*None)?")


@dataclass(frozen=True, slots=True)
class Signature:
    """What one function takes and returns."""

    parameters: Parameters
    result: Serial
    is_async: bool


def signature_of(fn: Callable[..., Any], scope: Mapping[str, Any] | None = None, *, whole: bool = False) -> Signature:
    """The signature of a function; TypeError when it cannot be called. *scope* has the names where it was declared.

    *whole*: every parameter must be one that can be stored, as for a job. Else those that may be left out need not.
    """
    name = getattr(fn, "__qualname__", None)
    if name is None or isinstance(fn, type):
        raise TypeError(f"{fn!r:.80} is no function; declare a `def` or an `async def`")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(f"{name} yields, so nothing would run it to its end; a handler returns")
    signature = inspect.signature(fn)
    known = {**_enclosed(fn), **(scope or {})}
    hints = _annotations(fn)
    serials: dict[str, Serial] = {}
    contexts: list[str] = []
    left_out: list[str] = []
    for parameter in signature.parameters.values():
        if whole:
            _check_kind(parameter, f"{name}{signature}")
        try:
            serial = _serial(fn, name, parameter.name, hints.get(parameter.name, Any), known)
        except TypeError:
            if whole or (parameter.default is parameter.empty and parameter.kind not in _VARIADIC):
                raise
            left_out.append(parameter.name)
            continue
        if parameter.kind in _VARIADIC:
            left_out.append(parameter.name)
        elif serial is None:
            contexts.append(parameter.name)
        else:
            serials[parameter.name] = serial
    if len(contexts) > 1:
        raise TypeError(f"{name}{signature}: {contexts[0]!r} and {contexts[1]!r} are both a Context; keep one")
    shown = getattr(fn, "__name__", name)
    kept = signature.replace(
        parameters=[parameter for parameter in signature.parameters.values() if parameter.name not in left_out]
    )
    parameters = Parameters(shown, kept, serials, contexts[0] if contexts else None)
    return Signature(parameters, _result(fn, hints, known), inspect.iscoroutinefunction(fn))


def sole_serial(signature: Signature) -> Serial:
    """How the value is stored that a function of one value is called with; TypeError when it takes another number."""
    name = signature.parameters.sole()
    if name is None:
        raise TypeError(f"{signature.parameters.text}: a child process gives it one value; take a dataclass")
    return signature.parameters.serials[name]


def verify_hook(verify: Callable[..., Any], parameters: Parameters) -> Hook:
    """How the hook of a job is called: with the arguments that it names, and the Context, by name or annotation."""
    context = parameters.context
    try:
        taken = inspect.signature(verify).parameters
    except (TypeError, ValueError):  # one that is written in C may not tell
        return hook_of(verify, parameters, what="verify")
    hints, known = _annotations(verify), _enclosed(verify)
    annotated = (each for each in taken if each in hints and _is_context(verify, hints[each], known))
    found = next(annotated, context if context in taken else None)
    return hook_of(verify, parameters, what="verify", context=found)


def _check_kind(parameter: inspect.Parameter, shown: str) -> None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise TypeError(
            f"{shown}: *{parameter.name} has no name for each value, and arguments are stored by name; "
            f"take a list: {parameter.name}: list[str]"
        )
    if parameter.kind is parameter.VAR_KEYWORD:
        raise TypeError(
            f"{shown}: **{parameter.name} takes any name, so a stored argument could never be checked; "
            f"take a dict: {parameter.name}: dict[str, str]"
        )


def _serial(fn: Callable[..., Any], name: str, parameter: str, hint: Any, known: Mapping[str, Any]) -> Serial | None:
    """How an argument is stored; None for the Context, which is not."""
    if _is_context(fn, hint, known):
        return None
    try:
        return Serial(_resolved(fn, hint, known), known)
    except NameError as error:
        raise TypeError(
            f"{name}: {error}; the type of {parameter!r} must be known when the program runs, not to type checkers only"
        ) from error
    except TypeError as error:
        raise TypeError(f"{name}: {parameter}: {error}") from error


def _is_context(fn: Callable[..., Any], hint: Any, known: Mapping[str, Any]) -> bool:
    try:
        kind = _resolved(fn, hint, known)
    except NameError:
        # Imported for type checkers only. Nothing else that is called so could be stored.
        text = hint if isinstance(hint, str) else getattr(hint, "__forward_arg__", "")
        return _CONTEXT.fullmatch(text.strip()) is not None
    except TypeError:
        return False
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(kind) if arg is not type(None)]
        return len(inner) == 1 and is_context(inner[0])
    return is_context(kind)


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
