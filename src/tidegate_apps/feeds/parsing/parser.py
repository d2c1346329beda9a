"""The parser that runs in the child process: bytes in, plain values out."""

from __future__ import annotations

import base64
import html.entities
import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from xml.parsers import expat

import fastfeedparser  # type: ignore[import-untyped]

from tidegate_apps.feeds.parsing.pool import BASE64, ParseError, rows_of
from tidegate_apps.feeds.parsing.text import Cleaner, moment, plain, text_of, visible

# -- strict pass -------------------------------------------------------------------------------------------------------
# It finds out whether the XML is well-formed and safe, and what it says about its polling interval.

_PERIODS = {"hourly": 3600, "daily": 86_400, "weekly": 604_800, "monthly": 2_592_000, "yearly": 31_536_000}
_NOTED = frozenset({"ttl", "skipHours", "skipDays", "updatePeriod", "updateFrequency"})
_INSIDE = frozenset({"hour", "day"})
_ENTRIES = frozenset({"item", "entry"})


@dataclass(slots=True)
class Noted:
    """What the strict pass read until it ended or failed."""

    malformed: str | None = None
    ttl: float = 0.0
    skip_hours: list[int] = field(default_factory=list)
    skip_days: list[str] = field(default_factory=list)


def read_strictly(text: bytes) -> Noted:
    """Read XML in UTF-8 strictly. Raises ParseError for declarations that could expand without bound."""
    reading = _Reading()
    try:
        reading.parser.Parse(text, True)
    except expat.ExpatError as error:
        reading.noted.malformed = str(error)
    return reading.done()


class _Reading:
    def __init__(self) -> None:
        self.noted = Noted()
        self.parser = expat.ParserCreate("utf-8")
        self.parser.ordered_attributes = True
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.EntityDeclHandler = self._entity
        self._depth = 0
        self._text: list[str] = []
        self._said: dict[str, str] = {}

    def done(self) -> Noted:
        minutes = _number(self._said.get("ttl", ""))
        often = max(1.0, _number(self._said.get("updateFrequency", "1")))
        period = _PERIODS.get(self._said.get("updatePeriod", "").strip().lower(), 0) / often
        self.noted.ttl = max(minutes * 60, period)
        return self.noted

    def _start(self, name: str, _: list[str]) -> None:
        self._depth += 1
        if name in _ENTRIES:
            # Everything of interest precedes the entries, so the rest is only checked.
            self.parser.StartElementHandler = self.parser.EndElementHandler = None
            self.parser.CharacterDataHandler = None
            return
        # <rss><channel><ttl>, <rss><channel><skipHours><hour>
        if (self._depth == 3 and _local(name) in _NOTED) or (self._depth == 4 and name in _INSIDE):
            self._text.clear()
            self.parser.CharacterDataHandler = self._text.append

    def _end(self, name: str) -> None:
        if self._depth in (3, 4) and self.parser.CharacterDataHandler is not None:
            self._note(_local(name), "".join(self._text).strip()[:40])
            self.parser.CharacterDataHandler = None
        self._depth -= 1

    def _note(self, name: str, said: str) -> None:
        if name == "hour" and said.isascii() and said.isdigit() and int(said) <= 24:
            self.noted.skip_hours.append(int(said) % 24)
        elif name == "day":
            self.noted.skip_days.append(said.capitalize())
        else:
            self._said.setdefault(name, said)

    def _entity(self, name: str, parameter: int, value: str | None, *_: object) -> None:
        if value is not None and not parameter:
            raise ParseError(f"it declares an entity of its own ({name[:40]}), which is not read")


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _number(text: str) -> float:
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0


