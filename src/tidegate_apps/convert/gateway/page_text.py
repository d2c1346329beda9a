"""The text of one page, as PDFium finds it: lines, and words with their boxes."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from typing import Any

from pypdfium2 import raw  # type: ignore[import-untyped]

from tidegate_apps.convert.gateway.document import Box, TextLine, TextWord
from tidegate_apps.convert.gateway.places import Frame, around
from tidegate_apps.convert.gateway.xml import clean

# What PDFium gives where a word is broken at the end of a line, and what stands for it here.
_BROKEN = 2
_HYPHEN = "\x02"
_NO_SIGN = "\ufffe"  # what PDFium writes for a broken word, and for signs without a meaning
_UNKNOWN = "\ufffd"
_NO_CODE = 0x110000
_TOKEN = re.compile(f"[^\\s{_HYPHEN}]+{_HYPHEN}?|{_HYPHEN}|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


def lines_of(page: Any, frame: Frame) -> tuple[TextLine, ...]:
    """The lines of a page in the order in which it draws them; none, if nobody can tell what its letters stand for."""
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
            ctypes.byref(ctypes.c_double.from_buffer(self._rect, 8 * each)) for each in range(4)
        )
        self._into = left, top, right, bottom  # the order in which they are asked for
        self._matrix = raw.FS_MATRIX()
        self._name = ctypes.create_string_buffer(128)
        self._fonts: dict[bytes, str] = {}

    def lines(self) -> Iterator[TextLine]:
        words: list[TextWord] = []
        starts: list[int] = []
        for token in _TOKEN.finditer(_text(self._handle)):
            found = token[0]
            broken = found[-1] == _HYPHEN
            if found != "\n":
                text = found if found.isalnum() else _whole(found)  # which takes the hyphen out
                if broken:
                    text += "-"
                if text:
                    start = token.start()
                    starts.append(start)
                    words.append(TextWord(text, self._box(start, len(found))))
                if not broken:
                    continue
            if words:
                yield self._line(words, starts, broken=broken)
            words, starts = [], []
        if words:
            yield self._line(words, starts)

    def _box(self, start: int, count: int) -> Box:
        found = raw.FPDFText_CountRects(self._handle, start, count)
        if found == 1:  # as of nearly every word
            raw.FPDFText_GetRect(self._handle, 0, *self._into)
            return self._place(*self._rect[:])
        boxes = []
        for index in range(found):
            raw.FPDFText_GetRect(self._handle, index, *self._into)
            boxes.append(self._place(*self._rect[:]))
        return around(boxes)

    def _line(self, words: list[TextWord], starts: list[int], *, broken: bool = False) -> TextLine:
        middle = starts[len(starts) // 2]  # what stands at the begin is more often in other letters
        size = raw.FPDFText_GetFontSize(self._handle, middle)
        if raw.FPDFText_GetMatrix(self._handle, middle, self._matrix):
            size *= math.hypot(self._matrix.c, self._matrix.d)
        return TextLine(
            words=tuple(words), box=around([word.box for word in words]), size=size, font=self._font(middle),
            broken=broken,
        )  # fmt: skip

    def _font(self, index: int) -> str:
        size = raw.FPDFText_GetFontInfo(self._handle, index, self._name, len(self._name), None)
        name = self._name.raw[: max(0, min(size, len(self._name)) - 1)]
        if name not in self._fonts:
            # A subset has a tag of six letters before its name, which says nothing.
            self._fonts[name] = re.sub(r"^[A-Z]{6}\+", "", clean(name.decode("utf-8", "replace")))
        return self._fonts[name]


def _text(handle: Any) -> str:
    """The text of a page with one character for each sign that PDFium counts; the halves of a pair are two."""
    count = raw.FPDFText_CountChars(handle)
    if count <= 0:
        return ""
    units = (ctypes.c_ushort * (count + 1))()
    got = raw.FPDFText_GetText(handle, 0, count, units)
    if got != count + 1:  # signs were left out there, or took two units: ask for each
        return "".join(_sign(raw.FPDFText_GetUnicode(handle, index)) for index in range(count))
    text = bytes(units)[:-2].decode("utf-16-le", "surrogatepass")
    if len(text) != count:  # it has pairs, which are one character now
        text = "".join(map(chr, units[:count]))
    if _NO_SIGN not in text:
        return text
    codes = (
        raw.FPDFText_GetUnicode(handle, index) if sign == _NO_SIGN else ord(sign) for index, sign in enumerate(text)
    )
    return "".join(map(_sign, codes))


def _sign(code: int) -> str:
    """The character of a code; those without a meaning are shown as such, because something stands there."""
    if code == _BROKEN:
        return _HYPHEN
    return chr(code) if 0 < code < _NO_CODE and code != ord(_NO_SIGN) else _UNKNOWN


def _whole(text: str) -> str:
    """*text* with each pair of halves as the one character that it is, and without what XML cannot hold."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return clean(text)
