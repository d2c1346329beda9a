"""What an application's SQL may do: tables under its own name, plain values, nothing to the tables of others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from tidegate.store.migrate import Migration

_TEXT = re.compile(r"'(?:[^']|'')*'")
_COMMENT = re.compile(r"--[^\n]*")
_CHANGED = re.compile(
    r"\b(?:(?:create|drop)\s+(?:unique\s+|temp\s+|temporary\s+)*(?:table|index|view|trigger)\s+(?:if\s+(?:not\s+)?exists\s+)?"
    r"|alter\s+(?:table|index)\s+(?:if\s+exists\s+)?"
    r"|(?:insert|replace)\s+(?:or\s+\w+\s+)?into\s+|delete\s+from\s+"
    r"|(?<!do\s)(?<!for\s)(?<!key\s)update\s+(?:or\s+\w+\s+)?(?!of\b|skip\b|set\b))"
    r'"?([a-z_][a-z0-9_.]*)',
    re.IGNORECASE,
)
_WRITES = re.compile(
    r"\b(insert|update|delete|replace|create|drop|alter)\b|\{(for_update|skip_locked|not_removed)\}", re.IGNORECASE
)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
_COLUMNS = re.compile(r"\{rows ([^{}]*)\}")
_PLAIN = (int, float, str, bytes, type(None))
_TYPES = frozenset(_PLAIN)


@lru_cache(4096)  # an application is installed once for each queue
def parameters_of(body: str) -> frozenset[str]:
    """The parameters that a statement needs; `:now` is filled in."""
    bare = _bare(body)
    columns = [part.split()[0] for spec in _COLUMNS.findall(bare) for part in spec.split(",") if part.split()]
    return frozenset({*_PARAMETER.findall(_COLUMNS.sub("", bare)), *columns}) - {"now"}


@lru_cache(4096)
def writes(body: str) -> bool:
    """Whether a statement changes something, or keeps it still for somebody who will."""
    return _WRITES.search(_bare(body)) is not None


def check_statement(app: str, name: str, body: str) -> None:
    _own(app, f"statement {name!r}", body)


def check_migration(app: str, migration: Migration) -> None:
    _own(app, f"migration {migration.number:04}_{migration.name}", migration.text)


def check_values(name: str, needed: AbstractSet[str], given: Mapping[str, Any]) -> None:
    if given.keys() == needed and _TYPES.issuperset(map(type, given.values())):
        return  # as nearly always; a thousand rows are checked in a moment
    unknown = sorted(given.keys() - needed)
    if unknown:
        raise TypeError(f"{name}: there is no parameter {unknown[0]!r}; it has {', '.join(sorted(needed)) or 'none'}")
    missing = sorted(needed - given.keys())
    if missing:
        raise TypeError(f"{name}: it needs the parameter {missing[0]!r}")
    for key, value in given.items():
        # The databases disagree about everything else: a bool is a number for one and none for the other.
        if isinstance(value, bool) or not isinstance(value, _PLAIN):
            raise TypeError(f"{name}: {key}={value!r:.60} is no plain value; give a number, a text, bytes or None")


@lru_cache(4096)
def _own(app: str, what: str, sql: str) -> None:
    for table in _CHANGED.findall(_bare(sql)):
        if not table.lower().startswith(f"{app}_"):
            raise ValueError(
                f"{what}: {table!r} is not of {app}; the names of its tables and indexes begin with {app}_"
            )


def _bare(sql: str) -> str:
    """SQL without texts and comments."""
    return _COMMENT.sub("", _TEXT.sub("''", sql))
