"""Shapes without parts: numbers, text, times, and their JSON form."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from pathlib import PurePath
from typing import Any, Self
from uuid import UUID


class Wrong(Exception):
    """A value that does not fit, and its path inside the whole value."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text, path)
        self.text = text
        self.path = path

    def inside(self, place: str) -> Self:
        self.path = place + self.path
        return self


def refused(value: object, name: str) -> Wrong:
    return Wrong(f"{value!r:.60} is not of type {name}")


def named(kind: Any) -> str:
    """Returns the name of a type as users write it: `int`, `list[int]`, `Submission`."""
    if kind is None or kind is type(None):
        return "None"
    if isinstance(kind, type):
        return kind.__qualname__.rpartition("<locals>.")[2]
    if hasattr(kind, "__supertype__"):
        return str(kind.__name__)
    return str(kind).replace("typing.", "").replace("collections.abc.", "")


def _same(value: Any) -> Any:
    return value


class Shape:
    """Converts one type to JSON and back. By default it accepts any JSON value unchanged."""

    __slots__ = ("dump", "from_key", "key", "load", "name", "rank")

    def __init__(self, name: str) -> None:
        self.name = name
        self.dump: Callable[[Any], Any] = _same
        self.load: Callable[[Any], Any] = _same
        self.from_key: Callable[[str], Any] = _same
        self.rank = 20  # a union tries lower ranks first: they reject more
        self.key = True  # whether it may be a key of an object

    def become(self, dump: Callable[[Any], Any], load: Callable[[Any], Any], *, rank: int, key: bool = False) -> Shape:
        self.dump, self.load, self.rank, self.key, self.from_key = dump, load, rank, key, load
        return self

    def copy(self, other: Shape) -> Shape:
        """Delegates to *other*, which may be incomplete: it is read on use."""

        def dump(value: Any) -> Any:
            return other.dump(value)

        def load(data: Any) -> Any:
            return other.load(data)

        def from_key(text: str) -> Any:
            return other.from_key(text)

        self.become(dump, load, rank=other.rank, key=other.key)
        self.from_key = from_key
        return self


def fill(made: Shape, kind: Any) -> bool:
    """Makes *made* the shape of *kind* if it is a plain one."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, Enum):
        _enum(made, kind)
    elif kind in _EXACT:
        _EXACT[kind](made)
    elif issubclass(kind, (UUID, Decimal, PurePath)):
        _written(made, kind, str, kind, rank=12 if issubclass(kind, PurePath) else 7)
    elif issubclass(kind, (str, int, float)):
        _derived(made, kind)
    else:
        return False
    return True


def _none(made: Shape) -> None:
    made.become(_only(made, type(None)), _only(made, type(None)), rank=0)


def _only(made: Shape, *kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, kinds) and (type(value) is not bool or bool in kinds):
            return value
        raise refused(value, made.name)

    return check


def _bool(made: Shape) -> None:
    made.become(_only(made, bool), _only(made, bool), rank=1)


def _int(made: Shape) -> None:
    made.become(_only(made, int), _only(made, int), rank=5, key=True)
    made.from_key = _key(made, int)


def _float(made: Shape) -> None:
    number = _only(made, int, float)

    def dump(value: Any) -> Any:
        if not math.isfinite(load(value)):
            raise Wrong(f"{value!r} is not a number that JSON can represent")
        return value

    def load(data: Any) -> Any:
        try:
            return float(number(data))
        except OverflowError as error:  # an integer that no float can represent
            raise refused(data, made.name) from error

    made.become(dump, load, rank=6)


def _str(made: Shape) -> None:
    made.become(_only(made, str), _only(made, str), rank=12, key=True)


def _bytes(made: Shape) -> None:
    def dump(value: Any) -> Any:
        if not isinstance(value, bytes):
            raise refused(value, made.name)
        return base64.b64encode(value).decode()

    def load(data: Any) -> Any:
        try:
            return base64.b64decode(_text(data, made), validate=True)
        except (binascii.Error, ValueError) as error:
            raise Wrong(f"{data!r:.60} is not valid base64") from error

    made.become(dump, load, rank=10, key=True)


def _timedelta(made: Shape) -> None:
    number = _only(made, int, float)

    def dump(value: Any) -> Any:
        if not isinstance(value, timedelta):
            raise refused(value, made.name)
        return value.total_seconds()

    def load(data: Any) -> Any:
        try:
            return timedelta(seconds=number(data))
        except (OverflowError, ValueError) as error:
            raise refused(data, made.name) from error

    made.become(dump, load, rank=8)


def _moment(kind: type) -> Callable[[Shape], None]:
    def make(made: Shape) -> None:
        def dump(value: Any) -> Any:
            # In Python a datetime is a date, but it would come back without its time.
            if not isinstance(value, kind) or (kind is date and isinstance(value, datetime)):
                raise refused(value, made.name)
            return value.isoformat()  # type: ignore[attr-defined]

        def load(data: Any) -> Any:
            try:
                return kind.fromisoformat(_text(data, made))  # type: ignore[attr-defined]
            except ValueError as error:
                raise refused(data, made.name) from error

        made.become(dump, load, rank=8 if kind is datetime else 7, key=True)

    return make


def _written(made: Shape, kind: Any, out: Callable[[Any], str], back: Callable[[str], Any], *, rank: int) -> None:
    def dump(value: Any) -> Any:
        if not isinstance(value, kind):
            raise refused(value, made.name)
        return out(value)

    def load(data: Any) -> Any:
        try:
            return back(_text(data, made))
        except (ValueError, InvalidOperation) as error:
            raise refused(data, made.name) from error

    made.become(dump, load, rank=rank, key=True)


def _derived(made: Shape, kind: Any) -> None:
    """A subclass of str, int or float. A union tries it before the plain type, as with enums."""
    base = next(plain_type for plain_type in (str, int, float) if issubclass(kind, plain_type))
    check = _only(made, base)

    def dump(value: Any) -> Any:
        if not isinstance(value, kind):
            raise refused(value, made.name)
        return base(value)

    made.become(dump, lambda data: kind(check(data)), rank=11 if base is str else 4, key=base is not float)
    made.from_key = _key(made, kind)


def _enum(made: Shape, kind: type[Enum]) -> None:
    """By value if all values are plain, else by name."""
    plain = all(isinstance(member.value, (str, int, float)) for member in kind)
    is_text = all(isinstance(member.value, str) for member in kind) or not plain

    def dump(value: Any) -> Any:
        if not isinstance(value, kind):
            raise refused(value, made.name)
        return value.value if plain else value.name

    def load(data: Any) -> Any:
        try:
            member = kind(data) if plain else kind[data]
        except (ValueError, KeyError, TypeError) as error:
            raise refused(data, made.name) from error
        if plain and not isinstance(member.value, type(data)):  # in Python, True and 1.0 equal 1
            raise refused(data, made.name)
        return member

    made.become(dump, load, rank=3, key=is_text)


def _key(made: Shape, kind: Any) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise refused(text, made.name) from error

    return read


def _text(data: Any, made: Shape) -> str:
    if not isinstance(data, str):
        raise refused(data, made.name)
    return data


_EXACT: dict[type, Callable[[Shape], None]] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    timedelta: _timedelta,
    datetime: _moment(datetime),
    date: _moment(date),
    time: _moment(time),
}
