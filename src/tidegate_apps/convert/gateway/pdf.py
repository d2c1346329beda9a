"""Reads PDFs with PDFium: metadata, outline, and lines and words with their boxes."""

from __future__ import annotations

import ctypes
import logging
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pypdfium2 as pdfium  # type: ignore[import-untyped]
from pypdfium2 import raw

from tidegate_apps.convert.gateway.document import (
    Box,
    Content,
    DocumentHead,
    DocumentPage,
    OutlineEntry,
    TextLine,
    TextWord,
    clean,
)

# -- coordinates: PDF counts from the bottom left before rotation, we from the top left after it -----------------------


class Frame(NamedTuple):
    """The visible part of a page in PDF coordinates, and its clockwise rotation."""

    left: float
    bottom: float
    right: float
    top: float
    rotation: int

    def place(self, left: float, bottom: float, right: float, top: float) -> Box:
        """Return a box in page coordinates, from PDF coordinates."""
        if not self.rotation:
            return Box(left - self.left, self.top - top, right - left, top - bottom)
        if self.rotation == 180:
            return Box(self.right - right, bottom - self.bottom, right - left, top - bottom)
        if self.rotation == 90:
            return Box(bottom - self.bottom, left - self.left, top - bottom, right - left)
        return Box(self.top - top, self.right - right, top - bottom, right - left)


def around(boxes: Sequence[Box]) -> Box:
    """Return the smallest box around all of them; an empty box for none."""
    if len(boxes) == 1:
        return boxes[0]
    if not boxes:
        return Box(0.0, 0.0, 0.0, 0.0)
    left, top, right, bottom = math.inf, math.inf, -math.inf, -math.inf
    for x, y, width, height in boxes:
        left, top = min(left, x), min(top, y)
        right, bottom = max(right, x + width), max(bottom, y + height)
    return Box(left, top, right - left, bottom - top)


