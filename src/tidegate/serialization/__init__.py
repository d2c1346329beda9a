"""Arguments and results as JSON: plain values, dataclasses, and pydantic models if pydantic is installed."""

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

MAX_BYTES = 1_000_000  # default size limit of JSON


class Serial:
    """Converts values of one annotation to JSON and back.

    serial = Serial(Submission)
    text = serial.encode(Submission(...))
    """

    __slots__ = ("shape",)

    def __init__(self, annotation: object = Any, scope: Mapping[str, object] | None = None) -> None:
        """TypeError if JSON cannot represent *annotation*. *scope* has names that it may use."""
        self.shape: Shape = shape_of(annotation, scope)

    @property
    def name(self) -> str:
        """The name of the annotation for users."""
        return self.shape.name

    def encode(self, value: object, *, what: str = "arguments", limit: int | None = None) -> str:
        """Returns *value* as JSON. TypeError if it does not fit, ValueError if it is too large or nested too deeply."""
        try:
            data = self.shape.dump(value)
        except Wrong as wrong:
            raise TypeError(f"{what}{wrong.path}: {wrong.text}") from None
        except RecursionError:
            raise ValueError(f"{what}: it nests too deeply, or contains itself; store a flatter value") from None
        return encode(data, what=what, limit=limit)

    def decode(self, text: str) -> Any:
        """Returns the value of *text*. ValueError if it does not fit."""
        try:
            return self.shape.load(json.loads(text))
        except Wrong as wrong:
            raise ValueError(f"{wrong.path.lstrip('.') or self.shape.name}: {wrong.text}") from wrong.__cause__
        except RecursionError:
            raise ValueError(f"{self.shape.name}: it nests too deeply; store a flatter value") from None


def encode(value: object, *, what: str = "arguments", limit: int | None = None, exact: bool = False) -> str:
    """Returns any *value* as JSON. TypeError if that is impossible, ValueError above *limit* bytes.

    With *exact*, TypeError also for a value that JSON has no type for: a datetime would come back as a string.
    """
    try:
        # Most jobs get one number, such as a row id, and the setup of the encoder is slow.
        text = int.__repr__(value) if type(value) is int else (_EXACT if exact else _ENCODER).encode(value)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: {error}") from None
    if limit is not None:
        check_size(text, limit, what)
    return text


def check_size(text: str, limit: int, what: str) -> None:
    """ValueError if *text* is larger than *limit* bytes."""
    if len(text) > limit:
        raise ValueError(
            f"{what}: {len(text)} bytes of JSON are more than the {limit} allowed; store it elsewhere, pass its name"
        )


def _default(value: object) -> object:
    """Returns a JSON value for *value*, which has no annotation."""
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
    raise TypeError(
        f"{value!r:.60} of the type {named(type(value))} cannot be stored; give plain values, dataclasses or pydantic "
        "models"
    )


def _exact_default(value: object) -> object:
    """As `_default`, for a value that must come back with its type."""
    data = _default(value)
    if isinstance(value, Mapping):
        return data
    raise TypeError(
        f"{value!r:.60} has no annotation and would come back as a {named(type(data))}; annotate it with "
        f"{named(type(value))}"
    )


_ENCODER = json.JSONEncoder(default=_default, separators=(",", ":"), allow_nan=False)
_EXACT = json.JSONEncoder(default=_exact_default, separators=(",", ":"), allow_nan=False)