_MAX_ENTRIES = 2000  # the first entries of a feed are the newest
_MAX_READ = 10_000
_MAX_TAGS = 500_000
_MAX_KEY = 500
_HTML_PAGE = re.compile(r"^\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
# Control characters that XML does not allow. Authors paste them into feeds.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_CDATA = re.compile(r"(<!\[CDATA\[.*?\]\]>)", re.DOTALL)
_MAX_ENTRY_TEXT = 50_000
_LONG_TAG = re.compile(rf"<(?![!?])[^<>]{{{_MAX_ENTRY_TEXT}}}")
_AMPERSAND = re.compile(r"&(?:([A-Za-z][A-Za-z0-9]{1,31});|(?!#(?:[0-9]{1,7}|x[0-9A-Fa-f]{1,6});))")
_OF_XML = frozenset({"amp", "lt", "gt", "quot", "apos"})


def read_all(asked: list[list[str]]) -> list[dict[str, Any]]:
    """Parse several feeds in one call: waking a process takes longer than parsing a feed."""
    return [read(request) for request in asked]


def read(asked: list[str]) -> dict[str, Any]:
    """Return the feed as lists and strings, or `error` if it cannot be parsed."""
    text, how, content_type, url = asked
    body = base64.b64decode(text) if how == BASE64 else text.encode("ascii")
    try:
        return _read(body, content_type, url)
    except ParseError as error:
        return {"error": str(error)}


def _read(body: bytes, content_type: str, url: str) -> dict[str, Any]:
    text, wrong = text_of(body, content_type)
    if not text.strip():
        raise ParseError("it is empty")
    if _HTML_PAGE.match(text[:4096]):
        raise ParseError("it is a web page, not a feed")
    _check_cost(text)
    noted, text = (Noted(), text) if text.startswith(("{", "[")) else _strictly(text)
    document = _forgivingly(text)
    cleaner = Cleaner(url)
    about = document.get("feed") or {}
    return {
        "title": plain(about.get("title")) or None,
        "link": cleaner.link(about.get("link")),
        "ttl": noted.ttl,
        "skip_hours": noted.skip_hours[:24],
        "skip_days": noted.skip_days[:7],
        "malformed": noted.malformed or wrong,
        "rows": rows_of(_entry(entry, cleaner) for entry in (document.get("entries") or [])[:_MAX_ENTRIES]),
    }


def _check_cost(text: str) -> None:
    """Raise ParseError for input that costs parsers minutes or gigabytes, well-formed or not."""
    tags = text.count("<")
    if tags > _MAX_TAGS:
        raise ParseError(f"it has more than {_MAX_TAGS} tags")
    if tags > _MAX_READ and max(text.count("<item"), text.count("<entry")) > _MAX_READ:
        raise ParseError(f"it has more than {_MAX_READ} entries")
    # CDATA may contain an inline image.
    if (
        len(text) > _MAX_ENTRY_TEXT
        and _LONG_TAG.search(text)
        and any(_LONG_TAG.search(part) for part in _CDATA.split(text)[::2])
    ):
        raise ParseError("a tag of it is too long")


def _strictly(text: str) -> tuple[Noted, str]:
    """Return the results of the strict pass, and the text with repairs for the lenient parser."""
    noted = read_strictly(text.encode("utf-8", "surrogatepass"))
    if noted.malformed is None:
        return noted, text
    parts = _CDATA.split(_NOT_XML.sub("", text))
    parts[::2] = [_AMPERSAND.sub(_meant, part) for part in parts[::2]]
    return noted, "".join(parts)


def _meant(found: re.Match[str]) -> str:
    """Replace an invalid ampersand by the HTML entity that it begins, or by an escaped ampersand."""
    name = found[1]
    if name is None:
        return "&amp;"
    return found[0] if name in _OF_XML else html.entities.html5.get(f"{name};", f"&amp;{name};")


def _forgivingly(text: str) -> dict[str, Any]:
    data = text.encode("utf-8", "replace")
    try:
        # Pass bytes, not str: feedparser fetches a str that looks like a URL.
        document: dict[str, Any] = fastfeedparser.parse(
            data, include_tags=False, include_media=False, include_enclosures=False
        )
    except MemoryError:
        raise
    except Exception as error:  # hostile input can make the library raise anything
        raise ParseError(f"it is not a valid feed: {plain(str(error), 200)}") from error
    return document


def _entry(found: Any, cleaner: Cleaner) -> list[Any]:
    """Return a row: the values of a `FeedEntry`, in its order."""
    get = found.get
    title, summary, content = plain(get("title")), get("description"), _content(get("content"))
    link, guid = cleaner.link(_link(found)), _guid(get("id"))
    published, updated = moment(get("published")), moment(get("updated"))
    author = plain(get("author"), 200) or None
    key = guid or link or _hash(title, str(published))
    if len(key) > _MAX_KEY:
        key = _hash(key)
    shown = content if not summary or _cut_from(summary, content) else summary
    digest = _hash(title, link or "", author or "", f"{published} {updated}", _str(summary), content)
    return [key, guid, link, title, author, cleaner.markup(shown), published, updated, digest]


def _link(found: Any) -> object:
    """Return the page of an entry, not its enclosure or its comments."""
    for link in found.get("links") or ():
        if (link.get("rel") or "alternate") == "alternate" and link.get("href"):
            return link["href"]
    return found.get("link")


def _guid(value: object) -> str | None:
    text = visible(str(value)).strip() if isinstance(value, (str, int, float)) else ""
    return text[: 4 * _MAX_KEY] or None


def _content(parts: Any) -> str:
    return _str(parts[0].get("value")) if parts else ""


def _cut_from(summary: object, content: str) -> bool:
    """Return whether the summary is the start of the content without markup: feedparser generates such summaries."""
    if not content or not isinstance(summary, str) or "<" in summary:
        return False
    begins = "".join(summary.split())[:200]
    return "".join(plain(content).split()).startswith(begins)


def _str(value: object) -> str:
    return value if isinstance(value, str) else ""


def _hash(*parts: str) -> str:
    # Prefix lengths, so that two different lists never hash the same.
    whole = "\0".join([*[str(len(part)) for part in parts], *parts])
    return blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
