"""Writes XML that is always well-formed: text is escaped, signs that XML cannot hold are left out, tags are closed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import IO, NamedTuple, NewType, Self

# A document as plain values: what the pages say and where it stands, with nothing of the library that read it.
#
# Lengths are points (1/72 inch). Boxes count from the top left corner of the page as it is shown, after its rotation.


class Content(StrEnum):
    """What a page is made of."""

    TEXT = "text"
    SCAN = "scan"  # something is drawn, and none of it is text
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
    """Words that stand side by side; *broken*: the last one goes on in the next line, after a hyphen."""

    words: tuple[TextWord, ...]
    box: Box
    size: float  # of the word in its middle, as is the font
    font: str
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    number: int
    label: str  # what the document itself calls the page, such as "iv"
    content: Content
    width: float = 0.0
    height: float = 0.0
    rotation: int = 0
    lines: tuple[TextLine, ...] = ()
    images: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineEntry:
    """One line of the outline; *level* counts from 0, *page* is None when the entry leads nowhere."""

    title: str
    level: int
    page: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentHead:
    """What is known before the pages are read. *about* has the fields that the document fills, by our names."""

    pages: int
    version: str
    about: tuple[tuple[str, str], ...]
    outline: tuple[OutlineEntry, ...]


# Attributes that are escaped already: only this file makes them.
Attributes = NewType("Attributes", str)
NONE = Attributes("")

_FORBIDDEN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TO_ESCAPE = re.compile('[&<>"\t\n\r]')
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_FLUSH = 512  # pieces
_FARTHEST = 1_000_000.0  # points; no page is that large
_MAX_BOX_LENGTH = len(' x="-999999.00" y="-999999.00" width="-999999.00" height="-999999.00"')


class TooLong(Exception):
    """The document would be larger than allowed."""


def clean(text: str) -> str:
    """*text* without the signs that no XML document may hold."""
    return text if text.isalnum() else _FORBIDDEN.sub("", text)


def escaped(text: str) -> str:
    if text.isalnum():  # as most words are
        return text
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], clean(text))


def attributes(**values: str | int) -> Attributes:
    """Attributes by name; an underscore in a name is a hyphen."""
    found = (f' {name.replace("_", "-")}="{escaped(str(value))}"' for name, value in values.items())
    return Attributes("".join(found))


def number(value: float) -> str:
    """*value* with two digits, within what a page can have; what is no number is 0."""
    if not -_FARTHEST < value < _FARTHEST:
        value = 0.0 if value != value else max(-_FARTHEST, min(_FARTHEST, value))  # noqa: PLR0124 - the test for NaN
    return f"{value:.2f}"


def boxed(box: tuple[float, float, float, float]) -> Attributes:
    """The place of something: x, y, width and height."""
    found = ' x="%.2f" y="%.2f" width="%.2f" height="%.2f"' % box  # noqa: UP031 - of a million words, it takes half as long
    if len(found) > _MAX_BOX_LENGTH or "n" in found:  # nan, inf
        x, y, width, height = map(number, box)
        found = f' x="{x}" y="{y}" width="{width}" height="{height}"'
    return Attributes(found)


class Xml:
    """Elements one after the other into *out*, at most *most* bytes of them; *pretty* puts each on a line of its own.

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
        """An element that holds nothing but *text*."""
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
        """*pending* is what the tag that was written last still lacks."""
        self._bare = bool(pending)
        self._before = f"{pending}\n{'  ' * len(self._open)}" if self._pretty else pending

    def _flush(self) -> None:
        data = "".join(self._pieces).encode()
        self._pieces.clear()
        self.bytes += len(data)
        if self.bytes > self._limit:
            raise TooLong
        self._out.write(data)
