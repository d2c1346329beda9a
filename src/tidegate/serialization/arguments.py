"""Arguments of jobs: bound to parameters, stored by name, decoded by type annotations."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.serialization import Serial, check_size, encode
from tidegate.serialization.scalars import Wrong, named
from tidegate.validation import did_you_mean, similar

# -- parameters -----------------------------------------------------------------------------------------------------

Bound = dict[str, object]  # arguments by parameter name, without those left at their default

_NEVER = 1 << 30  # more positional arguments than any call has


class ArgumentsMismatch(ValueError):
    """Stored arguments do not fit the function: another version of the program stored them."""


class Parameters:
    """The parameters of one function, except the Context, which the worker passes. Inspected once, not per call.

    parameters = Parameters("send", inspect.signature(send), {"to": Serial(str)}, context="job")
    text = parameters.encode(parameters.bind(("ada",), {}))
    parameters.call(send, parameters.decode(text), context)
    """

    __slots__ = (
        "_by_place",
        "_defaults",
        "_least",
        "_loads",
        "_limit",
        "_names",
        "_parts",
        "_required",
        "context",
        "name",
        "serials",
        "signature",
        "text",
    )

    def __init__(
        self, name: str, signature: inspect.Signature, serials: Mapping[str, Serial], context: str | None = None
    ) -> None:
        own = [parameter for parameter in signature.parameters.values() if parameter.name != context]
        by_name = [parameter for parameter in own if parameter.kind is parameter.KEYWORD_ONLY]
        self.name, self.context, self.serials = name, context, dict(serials)
        self.signature = signature.replace(parameters=own, return_annotation=inspect.Signature.empty)
        self.text = f"{name}{_shown(self.signature)}"
        self._names = tuple(parameter.name for parameter in own if parameter.kind is not parameter.KEYWORD_ONLY)
        self._required = frozenset(parameter.name for parameter in own if parameter.default is parameter.empty)
        self._defaults = {
            parameter.name: parameter.default for parameter in own if parameter.default is not parameter.empty
        }
        # For a call with only positional arguments, checking their number is enough.
        only_by_place = not any(parameter.default is parameter.empty for parameter in by_name)
        self._least = len(self._required) if only_by_place else _NEVER
        self._limit = len(self._names)
        self._parts = {
            parameter_name: (f"{json.dumps(parameter_name)}:", of.shape.dump)
            for parameter_name, of in self.serials.items()
        }
        self._loads = {parameter_name: of.shape.load for parameter_name, of in self.serials.items()}
        self._by_place = tuple(
            parameter.name for parameter in signature.parameters.values() if parameter.kind is parameter.POSITIONAL_ONLY
        )

    # -- binding -------------------------------------------------------------------------------------------------

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> Bound:
        """Returns the arguments of a call by name. TypeError with the signature if they do not fit."""
        if not kwargs and self._least <= len(args) <= self._limit:
            return dict(zip(self._names, args, strict=False))
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.text}: {self._misuse(args, kwargs, error)}") from None

    def bind_call(self, call: object, *, field: str) -> Bound:
        """Binds a call that is a value: a tuple of positional arguments, or a dict of arguments by name."""
        if type(call) is tuple:
            return self.bind(call, {})
        if isinstance(call, dict):
            return self.bind((), call)
        shown = f"{call!r:.60}"
        raise TypeError(
            f"{field}: {shown} is not the arguments of a call; give a tuple or a dict by name, such as ({shown},)"
        )

    def _misuse(self, args: tuple[Any, ...], kwargs: Mapping[str, object], error: TypeError) -> str:
        """Returns what is wrong with a call, and how to fix it."""
        if self.context is not None and self.context in kwargs:
            return f"the worker gives {self.context!r}, the Context; leave it out"
        unknown = [kwarg for kwarg in kwargs if kwarg not in self.serials]
        if unknown:
            return f"unknown parameter {unknown[0]!r}; {self._instead(unknown[0])}"
        return f"{error}; got {_call(args, kwargs)}"

    def _instead(self, name: str) -> str:
        if close := similar(name, self.serials):
            return f"did you mean {close!r}?"
        if name in OPTIONS:
            return f"give it as an option: {self.name}.options({name}=...)"
        return f"{self.name} has {', '.join(map(repr, self.serials)) or 'none'}"

    # -- storing -------------------------------------------------------------------------------------------------

    def encode(self, bound: Bound, limit: int | None = None) -> str:
        """Returns a JSON object by parameter name.

        TypeError if a value does not fit its annotation, ValueError if it is too large or nested too deeply.
        """
        pieces, name = [], ""
        try:
            for name, value in bound.items():
                prefix, dump = self._parts[name]
                data = dump(value)
                pieces.append(prefix + (repr(data) if type(data) is int else encode(data, what=name, exact=True)))
        except Wrong as wrong:
            raise TypeError(f"{self.text}: {self._wrong(name, bound[name], wrong)}") from None
        except TypeError as error:
            raise TypeError(f"{self.text}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{self.text}: {error}") from None
        except RecursionError:
            raise ValueError(
                f"{self.text}: {name}: it nests too deeply, or contains itself; pass a flatter value"
            ) from None
        text = "{" + (pieces[0] if len(pieces) == 1 else ",".join(pieces)) + "}"
        if limit is not None and len(text) > limit:
            check_size(text, limit, self.name)
        return text

    def _wrong(self, name: str, value: object, wrong: Wrong) -> str:
        if is_context(type(value)):
            return f"{name}: the worker gives the Context; leave it out"
        return f"{name}{wrong.path}: {wrong.text}"

    def decode(self, text: str) -> Bound:
        """Returns the stored arguments. ArgumentsMismatch if they do not fit this version of the function.

        The error contains no values: its text is stored with the job, and a value may be a secret.
        """
        data = json.loads(text)
        if type(data) is not dict:
            raise ArgumentsMismatch(f"{self.text}: no arguments by name were stored")
        loads, bound, name = self._loads, {}, ""
        try:
            for name, value in data.items():
                bound[name] = loads[name](value)
        except KeyError as error:
            if name in loads:  # a class of the user raised it
                raise ArgumentsMismatch(f"{self.text}: {name} does not fit {self.serials[name].name}") from error
            raise ArgumentsMismatch(f"{self.text}: there is no parameter {name!r}") from None
        except Wrong as wrong:
            raise ArgumentsMismatch(
                f"{self.text}: {name}{wrong.path} does not fit {self.serials[name].name}"
            ) from wrong.__cause__
        except RecursionError:
            raise ArgumentsMismatch(f"{self.text}: {name} nests too deeply") from None
        if not self._required <= bound.keys():
            missing = next(serial for serial in self.serials if serial in self._required and serial not in bound)
            raise ArgumentsMismatch(f"{self.text}: {missing!r} is required, and was not stored")
        return bound

    # -- calling -------------------------------------------------------------------------------------------------

    def call(self, fn: Callable[..., Any], bound: Bound, context: Any) -> Any:
        """Returns the result of *fn*, called with the Context if it takes one."""
        if self.context is not None:
            bound = {**bound, self.context: context}
        if not self._by_place:
            return fn(**bound)
        rest = {**self._defaults, **bound}
        return fn(*[rest.pop(name) for name in self._by_place], **rest)

    def complete(self, bound: Bound) -> Bound:
        """Adds the defaults of omitted arguments."""
        return {**self._defaults, **bound} if len(bound) < len(self.serials) else bound

    def identity(self, bound: Bound) -> str:
        """Returns the same text for the same arguments, whether defaults are given or omitted."""
        complete = self.complete(bound)
        return encode([_plain(self.serials[serial], complete[serial]) for serial in self.serials], what="unique")

    def sole(self) -> str | None:
        """Returns the parameter of a function that can be called with one value, or None."""
        if len(self.serials) == 1:
            return next(iter(self.serials))
        return next(iter(self._required)) if len(self._required) == 1 else None


# The options of a job: such a name as an argument is a misunderstanding worth a hint.
OPTIONS = frozenset({"due", "priority", "after", "unique", "queue", "connection"})

Hook = Callable[[Bound, Any], Any]


def hook_of(fn: Callable[..., Any], parameters: Parameters, *, what: str, context: str | None = None) -> Hook:
    """Returns a caller of *fn* with those job arguments that it names. TypeError if it names others.

    If a job has one parameter, a function of one value may use any name. *context* is the name of the Context in *fn*.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # functions written in C may have no signature
        if len(parameters.serials) != 1:
            raise TypeError(f"{what}: {fn!r:.60} has no signature; give a lambda of {parameters.text}") from None
        return _of_sole(fn, next(iter(parameters.serials)), None)
    declared = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in declared):
        return _of_all(fn, context)
    if len(parameters.serials) == 1 and _takes_one(signature, context):
        return _of_sole(fn, next(iter(parameters.serials)), context)
    wanted = [
        parameter
        for parameter in declared
        if parameter.name != context and parameter.kind is not parameter.VAR_POSITIONAL
    ]
    others = [
        parameter
        for parameter in wanted
        if parameter.name not in parameters.serials and parameter.default is parameter.empty
    ]
    others += [parameter for parameter in wanted if parameter.kind is parameter.POSITIONAL_ONLY]
    if others:
        raise TypeError(
            f"{what}: {getattr(fn, '__name__', fn)}{signature} takes {others[0].name!r}, which {parameters.text} does "
            f"not have; name some of {', '.join(map(repr, parameters.serials)) or 'none'}"
        )
    by_name = [parameter.name for parameter in wanted if parameter.name in parameters.serials]
    return _of_some(fn, tuple(by_name), context)


