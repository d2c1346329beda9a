"""The feeds that the simulator serves, in every format, and the bodies that only look like feeds."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from html import escape

_BEGAN = datetime(2026, 1, 1, 6, tzinfo=UTC)
_RSS = "application/rss+xml; charset=utf-8"


class Written:
    """What one feed says at the moment: *newest* entries were written in all, the last *items* of them are shown."""

    def __init__(self, number: str, newest: int, items: int) -> None:
        self.number = number
        self.shown = range(newest, max(0, newest - items), -1)
        self.modified = _BEGAN + timedelta(hours=newest)
        self.etag = f'"{hashlib.sha256(f"{number} {newest}".encode()).hexdigest()[:16]}"'

    @property
    def title(self) -> str:
        return f"Simulated feed {self.number}"

    def entry(self, n: int) -> tuple[str, str, str, datetime]:
        """Its id, link and title, and when it was written."""
        link = f"https://feeds.example/{self.number}/{n}"
        return f"{self.number}-{n}", link, f"Entry {n} of feed {self.number}", _BEGAN + timedelta(hours=n)

    def words(self, n: int) -> str:
        return f"<p>The tide of hour {n} came <b>in</b>, and <a href='/more'>more</a> of it went out.</p>"

    def entries(self, form: str) -> str:
        """All that are shown, each written as *form* says."""
        return "".join(
            form.format(guid=guid, link=link, title=escape(title), when=when, words=escape(self.words(n)))
            for n in self.shown
            for guid, link, title, when in [self.entry(n)]
        )


@lru_cache(maxsize=4096)
def rss(number: str, newest: int, items: int) -> bytes:
    """As RSS 2.0, which is what most of them are."""
    feed = Written(number, newest, items)
    entries = feed.entries(
        '<item><guid isPermaLink="false">{guid}</guid><link>{link}</link><title>{title}</title>'
        "<pubDate>{when:%a, %d %b %Y %H:%M:%S +0000}</pubDate><description>{words}</description></item>\n"
    )
    head = f"<title>{escape(feed.title)}</title><link>https://feeds.example/{number}</link><description>Tides</description>"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0"><channel>{head}\n{entries}</channel></rss>'
    return text.encode()


def atom(number: str, newest: int, items: int) -> bytes:
    feed = Written(number, newest, items)
    entries = feed.entries(
        '<entry><id>urn:{guid}</id><link href="{link}"/><title>{title}</title>'
        '<updated>{when:%Y-%m-%dT%H:%M:%S+00:00}</updated><content type="html">{words}</content></entry>'
    )
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>{escape(feed.title)}</title>{entries}</feed>'.encode()


def json_feed(number: str, newest: int, items: int) -> bytes:
    feed = Written(number, newest, items)
    entries = [
        {"id": guid, "url": link, "title": title, "date_published": when.isoformat(), "content_html": feed.words(n)}
        for n in feed.shown
        for guid, link, title, when in [feed.entry(n)]
    ]
    said = {"version": "https://jsonfeed.org/version/1.1", "title": feed.title, "items": entries}
    return json.dumps(said).encode()


def latin(number: str, newest: int, items: int) -> bytes:
    """In an encoding that it does not declare."""
    return rss(number, newest, items).decode().replace("Simulated", "Fährhafen").encode("latin-1")


def malformed(number: str, newest: int, items: int) -> bytes:
    """With mistakes that forgiving readers forgive."""
    return rss(number, newest, items).replace(b"Simulated feed", b"Simulated & malformed feed")


FORMATS: dict[str, tuple[Callable[[str, int, int], bytes], str]] = {
    "well": (rss, _RSS),
    "atom": (atom, "application/atom+xml"),
    "json": (json_feed, "application/feed+json"),
    "latin": (latin, "text/xml; charset=utf-8"),
    "malformed": (malformed, _RSS),
}

PAGE = b"<!DOCTYPE html><html><head><title>Please wait</title></head><body>Checking your browser.</body></html>"
CUT_XML = b"<?xml version='1.0'?><nonsense><channel><title>This is n"
LAUGHS = (
    b'<!DOCTYPE rss [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
    + b']><rss version="2.0"><channel><title>&j;</title></channel></rss>'
)


@lru_cache(maxsize=1)
def bomb() -> bytes:
    """A few kilobytes that unpack to many megabytes."""
    return gzip.compress(b"<rss version='2.0'><channel><title>" + bytes(50_000_000) + b"</title></channel></rss>")


@lru_cache(maxsize=1)
def huge() -> bytes:
    return b"<rss version='2.0'><channel>" + b"<!-- nothing at all -->" * 300_000 + b"</channel></rss>"
