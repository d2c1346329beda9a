"""Arrays as PostgreSQL reads them. Its driver dumps value by value, which took longer than the rest of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_NOTHING = type(None)


def array(values: list[Any]) -> Any:
    """The literal of an array of texts or numbers; of anything else the list as it is, for the driver to dump."""
    kinds = frozenset(map(type, values))
    written = _WRITTEN.get(kinds)
    return values if written is None else written(values)


def _texts(values: list[str]) -> Any:
    one = "\0".join(values)
    if one.count("\0") >= len(values):
        return values  # no database keeps a NUL: the driver says so
    return '{"' + one.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","') + '"}'


def _texts_with_gaps(values: list[str | None]) -> str:
    quoted = ["NULL" if text is None else f'"{_escaped(text)}"' for text in values]
    return "{" + ",".join(quoted) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if "\\" in text or '"' in text else text


def _numbers(values: list[float]) -> str:
    return "{" + ",".join(map(repr, values)) + "}"


def _numbers_with_gaps(values: list[float | None]) -> str:
    return "{" + ",".join(["NULL" if number is None else repr(number) for number in values]) + "}"


def _gaps(values: list[None]) -> str:
    return "{" + ",".join(["NULL"] * len(values)) + "}"


_WRITTEN: dict[frozenset[type], Callable[[Any], Any]] = {
    frozenset({str}): _texts,
    frozenset({str, _NOTHING}): _texts_with_gaps,
    frozenset({_NOTHING}): _gaps,
    **{frozenset(kinds): _numbers for kinds in ({int}, {float}, {int, float})},
    **{frozenset({*kinds, _NOTHING}): _numbers_with_gaps for kinds in ({int}, {float}, {int, float})},
}
