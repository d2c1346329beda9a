"""What may be stored and shown of what strangers wrote."""

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
# With what is in them, not only their tags.
_DROPPED = {"script", "style", "iframe", "object", "embed", "noscript", "template", "svg", "math", "form", "textarea"}
_REL = "noopener noreferrer nofollow"
_SCHEMES = {"http", "https"}
# Nobody sees them, and databases and terminals stumble over them: controls, marks that turn the direction of writing,
# and halves of characters.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_MARKUP = re.compile(r"[<>&\xa0]")  # without them, the cleaner would change nothing
_ABSOLUTE = re.compile(r"https?://[A-Za-z0-9.-]{1,250}(?:/[!-~]{0,1700})?")
_EARLIEST, _LATEST = 0.0, 4_102_444_800.0  # 1970 to 2100

_PLAIN = nh3.Cleaner(tags=set(), clean_content_tags=_DROPPED)


def visible(text: str) -> str:
    """*text* without what nobody sees."""
    return text if text.isprintable() else _CONTROLS.sub("", text)


def plain(value: object, limit: int = _MAX_TITLE) -> str:
    """*value* as one line of text, its markup taken out."""
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
    """Sanitises the HTML and the links of one feed; relative ones are made absolute from *base*."""

    def __init__(self, base: str) -> None:
        self._base = base
        try:
            self._cleaner = _cleaner(("rewrite_with_base", base) if urlsplit(base).scheme in _SCHEMES else "deny")
        except ValueError:  # a host that is polled may have a name that its library cannot read
            self._cleaner = _cleaner("deny")

    def markup(self, value: object) -> str:
        """HTML that may be shown as it is."""
        if not isinstance(value, str) or not value.strip():
            return ""
        # Cut before it is cleaned: the cleaner closes what is left open.
        text = visible(value[:_MAX_HTML])
        return (self._cleaner.clean(text) if _MARKUP.search(text) else text).strip()

    def link(self, value: object) -> str | None:
        """An absolute address of http or https; None when it is none."""
        if not isinstance(value, str) or not value.strip():
            return None
        if _ABSOLUTE.fullmatch(value):  # nearly all of them
            return value
        try:
            found = urljoin(self._base, visible(value.strip()))
            parts = urlsplit(found)
        except ValueError:
            return None
        fits = parts.scheme in _SCHEMES and parts.netloc and len(found) <= _MAX_LINK
        return found if fits else None


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
    """Seconds since 1970 of a date in ISO form; None when it is none, or makes no sense."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return found if _EARLIEST < found < _LATEST else None


# The text of a body, whatever encoding it has and whatever it says.

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# UTF-16 without a mark still begins with "<?" or "<r".
_BARE = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_DECLARED = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,400}\?>")
# As browsers read them: what calls itself Latin-1 is Windows-1252.
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
