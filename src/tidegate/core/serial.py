"""Arguments and results as JSON: plain values, dataclasses, and pydantic models where that is installed."""

from __future__ import annotations

import base64
import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

Decode = Callable[[str], Any]


def encode(value: object, *, what: str = "arguments", most: int | None = None) -> str:
    """*value* as JSON; TypeError when it cannot be, ValueError when it is larger than *most* bytes."""
    try:
        text = json.dumps(value, default=_default, separators=(",", ":"), allow_nan=False)
    except TypeError as error:
        raise TypeError(f"{what}: {error}; give plain values, dataclasses or pydantic models") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: {error}") from error
    if most is not None and len(text) > most:
        raise ValueError(
            f"{what}: {len(text)} bytes of JSON are more than the {most} allowed; store it elsewhere, pass its name"
        )
    return text


def decoder(annotation: object) -> Decode:
    """The way back from JSON to *annotation*; ValueError from it when the text does not fit."""
    if hasattr(annotation, "model_validate_json"):
        return typing.cast("Decode", annotation.model_validate_json)
    return lambda text: restored(json.loads(text), annotation)


def restored(value: Any, annotation: object) -> Any:
    """*value*, as it came from JSON, turned into *annotation*."""
    if value is None or annotation in (Any, None, object) or annotation is dataclasses.MISSING:
        return value
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return _dataclass(value, annotation)
    if hasattr(annotation, "model_validate"):
        return annotation.model_validate(value)
    origin = typing.get_origin(annotation)
    if origin is not None:
        return _generic(value, origin, typing.get_args(annotation))
    return _plain(value, annotation)


def _dataclass(value: Any, cls: type) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{cls.__name__}: {value!r} is no object")
    hints = typing.get_type_hints(cls)
    fields = {field.name for field in dataclasses.fields(cls) if field.init}
    unknown = set(value) - fields
    if unknown:
        raise ValueError(f"{cls.__name__}: there is no field {sorted(unknown)[0]!r}")
    try:
        return cls(**{name: restored(each, hints.get(name, Any)) for name, each in value.items()})
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from error


def _generic(value: Any, origin: Any, args: tuple[Any, ...]) -> Any:
    if origin in (typing.Union, types.UnionType):
        return _first_that_fits(value, args)
    if origin in (list, set, frozenset) and isinstance(value, list):
        return origin(restored(each, args[0]) for each in value)
    if origin is tuple and isinstance(value, list):
        kinds = args[:1] * len(value) if len(args) == 2 and args[1] is ... else args
        return tuple(restored(each, kind) for each, kind in zip(value, kinds, strict=True))
    if origin is dict and isinstance(value, Mapping):
        return {restored(key, args[0]): restored(each, args[1]) for key, each in value.items()}
    return value


def _first_that_fits(value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return restored(value, kind)
        except (ValueError, TypeError):
            continue
    raise ValueError(f"{value!r} fits none of {kinds!r}")


def _plain(value: Any, kind: Any) -> Any:
    if kind in (datetime, date):
        return kind.fromisoformat(value)
    if kind is timedelta:
        return timedelta(seconds=value)
    if kind is bytes:
        return base64.b64decode(value)
    if isinstance(kind, type) and issubclass(kind, (Enum, UUID, Decimal, PurePath)):
        return kind(value)
    if kind is int and isinstance(value, str):
        return int(value)  # a key of an object
    if isinstance(kind, type) and kind in (int, float, str, bool) and not isinstance(value, (kind, int)):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _default(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (UUID, Decimal, PurePath)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (set, frozenset, tuple)):
        return sorted(value) if isinstance(value, (set, frozenset)) else list(value)
    raise TypeError(f"{type(value).__name__} {value!r:.60} cannot be stored")