def _takes_one(signature: inspect.Signature, context: str | None) -> bool:
    """Whether a function can be called with one value, whatever its name."""
    try:
        signature.bind(None, **({} if context is None else {context: None}))
    except TypeError:
        return False
    return True


def _of_sole(fn: Callable[..., Any], name: str, context: str | None) -> Hook:
    if context is None:
        return lambda bound, _: fn(bound[name])
    return lambda bound, given: fn(bound[name], **{context: given})


def _of_some(fn: Callable[..., Any], names: tuple[str, ...], context: str | None) -> Hook:
    if context is None:
        return lambda bound, _: fn(**{name: bound[name] for name in names})
    return lambda bound, given: fn(**{name: bound[name] for name in names}, **{context: given})


def _of_all(fn: Callable[..., Any], context: str | None) -> Hook:
    if context is None:
        return lambda bound, _: fn(**bound)
    return lambda bound, given: fn(**bound, **{context: given})


def values_of(names: str | tuple[str, ...], parameters: Parameters, *, what: str) -> Hook:
    """Returns a getter for the values of these parameters. TypeError if one does not exist."""
    wanted = (names,) if isinstance(names, str) else names
    for name in wanted:
        if name not in parameters.serials:
            known = ", ".join(map(repr, parameters.serials)) or "none"
            raise TypeError(
                f"{what}: {name!r:.60} is not a parameter of {parameters.text}; name some of {known}"
                + did_you_mean(name, parameters.serials)
            )
    if isinstance(names, str):
        return lambda bound, _: bound[names]
    return lambda bound, _: tuple(bound[name] for name in names)