# -- text --------------------------------------------------------------------------------------------------------------
# PDFium marks a word that is hyphenated at a line end with a special character.
_BROKEN = 2
_HYPHEN = "\x02"
_NO_SIGN = "\ufffe"  # PDFium's mark for a hyphenated word and for unmapped characters
_UNKNOWN = "\ufffd"
_NO_CODE = 0x110000
_TOKEN = re.compile(f"[^\\s{_HYPHEN}]+{_HYPHEN}?|{_HYPHEN}|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


def lines_of(page: Any, frame: Frame) -> tuple[TextLine, ...]:
    """Return the lines of a page in drawing order; none if its characters have no Unicode mapping."""
    handle = raw.FPDFText_LoadPage(page)
    if not handle:
        return ()
    try:
        lines = tuple(_Reader(handle, frame).lines())
    finally:
        raw.FPDFText_ClosePage(handle)
    return lines if any(word.text.strip(_UNKNOWN) for line in lines for word in line.words) else ()


class _Reader:
    """Reads the lines of one page."""

    def __init__(self, handle: Any, frame: Frame) -> None:
        self._handle, self._place = handle, frame.place
        self._rect = (ctypes.c_double * 4)()  # left, bottom, right, top
        left, bottom, right, top = (
            ctypes.byref(ctypes.c_double.from_buffer(self._rect, 8 * index)) for index in range(4)
        )
        self._into = left, top, right, bottom  # the order of PDFium's parameters
        self._matrix = raw.FS_MATRIX()
        self._name = ctypes.create_string_buffer(128)
        self._fonts: dict[bytes, str] = {}

    def lines(self) -> Iterator[TextLine]:
        words: list[TextWord] = []
        starts: list[int] = []
        for token in _TOKEN.finditer(_text(self._handle)):
            raw_text = token[0]
            broken = raw_text[-1] == _HYPHEN
            if raw_text != "\n":
                text = raw_text if raw_text.isalnum() else _whole(raw_text)  # removes the hyphen
                if broken:
                    text += "-"
                if text:
                    start = token.start()
                    starts.append(start)
                    words.append(TextWord(text, self._box(start, len(raw_text))))
                if not broken:
                    continue
            if words:
                yield self._line(words, starts, broken=broken)
            words, starts = [], []
        if words:
            yield self._line(words, starts)

    def _box(self, start: int, count: int) -> Box:
        rects = raw.FPDFText_CountRects(self._handle, start, count)
        if rects == 1:  # the common case
            raw.FPDFText_GetRect(self._handle, 0, *self._into)
            return self._place(*self._rect[:])
        boxes = []
        for index in range(rects):
            raw.FPDFText_GetRect(self._handle, index, *self._into)
            boxes.append(self._place(*self._rect[:]))
        return around(boxes)

    def _line(self, words: list[TextWord], starts: list[int], *, broken: bool = False) -> TextLine:
        middle = starts[len(starts) // 2]  # the first characters are more often in another font
        size = raw.FPDFText_GetFontSize(self._handle, middle)
        if raw.FPDFText_GetMatrix(self._handle, middle, self._matrix):
            size *= math.hypot(self._matrix.c, self._matrix.d)
        return TextLine(
            words=tuple(words),
            box=around([word.box for word in words]),
            size=size,
            font=self._font(middle),
            broken=broken,
        )

    def _font(self, index: int) -> str:
        size = raw.FPDFText_GetFontInfo(self._handle, index, self._name, len(self._name), None)
        name = self._name.raw[: max(0, min(size, len(self._name)) - 1)]
        if name not in self._fonts:
            # Subset fonts have a prefix of six letters, which carries no information.
            self._fonts[name] = re.sub(r"^[A-Z]{6}\+", "", clean(name.decode("utf-8", "replace")))
        return self._fonts[name]


def _text(handle: Any) -> str:
    """Return the text of a page with one character per PDFium index. A surrogate pair counts as two."""
    count = raw.FPDFText_CountChars(handle)
    if count <= 0:
        return ""
    units = (ctypes.c_ushort * (count + 1))()
    got = raw.FPDFText_GetText(handle, 0, count, units)
    if got != count + 1:  # PDFium skipped characters or returned pairs: read each one
        return "".join(_sign(raw.FPDFText_GetUnicode(handle, index)) for index in range(count))
    text = bytes(units)[:-2].decode("utf-16-le", "surrogatepass")
    if len(text) != count:  # it has surrogate pairs, which decode to one character
        text = "".join(map(chr, units[:count]))
    if _NO_SIGN not in text:
        return text
    codes = (
        raw.FPDFText_GetUnicode(handle, index) if sign == _NO_SIGN else ord(sign) for index, sign in enumerate(text)
    )
    return "".join(map(_sign, codes))


def _sign(code: int) -> str:
    """Return the character of a code; a replacement character if it is not valid."""
    if code == _BROKEN:
        return _HYPHEN
    return chr(code) if 0 < code < _NO_CODE and code != ord(_NO_SIGN) else _UNKNOWN


def _whole(text: str) -> str:
    """Return *text* with surrogate pairs joined and without characters that XML does not allow."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return clean(text)


# -- documents ---------------------------------------------------------------------------------------------------------
# PDFium is C++ code that reads untrusted input: run this only in a limited child process.

_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-]\d\d)'?(\d\d)?)?")

# Metadata fields of PDF, and our names for them.
_ABOUT = {
    "Title": "title",
    "Author": "author",
    "Subject": "subject",
    "Keywords": "keywords",
    "Creator": "creator",
    "Producer": "producer",
    "CreationDate": "created",
    "ModDate": "modified",
}
_DATES = frozenset({"created", "modified"})
_MAX_FIELD = 10_000
_MAX_ENTRIES = 20_000
_MAX_IMAGES = 2_000  # per page

# it warns about faults of the document, which an operator cannot fix
logging.getLogger("pypdfium2").setLevel(logging.ERROR)


class UnreadablePdf(Exception):
    """The file is not a readable document; *code* says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def open_pdf(path: Path) -> Iterator[tuple[DocumentHead, Iterator[DocumentPage]]]:
    """Yield the head of the document and an iterator over its pages. Only one page is in memory."""
    try:
        pdf = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        locked = error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY)
        raise UnreadablePdf("encrypted" if locked else "broken") from error
    try:
        if len(pdf) == 0:
            raise UnreadablePdf("no_pages")
        yield _head(pdf), _pages(pdf)
    finally:
        pdf.close()


def _head(pdf: Any) -> DocumentHead:
    version = pdf.get_version()
    return DocumentHead(
        pages=len(pdf),
        version="" if version is None else f"{version // 10}.{version % 10}",
        about=tuple(_about(pdf)),
        outline=tuple(_outline(pdf)),
    )


def _about(pdf: Any) -> Iterator[tuple[str, str]]:
    for key, name in _ABOUT.items():
        value = clean(pdf.get_metadata_value(key)).strip()[:_MAX_FIELD]
        if name in _DATES:
            value = iso_date(value)
        if value:
            yield name, value


def iso_date(text: str) -> str:
    """Return a PDF date (D:20260102030405+02'00') as ISO 8601; empty if it is invalid."""
    match = _DATE.match(text)
    if match is None:
        return ""
    least = (1, 1, 1, 0, 0, 0)
    values = [int(part) if part else low for part, low in zip(match.groups()[:6], least, strict=True)]
    utc, hours, minutes = match.groups()[6:]
    zone = "Z" if utc else f"{hours}:{minutes or '00'}" if hours else ""
    year, month, day, hour, minute, second = values
    text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}"
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:  # no such day or time zone
        return ""


