"""Parses responses of services value by value. An invalid row is reported, and nothing is guessed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from tidegate_apps.music.provider import RejectedRow

T = TypeVar("T")
_MAX_TEXT = 1000  # characters of a title or a name
_MAX_TOKEN = 8192
_SHOWN = 160
_MBID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ISRC = re.compile(r"[A-Z]{2}[A-Z0-9]{3}[0-9]{7}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]+")  # not accepted by databases


class WrongShape(json.JSONDecodeError):
    """JSON that differs from the documented format. `classify` treats it as an unreadable response."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the answer has no {what}", "{}", 0)

    def __str__(self) -> str:
        return self.msg


class BadRow(ValueError):
    """One row cannot be used; the text says why."""


def mapping(value: object, what: str) -> Mapping[str, object]:
    """Return *value* as an object. Raises WrongShape with *what* it should have been."""
    if not isinstance(value, dict):
        raise WrongShape(what)
    return value


def part(value: object, *names: str) -> Mapping[str, object]:
    """Return the object at the end of *names*; empty if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def rows(value: object, what: str) -> list[object]:
    """Return a list. A single row may come without a list, and no rows as null."""
    match value:
        case None:
            return []
        case list():
            return value
        case dict():
            return [value]
    raise WrongShape(what)


def text(value: object) -> str:
    """Return text in one line, truncated; empty for other types. A number becomes text."""
    if isinstance(value, str):
        return _CONTROL.sub(" ", value[: 4 * _MAX_TEXT]).strip()[:_MAX_TEXT]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def token(value: object) -> str:
    """Return a credential unchanged; empty if it cannot be one."""
    return value if isinstance(value, str) and len(value) <= _MAX_TOKEN and value.isprintable() else ""


def required_text(row: Mapping[str, object], name: str) -> str:
    """Return a required text. Raises BadRow."""
    value = text(row.get(name))
    if not value:
        raise BadRow(f"it has no {name}")
    return value


def number(value: object) -> float | None:
    """Return a number, also from text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def moment(value: object) -> float | None:
    """Return a UNIX time, from seconds or ISO 8601; None for anything else, and before 1971."""
    timestamp = number(value)
    if timestamp is None and isinstance(value, str):
        try:
            read = datetime.fromisoformat(value[:64])
            timestamp = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    return timestamp if timestamp is not None and 31_536_000 <= timestamp < 253_402_300_800 else None


def mbid(value: object) -> str | None:
    """Return a MusicBrainz id; None for anything else."""
    candidate = value.strip().lower() if isinstance(value, str) else ""
    return candidate if _MBID.fullmatch(candidate) else None


def isrc(value: object) -> str | None:
    """Return the first ISRC of a text or a list."""
    first = value[0] if isinstance(value, list) and value else value
    candidate = first.replace("-", "").strip().upper() if isinstance(first, str) else ""
    return candidate if _ISRC.fullmatch(candidate) else None


def read_rows(
    found: Iterable[object], read: Callable[[Mapping[str, object]], T | None]
) -> tuple[list[T], list[RejectedRow]]:
    """Parse each row; return the results and the rejected rows. *read* returns None to skip a row."""
    good: list[T] = []
    bad: list[RejectedRow] = []
    for row in found:
        try:
            item = read(_object(row))
        except BadRow as error:
            bad.append(RejectedRow(row=shown(row), why=str(error)))
        else:
            if item is not None:
                good.append(item)
    return good, bad


def _object(row: object) -> Mapping[str, object]:
    if not isinstance(row, dict):
        raise BadRow("it is not an object")
    return row


def shown(row: object) -> str:
    """Return the start of a row in one line."""
    return json.dumps(row, ensure_ascii=True, default=str)[:_SHOWN]
