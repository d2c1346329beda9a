"""The text of a body, whatever encoding it has and whatever it says."""

from __future__ import annotations

import codecs
import re

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# UTF-16 without a mark still begins with "<?" or "<r".
_BARE = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_DECLARED = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,400}\?>")
# As browsers read them: what calls itself Latin-1 is Windows-1252.
_REALLY = {
    "iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
    "windows-1252": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932",
    "x-sjis": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "iso-8859-9": "cp1254", "tis-620": "cp874",
    "utf8": "utf-8",
}  # fmt: skip
# Text for Python, and a way around every filter for others.
_NEVER = frozenset({"utf-7", "utf7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"})


def text_of(body: bytes, content_type: str) -> tuple[str, str | None]:
    """The text without its XML declaration, and what is wrong with its encoding."""
    for mark, name in (*_BOMS, *_BARE):
        if body.startswith(mark):
            skip = 0 if mark in (b"<\0", b"\0<") else len(mark)
            text = _decoded(body[skip:], name)
            if text is not None:
                return _undeclared(text), None
    declared = _declared(body, content_type)
    if b"\x1b" in body and declared and declared.startswith("iso-2022") and (text := _decoded(body, declared)):
        return _undeclared(text), None
    if (text := _decoded(body, "utf-8")) is not None:
        # Nothing else happens to be valid UTF-8, so whatever it says, it is.
        wrong = declared not in (None, "utf-8") and not body.isascii()
        return _undeclared(text), f"its encoding is UTF-8, although it says {declared}" if wrong else None
    if declared and declared != "utf-8" and (text := _decoded(body, declared)) is not None:
        return _undeclared(text), None
    says = f"although it says {declared}" if declared else "and it does not say so"
    return _undeclared(body.decode("cp1252", "replace")), f"its encoding is not UTF-8, {says}"


def _declared(body: bytes, content_type: str) -> str | None:
    """What it says: in itself first, because servers add their own belief to everything they send."""
    if found := _DECLARED.match(body[:1024]):
        name = found[1].decode("ascii").lower()
    elif header := _HEADER.search(content_type):
        name = header[1].lower()
    else:
        return None
    return _REALLY.get(name, name)


def _decoded(body: bytes, name: str) -> str | None:
    if name in _NEVER:
        return None
    try:
        return body.decode(name)
    except (UnicodeError, LookupError):
        return None


def _undeclared(text: str) -> str:
    return _DECLARATION.sub("", text.lstrip("\ufeff"), count=1).lstrip()
