"""A document as plain values: what the pages say and where it stands, with nothing of the library that read it.

Lengths are points (1/72 inch). Boxes count from the top left corner of the page as it is shown, after its rotation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


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
