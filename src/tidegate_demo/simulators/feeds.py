"""Simulated feeds with scripted failures, for tests, and for `tidegate serve --simulators`.

    with FeedSimulator(feeds=20) as sim:
        poll(sim.feed(7))                          # http://127.0.0.1:12345/feed/7
        sim.publish(7)                             # a new entry and a new ETag
        sim.next(7, "unavailable", "hangs")        # its next two polls; then it succeeds again
        sim.now(7, "gone")                         # from now on
        assert sim.polls(7) == 4

STATES lists the states of a feed. While it runs, `curl -d gone http://127.0.0.1:12345/state/7` calls `now`, and
`curl -d "" http://127.0.0.1:12345/publish/7` calls `publish`. The front page lists the feeds. `/_sim` controls it, as
for every simulator.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import lru_cache
from html import escape
from typing import Any

from tidegate.apps import Simulated
from tidegate.testing import Hang, RecordedRequest, Simulator, Step

# -- feeds in all formats, and bodies that only look like feeds --------------------------------------------------------

_BEGAN = datetime(2026, 1, 1, 6, tzinfo=UTC)
_RSS = "application/rss+xml; charset=utf-8"


class Written:
    """The content of one feed: *newest* entries exist, the last *items* of them are in the feed."""

    def __init__(self, number: str, newest: int, items: int) -> None:
        self.number = number
        self.shown = range(newest, max(0, newest - items), -1)
        self.modified = _BEGAN + timedelta(hours=newest)
        self.etag = f'"{hashlib.sha256(f"{number} {newest}".encode()).hexdigest()[:16]}"'

    @property
    def title(self) -> str:
        return f"Simulated feed {self.number}"

    def entry(self, n: int) -> tuple[str, str, str, datetime]:
        """Return the id, link, title and time of an entry."""
        link = f"https://feeds.example/{self.number}/{n}"
        return f"{self.number}-{n}", link, f"Entry {n} of feed {self.number}", _BEGAN + timedelta(hours=n)

    def words(self, n: int) -> str:
        return f"<p>The tide of hour {n} came <b>in</b>, and <a href='/more'>more</a> of it went out.</p>"

    def entries(self, form: str) -> str:
        """Return all entries, each formatted with *form*."""
        return "".join(
            form.format(guid=guid, link=link, title=escape(title), when=when, words=escape(self.words(n)))
            for n in self.shown
            for guid, link, title, when in [self.entry(n)]
        )


@lru_cache(maxsize=4096)
def rss(number: str, newest: int, items: int) -> bytes:
    """Return the feed as RSS 2.0, the most common format."""
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
    """Return the feed in an undeclared encoding."""
    return rss(number, newest, items).decode().replace("Simulated", "Fährhafen").encode("latin-1")


def malformed(number: str, newest: int, items: int) -> bytes:
    """Return the feed with errors that lenient parsers accept."""
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
    """Return a few kilobytes that decompress to many megabytes."""
    return gzip.compress(b"<rss version='2.0'><channel><title>" + bytes(50_000_000) + b"</title></channel></rss>")


@lru_cache(maxsize=1)
def huge() -> bytes:
    return b"<rss version='2.0'><channel>" + b"<!-- nothing at all -->" * 300_000 + b"</channel></rss>"


_FEED = "GET /feed/{number}"
_XML = {"Content-Type": "application/xml"}
_HTML = {"Content-Type": "text/html; charset=utf-8"}
_FOR_EVER = "1d"


def _status(status: int, **more: Any) -> Step:
    return Step(status, PAGE, _HTML, **more)


def _to(status: int, location: str) -> Step:
    return Step(status, b"", {"Location": location})


# Responses of a feed in a state that is not a format; {n} is its number.
_ANSWERS: Mapping[str, Step | Hang | Callable[[str], Step]] = {
    "partial": Step(226, rss("0", 1, 1), _XML),
    "moved": lambda n: _to(301, f"/moved/{n}"),
    "moved_308": lambda n: _to(308, f"/moved/{n}"),
    "elsewhere": lambda n: _to(302, f"/moved/{n}"),
    "elsewhere_307": lambda n: _to(307, f"/moved/{n}"),
    "chain": lambda n: _to(301, f"/chain/5/{n}"),
    "long_chain": lambda n: _to(301, f"/chain/6/{n}"),
    "circle": lambda n: _to(302, f"/circle/{n}"),
    "to_private": Step(302, b"", {"Location": "http://169.254.169.254/latest/meta-data"}),
    "to_nowhere": Step(302, b"", {"Location": "ftp://feeds.example/"}),
    "bad_request": _status(400),
    "unauthorised": _status(401),
    "forbidden": _status(403),
    "not_found": _status(404),
    "proxy_auth": _status(407),
    "request_timeout": _status(408),
    "gone": _status(410),
    "teapot": _status(418),
    "too_early": _status(425),
    "throttled": _status(429, retry_after=120),
    "throttled_silently": _status(429),
    "throttled_for_days": _status(429, retry_after="3d"),
    "throttled_until": Step(429, PAGE, {**_HTML, "Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}),
    "throttled_oddly": Step(429, PAGE, {**_HTML, "Retry-After": "soon"}),
    "legal": _status(451),
    "broken": _status(500),
    "bad_gateway": _status(502),
    "unavailable": _status(503),
    "unavailable_for_a_while": _status(503, retry_after="10m"),
    "gateway_timeout": _status(504),
    "hangs": Hang(),
    "drips": Step(200, rss("0", 50, 50), _XML, drip="1s", piece=1),
    "resets": Step(reset=True),
    "cut": Step(200, rss("0", 50, 50), _XML, cut=300),
    "no_http": Step(raw=b"220 mail.example ESMTP\r\n\r\n"),
    "long_headers": Step(raw=b"HTTP/1.1 200 OK\r\n" + b"X-Many: headers\r\n" * 100_000),
    "empty": Step(200, b"", _XML),
    "page": Step(200, PAGE, _HTML),
    "no_feed": Step(200, CUT_XML, _XML),
    "entity_bomb": Step(200, LAUGHS, _XML),
    "gzip_bomb": lambda _: Step(200, bomb(), {**_XML, "Content-Encoding": "gzip"}),
    "bad_gzip": Step(200, rss("0", 50, 50), {**_XML, "Content-Encoding": "gzip"}),
    "huge": lambda _: Step(200, huge(), _XML),
}

# Formats, with special headers.
_SENT: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{name: (name, {}) for name in FORMATS},
    "gzip": ("well", {"gzip": True}),
    "slow": ("well", {"delay": "1s"}),
    "chunked": ("well", {"framing": "chunked"}),
    "unvalidated": ("well", {}),  # without ETag and Last-Modified
    "restless": ("well", {}),  # with a new entry at every poll
    "stuck": ("well", {}),  # 304 to every conditional request, also after changes
}

STATES: tuple[str, ...] = (*_SENT, *_ANSWERS)


class FeedSimulator(Simulator):
    """*feeds* feeds, numbered from 1, with *items* entries each. Others exist on demand, by any name."""

    def __init__(self, *, feeds: int = 12, items: int = 20, **more: Any) -> None:
        super().__init__("feeds", on_reset=self._begin, **more)
        self.feeds, self._items = feeds, items
        self._begin()
        self.on(_FEED, self._asked)
        self.on("GET /moved/{number}", lambda asked: self._sent("well", asked))
        self.on("GET /chain/{left}/{number}", self._chain)
        self.on("GET /circle/{number}", lambda asked: _to(302, f"/feed/{asked.params['number']}"))
        self.on("POST /state/{number}", self._told)
        self.on("POST /publish/{number}", self._published)
        self.on("GET /", self._front)
        self.on("GET /opml", self._opml)

    def feed(self, number: int | str) -> str:
        """Return the URL of a feed."""
        return f"{self.url}/feed/{number}"

    def now(self, number: int | str, state: str) -> None:
        """Set the state of a feed; "well" resets it."""
        self._now[str(number)] = _known(state)

    def state(self, number: int | str) -> str:
        """Return the current state."""
        return self._now.get(str(number), "well")

    def next(self, number: int | str, *states: str) -> None:
        """Set the states of the next polls, in order. After them the current state applies."""
        self._next.setdefault(str(number), deque()).extend(_known(state) for state in states)

    def publish(self, number: int | str, entries: int = 1) -> None:
        """Add entries, which changes the validators."""
        self._newest[str(number)] = self._written(str(number)) + entries

    def polls(self, number: int | str) -> int:
        """Return the number of polls of a feed at all its URLs. A chain of redirects is one poll."""
        paths = [f"/feed/{number}", f"/moved/{number}"]
        return sum(
            request.path in paths and not request.met.endswith((": 301", ": 308", ": 302", ": 307"))
            for request in self.asked()
        )

    def _begin(self) -> None:
        self._now: dict[str, str] = {}
        self._next: dict[str, deque[str]] = {}
        self._newest: dict[str, int] = {}

    def _written(self, number: str) -> int:
        return self._newest.get(number, self._items)

    def _asked(self, request: RecordedRequest) -> object:
        number = request.params["number"]
        waiting = self._next.get(number)
        state = waiting.popleft() if waiting else self._now.get(number, "well")
        if state in _SENT:
            return self._sent(state, request)
        answer = _ANSWERS[state]
        return answer(number) if callable(answer) else answer

    def _sent(self, state: str, request: RecordedRequest) -> Step:
        number = request.params["number"]
        if state == "restless":
            self.publish(number)
        name, special = _SENT[state]
        written = Written(number, self._written(number), self._items)
        since = format_datetime(written.modified, usegmt=True)
        validators = {} if state == "unvalidated" else {"ETag": written.etag, "Last-Modified": since}
        held, dated = request.headers.get("if-none-match"), request.headers.get("if-modified-since")
        fresh = held == written.etag if held else dated == since
        if validators and (fresh or (state == "stuck" and (held or dated))):
            return Step(304, b"", validators)
        make, kind = FORMATS[name]
        body = make(number, self._written(number), self._items)
        return Step(200, body, {"Content-Type": kind, **validators}, **special)

    def _chain(self, request: RecordedRequest) -> Step:
        left, number = int(request.params["left"]) - 1, request.params["number"]
        return _to(301, f"/chain/{left}/{number}" if left > 1 else f"/moved/{number}")

    def _told(self, request: RecordedRequest) -> Step:
        try:
            self.now(request.params["number"], request.text.strip())
        except ValueError as error:
            return Step(400, {"error": str(error)})
        return Step(200, {"feed": request.params["number"], "state": request.text.strip()})

    def _published(self, request: RecordedRequest) -> Step:
        self.publish(request.params["number"])
        return Step(200, {"feed": request.params["number"], "entries": self._written(request.params["number"])})

    def _front(self, _: RecordedRequest) -> Step:
        rows = "".join(
            f'<li><a href="/feed/{n}">/feed/{n}</a>: {escape(self._now.get(str(n), "well"))}</li>'
            for n in range(1, self.feeds + 1)
        )
        text = f"<p>curl -d gone {self.url}/state/1</p><p>States: {', '.join(STATES)}</p>"
        return Step(200, f"<!DOCTYPE html><title>Simulated feeds</title><ol>{rows}</ol>{text}", _HTML)

    def _opml(self, _: RecordedRequest) -> Step:
        rows = "".join(
            f'<outline type="rss" text="Simulated feed {n}" xmlUrl="{self.feed(n)}"/>' for n in range(1, self.feeds + 1)
        )
        return Step(200, f'<opml version="2.0"><head/><body>{rows}</body></opml>', {"Content-Type": "text/x-opml"})


def simulated() -> Simulated:
    """Return the simulator for the application, which may then poll this machine on any port."""
    simulator = FeedSimulator()
    return Simulated(
        simulator,
        lambda url: {"allow_networks": ["127.0.0.0/8"], "ports": [], "simulated": url},
        f"has feeds to add: {{url}}/feed/1 to {{url}}/feed/{simulator.feeds}, or all of {{url}}/opml",
    )


def _known(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"state: {state!r:.40} is not known; give one of {', '.join(STATES)}")
    return state
