"""Documents as plain values, and a writer of well-formed XML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, NamedTuple, NewType, Self

# -- document values, without types of the PDF library -----------------------------------------------------------------
# Lengths are points (1/72 inch), boxes count from the top left.


class Content(StrEnum):
    """What a page contains."""

    TEXT = "text"
    SCAN = "scan"  # something is drawn, but no text
    BLANK = "blank"
    UNREADABLE = "unreadable"


# Tuples, because a long document has a million of them.
class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float


class TextWord(NamedTuple):
    text: str
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLine:
    """Words on one line; *broken*: the last word continues on the next line after a hyphen."""

    words: tuple[TextWord, ...]
    box: Box
    size: float  # size and font are those of the middle word
    font: str
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    number: int
    label: str  # the page label of the document, such as "iv"
    content: Content
    width: float = 0.0
    height: float = 0.0
    rotation: int = 0
    lines: tuple[TextLine, ...] = ()
    images: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineEntry:
    """One entry of the outline; *level* counts from 0, *page* is None for an entry without a target."""

    title: str
    level: int
    page: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHead:
    """What is known before the pages are read. *about* has the metadata fields that the document sets."""

    pages: int
    version: str
    about: tuple[tuple[str, str], ...]
    outline: tuple[OutlineEntry, ...]


# Escaped attributes. Only this module creates them.
Attributes = NewType("Attributes", str)
NONE = Attributes("")

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TO_ESCAPE = re.compile('[&<>"\t\n\r]')
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_FLUSH = 512  # parts per write
_FARTHEST = 1_000_000.0  # points; no page is larger
_MAX_BOX_LENGTH = len(' x="-999999.00" y="-999999.00" width="-999999.00" height="-999999.00"')


class TooLong(Exception):
    """The XML would exceed its size limit."""


def clean(text: str) -> str:
    """Return *text* without characters that XML does not allow."""
    return text if text.isalnum() else _FORBIDDEN.sub("", text)


def escaped(text: str) -> str:
    if text.isalnum():  # the common case
        return text
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], clean(text))


def attributes(**values: str | int) -> Attributes:
    """Return attributes by name. An underscore in a name becomes a hyphen."""
    parts = (f' {name.replace("_", "-")}="{escaped(str(value))}"' for name, value in values.items())
    return Attributes("".join(parts))


def number(value: float) -> str:
    """Return *value* with two digits, within the bounds of a page; 0 if it is not a number."""
    if not -_FARTHEST < value < _FARTHEST:
        value = 0.0 if value != value else max(-_FARTHEST, min(_FARTHEST, value))  # noqa: PLR0124 - the test for NaN
    return f"{value:.2f}"


def boxed(box: tuple[float, float, float, float]) -> Attributes:
    """Return the attributes x, y, width and height."""
    text = ' x="%.2f" y="%.2f" width="%.2f" height="%.2f"' % box  # noqa: UP031 - of a million words, it takes half as long
    if len(text) > _MAX_BOX_LENGTH or "n" in text:  # nan, inf
        x, y, width, height = map(number, box)
        text = f' x="{x}" y="{y}" width="{width}" height="{height}"'
    return Attributes(text)


class Xml:
    """Writes elements to *out*, up to *limit* bytes. *pretty* puts each on its own line.

    with Xml(out, pretty=True) as xml:
        xml.begin("page", attributes(number=1))
        xml.leaf("line", "a < b")
        xml.end()
    """

    def __init__(self, out: IO[bytes], *, pretty: bool = False, limit: int = 1 << 40) -> None:
        self._out, self._pretty, self._limit = out, pretty, limit
        self._open: list[str] = []
        self._pieces = ['<?xml version="1.0" encoding="UTF-8"?>\n']
        self._before, self._bare = "", False
        self.bytes = 0

    def begin(self, tag: str, given: Attributes = NONE) -> None:
        self._pieces.append(f"{self._before}<{tag}{given}")
        self._open.append(tag)
        self._indent(">")  # or "/>", should it end at once

    def leaf(self, tag: str, text: str = "", given: Attributes = NONE) -> None:
        """Write an element that contains only *text*."""
        inner = f">{escaped(text)}</{tag}>" if text else "/>"
        self._pieces.append(f"{self._before}<{tag}{given}{inner}")
        if self._bare:
            self._indent()
        if len(self._pieces) >= _FLUSH:
            self._flush()

    def end(self) -> None:
        tag, bare = self._open.pop(), self._bare
        self._indent()
        self._pieces.append("/>" if bare else f"{self._before}</{tag}>")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            while self._open:
                self.end()
            self._pieces.append("\n")
            self._flush()

    def _indent(self, pending: str = "") -> None:
        """*pending* completes the tag that was written last."""
        self._bare = bool(pending)
        self._before = f"{pending}\n{'  ' * len(self._open)}" if self._pretty else pending

    def _flush(self) -> None:
        data = "".join(self._pieces).encode()
        self._pieces.clear()
        self.bytes += len(data)
        if self.bytes > self._limit:
            raise TooLong
        self._out.write(data)
