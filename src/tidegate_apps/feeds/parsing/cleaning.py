"""What may be stored and shown of what strangers wrote."""

from __future__ import annotations

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
    "a", "abbr", "b", "blockquote", "br", "cite", "code", "dd", "del", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5",
    "h6", "hr", "i", "ins", "kbd", "li", "ol", "p", "pre", "q", "s", "samp", "small", "strong", "sub", "sup", "table",
    "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var",
}  # fmt: skip
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