def _outline(pdf: Any) -> Iterator[OutlineEntry]:
    before = -1
    for count, mark in enumerate(pdf.get_toc()):
        if count >= _MAX_ENTRIES:
            return
        dest = mark.get_dest()
        index = None if dest is None else dest.get_index()
        before = min(mark.level, before + 1)
        title = clean(mark.get_title()).strip()[:_MAX_FIELD]
        yield OutlineEntry(title=title, level=before, page=None if index is None else index + 1)


def _pages(pdf: Any) -> Iterator[DocumentPage]:
    for index in range(len(pdf)):
        label = clean(pdf.get_page_label(index)).strip()
        try:
            page = pdf.get_page(index)
        except pdfium.PdfiumError:
            yield DocumentPage(number=index + 1, label=label, content=Content.UNREADABLE)
            continue
        try:
            yield _page(page, index + 1, label)
        finally:
            page.close()


def _page(page: Any, number: int, label: str) -> DocumentPage:
    left, bottom, right, top = page.get_bbox()
    frame = Frame(left, bottom, right, top, page.get_rotation())
    lines = lines_of(page, frame)
    drawn, images = _drawn(page, frame)
    content = Content.TEXT if lines else Content.SCAN if drawn else Content.BLANK
    width, height = page.get_size()
    return DocumentPage(
        number=number,
        label=label,
        content=content,
        width=width,
        height=height,
        rotation=frame.rotation,
        lines=lines,
        images=images,
    )


def _drawn(page: Any, frame: Frame) -> tuple[int, tuple[Box, ...]]:
    """Return how many objects a page draws, and the boxes of its images."""
    count = raw.FPDFPage_CountObjects(page)
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    boxes: list[Box] = []
    for index in range(count):
        thing = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(thing) == raw.FPDF_PAGEOBJ_IMAGE and raw.FPDFPageObj_GetBounds(
            thing, left, bottom, right, top
        ):
            boxes.append(frame.place(left.value, bottom.value, right.value, top.value))
            if len(boxes) == _MAX_IMAGES:
                break
    return count, tuple(boxes)
