"""Arguments and results as JSON: plain values, dataclasses, and pydantic models where that is installed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from tidegate.serialization.scalars import Shape, Wrong, named
from tidegate.serialization.types import shape_of

MAX_BYTES = 1_000_000  # bytes of JSON, unless said otherwise


class Serial:
    """The way of one annotation into JSON and back.

    serial = Serial(Submission)
    text = serial.encode(Submission(...))
    """

    __slots__ = ("shape",)

    def __init__(self, annotation: object = Any, scope: Mapping[str, Any] | None = None) -> None:
        """TypeError when *annotation* is nothing that JSON can hold; *scope* has names that it may use."""
        self.shape: Shape = shape_of(annotation, scope)

    @property
    def name(self) -> str:
        """What people call the annotation."""
        return self.shape.name

    def encode(self, value: object, *, what: str = "arguments", limit: int | None = None) -> str:
        """*value* as JSON; TypeError when it does not fit, ValueError when it is too large or nests too deeply."""
        try:
            data = self.shape.dump(value)
        except Wrong as wrong:
            raise TypeError(f"{what}{wrong.path}: {wrong.text}") from None
        except RecursionError:
            raise ValueError(f"{what}: it nests too deeply, or contains itself") from None
        return encode(data, what=what, limit=limit)

    def decode(self, text: str) -> Any:
        """The value that *text* stands for; ValueError when it does not fit."""
        try:
            return self.shape.load(json.loads(text))
        except Wrong as wrong:
            raise ValueError(f"{wrong.path.lstrip('.') or self.shape.name}: {wrong.text}") from wrong.__cause__
        except RecursionError:
            raise ValueError(f"{self.shape.name}: it nests too deeply") from None


def encode(value: object, *, what: str = "arguments", limit: int | None = None) -> str:
    """*value* as JSON, whatever it is; TypeError when it cannot be, ValueError when it is larger than *most* bytes."""
    try:
        # A number, such as the id of a row, is what most jobs are given; the encoder is slow to set out.
        text = int.__repr__(value) if type(value) is int else _ENCODER.encode(value)
    except TypeError as error:
        raise TypeError(f"{what}: {error}; give plain values, dataclasses or pydantic models") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: {error}") from None
    if limit is not None:
        check_size(text, limit, what)
    return text


def check_size(text: str, limit: int, what: str) -> None:
    """ValueError when *text* is larger than *most* bytes."""
    if len(text) > limit:
        raise ValueError(
            f"{what}: {len(text)} bytes of JSON are more than the {limit} allowed; store it elsewhere, pass its name"
        )


def _default(value: object) -> object:
    """What JSON can hold instead of *value*, which has no annotation."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (UUID, Decimal, PurePath)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, bytes):
        return shape_of(bytes).dump(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r:.60} of the type {named(type(value))} cannot be stored")


_ENCODER = json.JSONEncoder(default=_default, separators=(",", ":"), allow_nan=False)