def is_context(kind: object) -> bool:
    """Whether this is the Context class. Compared by name: a child without jobs does not import it."""
    return getattr(kind, "__module__", "") == "tidegate.jobs.context" and (
        getattr(kind, "__qualname__", "") == "Context"
    )


def _plain(serial: Serial, value: object) -> Any:
    try:
        return serial.shape.dump(value)
    except Wrong:  # a default need not fit its annotation
        return repr(value)


def _shown(signature: inspect.Signature) -> str:
    """Formats a signature as its author wrote it: string annotations without quotes."""
    plain = [
        parameter.replace(annotation=_Written(parameter.annotation))
        if parameter.annotation is not parameter.empty
        else parameter
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain))


class _Written:
    """An annotation that prints as users write it."""

    def __init__(self, annotation: object) -> None:
        self._text = annotation if isinstance(annotation, str) else named(annotation)

    def __repr__(self) -> str:
        return self._text


def _call(args: tuple[Any, ...], kwargs: Mapping[str, object]) -> str:
    shown = [f"{arg!r:.40}" for arg in args] + [f"{name}={value!r:.40}" for name, value in kwargs.items()]
    return f"({', '.join(shown)})"


# -- signatures -----------------------------------------------------------------------------------------------------

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CONTEXT = re.compile(r"(?:Optional\[)?(?:\w+\.)*Context\]?(?:\s*\|\s*None)?")


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters and the result of one function."""

    parameters: Parameters
    result: Serial
    is_async: bool


def signature_of(
    fn: Callable[..., Any], scope: Mapping[str, object] | None = None, *, whole: bool = False
) -> Signature:
    """Returns the signature of a function. TypeError if it is not callable. *scope* has the names at its declaration.

    With *whole*, every parameter must be storable, as for a job. Otherwise optional parameters need not be.
    """
    name = getattr(fn, "__qualname__", None)
    if name is None or isinstance(fn, type):
        raise TypeError(f"{fn!r:.80} is not a function; declare a `def` or an `async def`")
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
    stored = signature.replace(
        parameters=[parameter for parameter in signature.parameters.values() if parameter.name not in left_out]
    )
    parameters = Parameters(shown, stored, serials, contexts[0] if contexts else None)
    return Signature(parameters, _result(fn, hints, known), inspect.iscoroutinefunction(fn))


def sole_serial(signature: Signature) -> Serial:
    """Returns the serial for the one value of a function. TypeError if it takes another number."""
    name = signature.parameters.sole()
    if name is None:
        raise TypeError(f"{signature.parameters.text}: a child process gives it one value; take a dataclass")
    return signature.parameters.serials[name]


def verify_hook(verify: Callable[..., Any], parameters: Parameters) -> Hook:
    """Returns a caller of a job's hook, with the arguments that it names, and the Context by name or annotation."""
    context = parameters.context
    try:
        taken = inspect.signature(verify).parameters
    except (TypeError, ValueError):  # functions written in C may have no signature
        return hook_of(verify, parameters, what="verify")
    hints, known = _annotations(verify), _enclosed(verify)
    annotated = (name for name in taken if name in hints and _is_context(verify, hints[name], known))
    context_name = next(annotated, context if context in taken else None)
    return hook_of(verify, parameters, what="verify", context=context_name)


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


