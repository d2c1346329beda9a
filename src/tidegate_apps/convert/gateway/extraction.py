"""Reads a PDF with PDFium. PDFium is C++ on input of strangers: call this in a limited child process only."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pypdfium2 as pdfium  # type: ignore[import-untyped]
from pypdfium2 import raw

from tidegate_apps.convert.gateway.document import Box, Content, DocumentHead, DocumentPage, OutlineEntry
from tidegate_apps.convert.gateway.page_text import lines_of
from tidegate_apps.convert.gateway.places import Frame
from tidegate_apps.convert.gateway.xml import clean

_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-]\d\d)'?(\d\d)?)?")

# The fields of a document's own description, and what they are called here.
_ABOUT = {
    "Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords", "Creator": "creator",
    "Producer": "producer", "CreationDate": "created", "ModDate": "modified",
}  # fmt: skip
_DATES = frozenset({"created", "modified"})
_MAX_FIELD = 10_000
_MAX_ENTRIES = 20_000
_MAX_IMAGES = 2_000  # of a page

logging.getLogger("pypdfium2").setLevel(logging.ERROR)  # it warns of what strangers wrote, and nobody can mend that


class UnreadablePdf(Exception):
    """The file is no document that can be read; *code* says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@contextmanager
def open_pdf(path: Path) -> Iterator[tuple[DocumentHead, Iterator[DocumentPage]]]:
    """The document in that file: its head, and its pages one after the other, so that only one is in memory."""
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
    """A date as PDF writes it (D:20260102030405+02'00') as ISO 8601 does; empty when it is none."""
    found = _DATE.match(text)
    if found is None:
        return ""
    least = (1, 1, 1, 0, 0, 0)
    given = [int(part) if part else low for part, low in zip(found.groups()[:6], least, strict=True)]
    utc, hours, minutes = found.groups()[6:]
    zone = "Z" if utc else f"{hours}:{minutes or '00'}" if hours else ""
    year, month, day, hour, minute, second = given
    text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}"
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:  # there is no such day, or no such zone
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
        number=number, label=label, content=content, width=width, height=height, rotation=frame.rotation,
        lines=lines, images=images,
    )  # fmt: skip


def _drawn(page: Any, frame: Frame) -> tuple[int, tuple[Box, ...]]:
    """How many things are drawn on a page, and where the images among them are."""
    count = raw.FPDFPage_CountObjects(page)
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    found: list[Box] = []
    for index in range(count):
        thing = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(thing) == raw.FPDF_PAGEOBJ_IMAGE and raw.FPDFPageObj_GetBounds(
            thing, left, bottom, right, top
        ):
            found.append(frame.place(left.value, bottom.value, right.value, top.value))
            if len(found) == _MAX_IMAGES:
                break
    return count, tuple(found)
