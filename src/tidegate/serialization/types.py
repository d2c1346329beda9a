"""Converts a type annotation to two functions: from a value to JSON, and back.

They are created once per kind of job. They check values before writing: a value that does not fit is rejected, and a
value that was written comes back unchanged.
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


def shape_of(annotation: object, scope: Mapping[str, object] | None = None) -> Shape:
    """Returns the shape of *annotation*. TypeError if JSON cannot represent it.

    *scope* has names for its annotations, in addition to those of their modules.
    """
    return _Maker(scope or {}).shape(annotation)


class _Maker:
    def __init__(self, scope: Mapping[str, object]) -> None:
        self._scope = dict(scope)
        self._made: dict[Any, Shape] = {}

    def shape(self, kind: Any) -> Shape:
        """Returns the only shape of *kind*. A recursive type gets the shape that is being built."""
        try:
            shape = self._made.get(kind)
        except TypeError:  # an annotation with an unhashable part
            return self._make(Shape(named(kind)), kind)
        if shape is None:
            shape = self._made[kind] = Shape(named(kind))
            self._make(shape, kind)
        return shape

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
        raise TypeError(f"{made.name} cannot be stored; give plain values, dataclasses or enums")

    # -- types with named parts ----------------------------------------------------------------------------------

    def _hints(self, kind: Any, *, extras: bool = False) -> dict[str, object]:
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
            raise TypeError(f"{cls.__name__}.{lost[0]} is an InitVar, which cannot be restored; make it a field")
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
        # With string annotations, `__required_keys__` does not know their content.
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
            return [_dumped(part, item, f".{name}") for part, item, name in zip(parts, value, cls._fields, strict=True)]

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
            return [_dumped(part, item, f"[{i}]") for i, (part, item) in enumerate(zip(parts, value, strict=True))]

        return made.become(dump, lambda data: tuple(_loaded_in_order(data, parts, made.name)), rank=9)


# -- nested values ---------------------------------------------------------------------------------------------------


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
    data: Mapping[str, object],
    parts: Mapping[str, Shape],
    needed: AbstractSet[str],
    name: str,
    each: Callable[[Shape, Any, str], Any],
) -> dict[str, object]:
    unknown = [key for key in data if key not in parts]
    if unknown:
        raise Wrong(f"{name} has no field {unknown[0]!r}; it has {', '.join(parts) or 'none'}")
    missing = sorted(needed - data.keys())
    if missing:
        raise Wrong(f"{name} needs the field {missing[0]!r}")
    return {key: each(parts[key], value, f".{key}") for key, value in data.items()}


def _loaded_parts(data: Any, parts: Mapping[str, Shape], needed: AbstractSet[str], name: str) -> dict[str, object]:
    if not isinstance(data, dict):
        raise refused(data, name)
    return _checked(data, parts, needed, name, _loaded)


def _loaded_in_order(data: Any, parts: Sequence[Shape], name: str) -> list[Any]:
    if not isinstance(data, list) or len(data) != len(parts):
        raise refused(data, name)
    return [_loaded(part, item, f"[{i}]") for i, (part, item) in enumerate(zip(parts, data, strict=True))]


def _filled(hint: Any, given: Mapping[Any, Any]) -> Any:
    """Returns the annotation of a field of a generic class, with its type parameters filled in."""
    if isinstance(hint, TypeVar):
        return given.get(hint, Any)
    unknown = getattr(hint, "__parameters__", ())
    return (
        hint[tuple(given.get(parameter, Any) for parameter in unknown)] if unknown and typing.get_origin(hint) else hint
    )


# -- composite shapes ------------------------------------------------------------------------------------------------


def _many(made: Shape, part: Shape, takes: tuple[type[Collection[Any]], ...], gives: Any) -> Shape:
    ordered = gives not in (set, frozenset)

    def dump(value: Any) -> list[Any]:
        if not isinstance(value, takes):
            raise refused(value, made.name)
        items = [_dumped(part, item, f"[{i}]") for i, item in enumerate(value)]
        return items if ordered else sorted(items, key=repr)  # the same set always gives the same text

    def load(data: Any) -> Any:
        if not isinstance(data, list):
            raise refused(data, made.name)
        try:
            return gives(_loaded(part, item, f"[{i}]") for i, item in enumerate(data))
        except TypeError as error:  # a member that is not hashable
            raise Wrong(f"{made.name}: {error}") from error

    return made.become(dump, load, rank=9)


def _mapping(made: Shape, key: Shape, part: Shape) -> Shape:
    if not key.key:
        raise TypeError(f"{made.name}: a JSON object has no keys of the type {key.name}; use str or int")

    def dump(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise refused(value, made.name)
        return {str(_dumped(key, k, f"[{k!r}]")): _dumped(part, item, f"[{k!r}]") for k, item in value.items()}

    def load(data: Any) -> Any:
        if not isinstance(data, dict):
            raise refused(data, made.name)
        return {key.from_key(k): _loaded(part, item, f"[{k!r}]") for k, item in data.items()}

    return made.become(dump, load, rank=9)


def _union(made: Shape, members: list[Shape]) -> Shape:
    others = sorted((member for member in members if member.name != "None"), key=lambda member: member.rank)
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
        for member in others:
            with suppress(Wrong):
                return member.load(data)
        raise refused(data, made.name)

    return made.become(dump, load, rank=max(member.rank for member in members))


def _as_one_of(value: Any, members: list[Shape], union: Shape) -> Any:
    """JSON does not tell which member it was. So the value must come back unchanged, or it is rejected."""
    other = None
    for member in members:
        with suppress(Wrong):
            data = member.dump(value)
            back = union.load(data)
            if type(back) is type(value) and back == value:
                return data
            other = other or named(type(back))
    if other:
        raise Wrong(f"{value!r:.60} would come back as {other}; give it a type of its own")
    raise refused(value, union.name)


def _literal(made: Shape, allowed: tuple[Any, ...]) -> Shape:
    pairs = [(option, option.value if isinstance(option, Enum) else option) for option in allowed]

    def dump(value: Any) -> Any:
        for option, data in pairs:
            if type(option) is type(value) and option == value:  # True is not 1
                return data
        raise refused(value, made.name)

    def load(data: Any) -> Any:
        for option, known in pairs:
            if type(known) is type(data) and known == data:
                return option
        raise refused(data, made.name)

    return made.become(dump, load, rank=2)


def _model(made: Shape, cls: Any) -> Shape:
    """A pydantic model, or a compatible class."""

    def dump(value: Any) -> Any:
        if type(value) is not cls:
            raise refused(value, made.name)
        return value.model_dump(mode="json")

    def load(data: Any) -> Any:
        try:
            # From text, because a strict model accepts a date as text only in JSON mode.
            return cls.model_validate_json(json.dumps(data))
        except ValueError as error:
            raise Wrong(f"{cls.__name__}: {error}") from error

    return made.become(dump, load, rank=6)