def _serial(fn: Callable[..., Any], name: str, parameter: str, hint: Any, known: Mapping[str, object]) -> Serial | None:
    """Returns how an argument is stored. None for the Context, which is not stored."""
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


def _is_context(fn: Callable[..., Any], hint: Any, known: Mapping[str, object]) -> bool:
    try:
        kind = _resolved(fn, hint, known)
    except NameError:
        # Imported only for type checkers. Nothing else with this name could be stored.
        text = hint if isinstance(hint, str) else getattr(hint, "__forward_arg__", "")
        return _CONTEXT.fullmatch(text.strip()) is not None
    except TypeError:
        return False
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(kind) if arg is not type(None)]
        return len(inner) == 1 and is_context(inner[0])
    return is_context(kind)


def _result(fn: Callable[..., Any], hints: Mapping[str, object], known: Mapping[str, object]) -> Serial:
    """Returns the result type. Any JSON value without an annotation."""
    try:
        return Serial(_without_done(_resolved(fn, hints.get("return", Any), known)), known)
    except (NameError, TypeError):
        return Serial()


def _without_done(kind: Any) -> Any:
    """Returns the type that is stored for a result: the content of a `Done`, not the `Done`."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_without_done(member) for member in inner)]  # noqa: UP007 - made while it runs
    if getattr(origin or kind, "__qualname__", "") == "Done":  # by name: a child without jobs does not import it
        return (*inner, Any)[0]
    return kind


def _resolved(fn: Callable[..., Any], hint: Any, known: Mapping[str, object]) -> Any:
    """Returns the type of a hint. NameError if its name is unknown."""
    if hint is None:
        return type(None)
    holder = types.SimpleNamespace(__annotations__={"it": hint})
    return typing.get_type_hints(holder, _globals(fn), dict(known))["it"]


def _annotations(fn: Callable[..., Any]) -> Mapping[str, object]:
    inner = inspect.unwrap(fn)
    if sys.version_info >= (3, 14):  # one name that only type checkers know must not hide the others
        import annotationlib

        return annotationlib.get_annotations(inner, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(inner)


def _globals(fn: Callable[..., Any]) -> dict[str, object]:
    return getattr(inspect.unwrap(fn), "__globals__", {})


def _enclosed(fn: Callable[..., Any]) -> Mapping[str, object]:
    """Returns the names that a nested function has closed over."""
    inner = inspect.unwrap(fn)
    if not inspect.isfunction(inner):
        return {}
    names = {}
    for name, cell in zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that is assigned later
            names[name] = cell.cell_contents
    return names
