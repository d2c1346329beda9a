"""Durations as people write them: 30, 1.5, "30s", "1h30m", timedelta."""

from __future__ import annotations

import re
from datetime import timedelta

MAX_SECONDS = 36525 * 86400.0  # a hundred years; sleeping longer overflows
_ALLOWED = "a number of seconds, a text such as '30s', '5m' or '1h30m', or a timedelta"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MAX_TEXT = 100
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)", re.ASCII)

Duration = float | int | str | timedelta


def seconds(value: object, *, field: str = "duration", minimum: float = 0.0) -> float:
    """Seconds in *value*; ValueError names *field* when it is no duration, below *least* or above a hundred years."""
    if isinstance(value, timedelta):
        found = value.total_seconds()
    elif isinstance(value, str):
        found = _parse(value, field)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found = value
    else:
        raise TypeError(f"{field}: {value!r} is no duration; give {_ALLOWED}")
    if not minimum <= found <= MAX_SECONDS:  # a NaN is neither
        raise ValueError(
            f"{field}: {value!r} is not allowed; give {minimum:g} seconds or more, and finite (a hundred years)"
        )
    return float(found)


def _parse(text: str, field: str) -> float:
    stripped = text.strip()
    total, at = 0.0, 0
    for part in _PART.finditer(stripped[:_MAX_TEXT]):
        if stripped[at : part.start()].strip():
            break
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not stripped or stripped[at:].strip():
        raise ValueError(f"{field}: {text!r} is no duration; give {_ALLOWED}")
    return total


def brief(value: float) -> str:
    """The shortest usual way to write *value* seconds: 90 -> '1m30s', 0.25 -> '250ms'."""
    if value < 0.9995:
        return f"{value * 1000:.0f}ms" if value else "0s"
    parts, rest = [], round(value)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    return "".join(parts[:2])
