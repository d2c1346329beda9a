"""Sanitizes untrusted text, HTML, links and dates, and decodes bodies."""

from __future__ import annotations

import codecs
import html
import re
from datetime import datetime
from typing import Literal
from urllib.parse import urljoin, urlsplit

import nh3

_MAX_TITLE = 500
_MAX_LINK = 2000
_MAX_HTML = 32_000
_TAGS = {
    "a",
    "abbr",
    "b",
    "blockquote",
    "br",
    "cite",
    "code",
    "dd",
    "del",
    "dl",
    "dt",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "ins",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "q",
    "s",
    "samp",
    "small",
    "strong",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
    "var",
}
# Removed with their content, not only their tags.
_DROPPED = {"script", "style", "iframe", "object", "embed", "noscript", "template", "svg", "math", "form", "textarea"}
_REL = "noopener noreferrer nofollow"
_SCHEMES = {"http", "https"}
# Invisible characters that break databases and terminals: controls, direction marks and lone surrogates.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_MARKUP = re.compile(r"[<>&\xa0]")  # without these, the cleaner changes nothing
_ABSOLUTE = re.compile(r"https?://[A-Za-z0-9.-]{1,250}(?:/[!-~]{0,1700})?")
_EARLIEST, _LATEST = 0.0, 4_102_444_800.0  # 1970 to 2100

_PLAIN = nh3.Cleaner(tags=set(), clean_content_tags=_DROPPED)


def visible(text: str) -> str:
    """Return *text* without invisible characters."""
    return text if text.isprintable() else _CONTROLS.sub("", text)


def plain(value: object, limit: int = _MAX_TITLE) -> str:
    """Return *value* as one line of text without markup."""
    if not isinstance(value, str):
        return ""
    if not value:
        return ""
    text = visible(value[: 4 * limit])
    if "<" in text or "&" in text:
        text = html.unescape(_PLAIN.clean(text))
        text = visible(text)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


class Cleaner:
    """Sanitizes the HTML and the links of one feed. Relative links are resolved against *base*."""

    def __init__(self, base: str) -> None:
        self._base = base
        try:
            self._cleaner = _cleaner(("rewrite_with_base", base) if urlsplit(base).scheme in _SCHEMES else "deny")
        except ValueError:  # the library rejects some host names that can be polled
            self._cleaner = _cleaner("deny")

    def markup(self, value: object) -> str:
        """Return HTML that is safe to show."""
        if not isinstance(value, str) or not value.strip():
            return ""
        # Truncate before cleaning: the cleaner closes open tags.
        text = visible(value[:_MAX_HTML])
        return (self._cleaner.clean(text) if _MARKUP.search(text) else text).strip()

    def link(self, value: object) -> str | None:
        """Return an absolute http or https URL; None if it is not one."""
        if not isinstance(value, str) or not value.strip():
            return None
        if _ABSOLUTE.fullmatch(value):  # the common case
            return value
        try:
            url = urljoin(self._base, visible(value.strip()))
            parts = urlsplit(url)
        except ValueError:
            return None
        fits = parts.scheme in _SCHEMES and parts.netloc and len(url) <= _MAX_LINK
        return url if fits else None


def _cleaner(relative: Literal["deny"] | tuple[Literal["rewrite_with_base"], str]) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        clean_content_tags=_DROPPED,
        attributes={"a": {"href"}, "abbr": {"title"}, "ol": {"start"}, "td": {"colspan"}, "th": {"colspan"}},
        url_schemes=_SCHEMES,
        url_relative=relative,
        link_rel=_REL,
    )


def moment(value: object) -> float | None:
    """Return the UNIX time of an ISO date; None if it is invalid or out of range."""
    if not isinstance(value, str):
        return None
    try:
        timestamp = datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return timestamp if _EARLIEST < timestamp < _LATEST else None


# -- decoding of bodies ------------------------------------------------------------------------------------------------

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# UTF-16 without a byte order mark still begins with "<?" or "<r".
_BARE = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_DECLARED = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,400}\?>")
# As browsers do: Latin-1 means Windows-1252.
_REALLY = {
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "windows-1252": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
    "iso-8859-9": "cp1254",
    "tis-620": "cp874",
    "utf8": "utf-8",
}
# Python decodes these, and they can bypass filters of other programs.
_NEVER = frozenset({"utf-7", "utf7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"})


def text_of(body: bytes, content_type: str) -> tuple[str, str | None]:
    """Return the text without its XML declaration, and what is wrong with its encoding."""
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
        # Other encodings are almost never valid UTF-8 by accident, so the declaration is ignored.
        wrong = declared not in (None, "utf-8") and not body.isascii()
        return _undeclared(text), f"its encoding is UTF-8, although it says {declared}" if wrong else None
    if declared and declared != "utf-8" and (text := _decoded(body, declared)) is not None:
        return _undeclared(text), None
    says = f"although it says {declared}" if declared else "and it does not say so"
    return _undeclared(body.decode("cp1252", "replace")), f"its encoding is not UTF-8, {says}"


def _declared(body: bytes, content_type: str) -> str | None:
    """Return the declared encoding. The document has priority: servers often send a default that is wrong."""
    if match := _DECLARED.match(body[:1024]):
        name = match[1].decode("ascii").lower()
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
