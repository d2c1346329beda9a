"""A type annotation as two functions: from a value to what JSON can hold, and back.

They are made once for each kind of job, and check on the way in: what does not fit is refused before it is written, and
what was written comes back as it was.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from typing import Any, TypeVar

from tidegate.serialization import scalars
from tidegate.serialization.scalars import Shape, Wrong, named, refused

_LISTS: tuple[Any, ...] = (list, Sequence, MutableSequence, Iterable, Collection)
_SETS: dict[Any, type[AbstractSet[Any]]] = {set: set, frozenset: frozenset, AbstractSet: frozenset, MutableSet: set}
_MAPS: tuple[Any, ...] = (dict, Mapping, MutableMapping)


def shape_of(annotation: object, scope: Mapping[str, Any] | None = None) -> Shape:
    """The shape of *annotation*; TypeError when it is nothing that JSON can hold.

    *scope* has the names that annotations inside it may use beside those of their own modules.
    """
    return _Maker(scope or {}).shape(annotation)


class _Maker:
    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = dict(scope)
        self._made: dict[Any, Shape] = {}

    def shape(self, kind: Any) -> Shape:
        """The one shape of *kind*: a type that contains itself finds the shape that is being made."""
        try:
            found = self._made.get(kind)
        except TypeError:  # an annotation with something unhashable in it
            return self._make(Shape(named(kind)), kind)
        if found is None:
            found = self._made[kind] = Shape(named(kind))
            self._make(found, kind)
        return found

    def _make(self, made: Shape, kind: Any) -> Shape:
        if kind is Any or kind is object or isinstance(kind, TypeVar):
            return made
        if hasattr(kind, "__supertype__"):  # NewType
            return made.copy(self.shape(kind.__supertype__))
        if hasattr(kind, "__value__"):  # type X = ...
            return made.copy(self.shape(kind.__value__))
        if kind is None:
            kind = type(None)
        if scalars.fill(made, kind):
            return made
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if origin is not None:
            return self._generic(made, origin, args)
        return self._class(made, kind, {})

    def _class(self, made: Shape, kind: Any, given: Mapping[Any, Any]) -> Shape:
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._dataclass(made, kind, given)
        if typing.is_typeddict(kind):
            return self._typed_dict(made, kind)
        if hasattr(kind, "model_validate_json"):
            return _model(made, kind)
        if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple(made, kind)
        if kind is tuple or kind in _LISTS + _MAPS or kind in _SETS:
            return self._generic(made, kind, ())
        raise TypeError(
            f"{made.name} cannot be stored; give plain values, dataclasses, enums, datetimes or pydantic models"
        )

    def _generic(self, made: Shape, origin: Any, args: tuple[Any, ...]) -> Shape:
        if origin in (typing.Union, types.UnionType):
            return _union(made, [self.shape(arg) for arg in args])
        if origin is typing.Annotated or origin in (typing.Required, typing.NotRequired, typing.Final):
            return made.copy(self.shape(args[0]))
        if origin is typing.Literal:
            return _literal(made, args)
        if origin is tuple:
            return self._tuple(made, args)
        first, second = (*args, Any, Any)[:2]
        if origin in _LISTS:
            return _many(made, self.shape(first), (list,) if origin is list else (list, tuple), list)
        if origin in _SETS:
            return _many(
                made,
                self.shape(first),
                (_SETS[origin],) if origin in (set, frozenset) else (set, frozenset),
                _SETS[origin],
            )
        if origin in _MAPS:
            return _mapping(made, self.shape(first if args else str), self.shape(second))
        if isinstance(origin, type):
            return self._class(made, origin, dict(zip(getattr(origin, "__parameters__", ()), args, strict=False)))
        raise TypeError(f"{made.name} cannot be stored")

    # -- things with named parts ---------------------------------------------------------------------------------

    def _hints(self, kind: Any, *, extras: bool = False) -> dict[str, Any]:
        try:
            return typing.get_type_hints(kind, localns=self._scope, include_extras=extras)
        except NameError as error:
            raise TypeError(
                f"{named(kind)}: {error}; its types must be known when the program runs, not to type checkers only"
            ) from error

    def _dataclass(self, made: Shape, cls: Any, given: Mapping[Any, Any]) -> Shape:
        fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
        lost = [name for name, f in cls.__dataclass_fields__.items() if str(f._field_type) == "_FIELD_INITVAR"]
        if lost:
            raise TypeError(f"{cls.__name__}.{lost[0]} is an InitVar, which nothing can restore")
        hints = self._hints(cls)
        parts = {name: self.shape(_filled(hints[name], given)) for name in fields}
        needed = {
            name
            for name, field in fields.items()
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }

        def dump(value: Any) -> Any:
            if type(value) is not cls:
                raise refused(value, made.name)
            return {name: _dumped(part, getattr(value, name), f".{name}") for name, part in parts.items()}

        def load(data: Any) -> Any:
            values = _loaded_parts(data, parts, needed, cls.__name__)
            try:
                return cls(**values)
            except (TypeError, ValueError) as error:
                raise Wrong(f"{cls.__name__}: {error}") from error

        return made.become(dump, load, rank=6)

    def _typed_dict(self, made: Shape, kind: Any) -> Shape:
        parts = {name: self.shape(hint) for name, hint in self._hints(kind).items()}
        # Where annotations are texts, `__required_keys__` has not seen what is inside them.
        marks = {name: typing.get_origin(hint) for name, hint in self._hints(kind, extras=True).items()}
        needed = {name for name, mark in marks.items() if mark is typing.Required}
        needed |= {name for name in kind.__required_keys__ if marks[name] is not typing.NotRequired}

        def dump(value: Any) -> Any:
            if not isinstance(value, dict):
                raise refused(value, made.name)
            return _checked(value, parts, needed, made.name, _dumped)

        return made.become(dump, lambda data: _loaded_parts(data, parts, needed, made.name), rank=6)

    def _named_tuple(self, made: Shape, cls: Any) -> Shape:
        hints = self._hints(cls)
        parts = [self.shape(hints.get(name, Any)) for name in cls._fields]

        def dump(value: Any) -> Any:
            if type(value) is not cls:
                raise refused(value, made.name)
            return [_dumped(part, each, f".{name}") for part, each, name in zip(parts, value, cls._fields, strict=True)]

        def load(data: Any) -> Any:
            return cls(*_loaded_in_order(data, parts, made.name))

        return made.become(dump, load, rank=6)

    def _tuple(self, made: Shape, args: tuple[Any, ...]) -> Shape:
        if not args or args[-1] is ...:
            return _many(made, self.shape((*args, Any)[0]), (tuple,), tuple)
        parts = [self.shape(arg) for arg in args]

        def dump(value: Any) -> Any:
            if not isinstance(value, tuple) or len(value) != len(parts):
                raise refused(value, made.name)
            return [_dumped(part, each, f"[{i}]") for i, (part, each) in enumerate(zip(parts, value, strict=True))]

        return made.become(dump, lambda data: tuple(_loaded_in_order(data, parts, made.name)), rank=9)


# -- one value inside another ----------------------------------------------------------------------------------------


def _dumped(part: Shape, value: Any, place: str) -> Any:
    try:
        return part.dump(value)
    except Wrong as wrong:
        raise wrong.inside(place) from None


def _loaded(part: Shape, data: Any, place: str) -> Any:
    try:
        return part.load(data)
    except Wrong as wrong:
        raise wrong.inside(place) from None


def _checked(
    data: Mapping[str, Any],
    parts: Mapping[str, Shape],
    needed: AbstractSet[str],
    name: str,
    each: Callable[[Shape, Any, str], Any],
) -> dict[str, Any]:
    unknown = [key for key in data if key not in parts]
    if unknown:
        raise Wrong(f"{name} has no field {unknown[0]!r}; it has {', '.join(parts) or 'none'}")
    missing = sorted(needed - data.keys())
    if missing:
        raise Wrong(f"{name} needs the field {missing[0]!r}")
    return {key: each(parts[key], value, f".{key}") for key, value in data.items()}


def _loaded_parts(data: Any, parts: Mapping[str, Shape], needed: AbstractSet[str], name: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise refused(data, name)
    return _checked(data, parts, needed, name, _loaded)


def _loaded_in_order(data: Any, parts: Sequence[Shape], name: str) -> list[Any]:
    if not isinstance(data, list) or len(data) != len(parts):
        raise refused(data, name)
    return [_loaded(part, each, f"[{i}]") for i, (part, each) in enumerate(zip(parts, data, strict=True))]


def _filled(hint: Any, given: Mapping[Any, Any]) -> Any:
    """The annotation of a field of a generic class, with what its parameters stand for."""
    if isinstance(hint, TypeVar):
        return given.get(hint, Any)
    unknown = getattr(hint, "__parameters__", ())
    return hint[tuple(given.get(each, Any) for each in unknown)] if unknown and typing.get_origin(hint) else hint


# -- shapes made of others -------------------------------------------------------------------------------------------


def _many(made: Shape, part: Shape, takes: tuple[type[Collection[Any]], ...], gives: Any) -> Shape:
    ordered = gives not in (set, frozenset)

    def dump(value: Any) -> list[Any]:
        if not isinstance(value, takes):
            raise refused(value, made.name)
        found = [_dumped(part, each, f"[{i}]") for i, each in enumerate(value)]
        return found if ordered else sorted(found, key=repr)  # the same set is always the same text

    def load(data: Any) -> Any:
        if not isinstance(data, list):
            raise refused(data, made.name)
        try:
            return gives(_loaded(part, each, f"[{i}]") for i, each in enumerate(data))
        except TypeError as error:  # a member that no set can hold
            raise Wrong(f"{made.name}: {error}") from error

    return made.become(dump, load, rank=9)


def _mapping(made: Shape, key: Shape, part: Shape) -> Shape:
    if not key.key:
        raise TypeError(f"{made.name}: an object of JSON has no keys of the type {key.name}")

    def dump(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise refused(value, made.name)
        return {str(_dumped(key, k, f"[{k!r}]")): _dumped(part, each, f"[{k!r}]") for k, each in value.items()}

    def load(data: Any) -> Any:
        if not isinstance(data, dict):
            raise refused(data, made.name)
        return {key.from_key(k): _loaded(part, each, f"[{k!r}]") for k, each in data.items()}

    return made.become(dump, load, rank=9)


def _union(made: Shape, members: list[Shape]) -> Shape:
    others = sorted((each for each in members if each.name != "None"), key=lambda each: each.rank)
    optional = len(others) < len(members)

    def dump(value: Any) -> Any:
        if value is None and optional:
            return None
        return others[0].dump(value) if len(others) == 1 else _as_one_of(value, others, made)

    def load(data: Any) -> Any:
        if data is None and optional:
            return None
        if len(others) == 1:
            return others[0].load(data)
        for each in others:
            with suppress(Wrong):
                return each.load(data)
        raise refused(data, made.name)

    return made.become(dump, load, rank=max(each.rank for each in members))


def _as_one_of(value: Any, members: list[Shape], union: Shape) -> Any:
    """Nothing in JSON says which member it was, so the value must come back the same, or it is refused."""
    other = None
    for each in members:
        with suppress(Wrong):
            data = each.dump(value)
            back = union.load(data)
            if type(back) is type(value) and back == value:
                return data
            other = other or named(type(back))
    if other:
        raise Wrong(f"{value!r:.60} would come back as {other}; give it a type of its own")
    raise refused(value, union.name)


def _literal(made: Shape, allowed: tuple[Any, ...]) -> Shape:
    pairs = [(each, each.value if isinstance(each, Enum) else each) for each in allowed]

    def dump(value: Any) -> Any:
        for each, data in pairs:
            if type(each) is type(value) and each == value:  # True is not 1
                return data
        raise refused(value, made.name)

    def load(data: Any) -> Any:
        for each, known in pairs:
            if type(known) is type(data) and known == data:
                return each
        raise refused(data, made.name)

    return made.become(dump, load, rank=2)


def _model(made: Shape, cls: Any) -> Shape:
    """A pydantic model, or what behaves like one."""

    def dump(value: Any) -> Any:
        if type(value) is not cls:
            raise refused(value, made.name)
        return value.model_dump(mode="json")

    def load(data: Any) -> Any:
        try:
            # From text, because a strict model takes a date as text only where JSON has nothing better.
            return cls.model_validate_json(json.dumps(data))
        except ValueError as error:
            raise Wrong(f"{cls.__name__}: {error}") from error

    return made.become(dump, load, rank=6)
