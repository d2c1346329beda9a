"""Simulated services for enrichment: Fanart.tv, MusicBrainz and OpenAI."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import unicodedata
import zlib
from collections.abc import Mapping
from email.utils import formatdate
from functools import partial
from typing import ClassVar

from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_demo.simulators.music.base import ALBUMS, ARTISTS, TRACKS, Fault, Service, known_as

# -- Fanart.tv. Some entries have no images, which is a 404 and not an error. ------------------------------------------

FANART_KEY, PERSONAL = "fanart-simulated-key", "fanart-simulated-personal"
_WITHOUT = 3  # every third entry has no images
_COLOURS = ("#1f6feb", "#2da44e", "#bf3989", "#9a6700", "#8250df", "#cf222e")


def _fanart_error(status: int, message: str) -> Step:
    return Step(status, {"status": "error", "error message": message})


class FanartService(Service):
    """*version*: "v3" has albums by id, "v3.2" in a list. *url* is the base of its images."""

    name = "fanart"
    url = "https://assets.fanart.example"
    faults: ClassVar[Mapping[str, Fault]] = {
        "not_found": _fanart_error(404, "Not found"),
        "not_found_in_200": _fanart_error(200, "Not found"),
        "key_invalid": _fanart_error(401, "Invalid API key"),
        "key_missing_in_200": _fanart_error(200, "No API key provided"),
        "error_in_200": _fanart_error(200, "Something went wrong"),
        "no_pictures": Step(200, {"name": "Nobody", "mbid_id": "x"}),
        "other_album": Step(200, {"name": "Nobody", "albums": {known_as("release-group", "another"): {}}}),
    }

    def begin(self) -> None:
        super().begin()
        self.version = "v3"

    def mount(self, sim: Simulator) -> None:
        self._route(sim, "artist", "GET /v3/music/{id}", self._artist)
        self._route(sim, "album", "GET /v3/music/albums/{id}", self._album)
        self._route(sim, "picture", "GET /picture/{name}/{colour}", self._picture)

    def has(self, name: str) -> bool:
        """Return whether an artist or an album of this name has images."""
        return sum(map(ord, name)) % _WITHOUT != 0

    def _artist(self, request: RecordedRequest) -> object:
        if (no := _kept_out(request)) is not None:
            return no
        name = next((artist for artist in ARTISTS if known_as("artist", artist) == request.params["id"]), None)
        if name is None or not self.has(name):
            return self.faults["not_found"]
        return {
            "name": name,
            "mbid_id": request.params["id"],
            "artistthumb": [self._image(name, 1, "3"), self._image(name, 2, "12")],
            "artistbackground": [self._image(name, 3, "1")],
            "musiclogo": [self._image(name, 4, "0")],
        }

    def _album(self, request: RecordedRequest) -> object:
        if (no := _kept_out(request)) is not None:
            return no
        wanted = request.params["id"]
        match = next((track for track in ALBUMS if track.album_mbid == wanted), None)
        if match is None or not self.has(match.album):
            return self.faults["not_found"]
        art = {
            "albumcover": [self._image(match.album, 5, "7")],
            "cdart": [{**self._image(match.album, 6, "2"), "disc": "1"}],
        }
        listed: object = {wanted: art} if self.version == "v3" else [{"release_group_id": wanted, **art}]
        return {"name": match.artist, "mbid_id": match.artist_mbid, "albums": listed}

    def _image(self, name: str, number: int, likes: str) -> dict[str, str]:
        at = f"{self.url}/fanart/picture/{sum(map(ord, name))}-{number}/{number}"
        return {"id": str(number), "url": at, "likes": likes, "lang": "en"}

    def _picture(self, request: RecordedRequest) -> object:
        colour = _COLOURS[(sum(map(ord, request.params["name"]))) % len(_COLOURS)]
        return Step(200, png(bytes.fromhex(colour.lstrip("#"))), {"Content-Type": "image/png"})


def png(colour: bytes, size: int = 96) -> bytes:
    """Return a square of one colour with a lighter disc."""
    light = bytes((channel + 255) // 2 for channel in colour)
    middle, far = size // 2, (size // 3) ** 2
    rows = b"".join(
        b"\0" + b"".join(light if (x - middle) ** 2 + (y - middle) ** 2 < far else colour for x in range(size))
        for y in range(size)
    )

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _kept_out(request: RecordedRequest) -> Step | None:
    key = request.headers.get("api-key") or request.query.get("api_key", "")
    if not key:
        return _fanart_error(401, "No API key provided")
    return None if key == FANART_KEY else _fanart_error(401, "Invalid API key")


# -- MusicBrainz -------------------------------------------------------------------------------------------------------
# It requires a User-Agent with a contact, limits the rate, and has two kinds of 503.

_TERM = re.compile(r'(\w+):"((?:[^"\\]|\\.)*)"')
_HELP = "For usage, please see: https://musicbrainz.org/development/mmd"
_VARIOUS = "89ad4ac3-39f7-470e-963a-56509c546377"
_BURST = 3.0
_TOO_FAST = "Your requests are exceeding the allowable rate limit. Please see the page on rate limiting."
_BUSY = "The MusicBrainz web server is currently busy. Please try again later."

Names = Mapping[str, tuple[str, str]]  # by id: name and artist of an entity


def _musicbrainz_error(status: int, error: str, headers: Mapping[str, str] | None = None) -> Step:
    return Step(status, {"error": error, "help": _HELP}, headers or {})


class MusicBrainzService(Service):
    """*limited*: above one request per second, all requests are rejected until the mean is lower again."""

    name = "musicbrainz"
    faults: ClassVar[Mapping[str, Fault]] = {
        "shedding": _musicbrainz_error(
            503,
            _BUSY,
            {
                "X-RateLimit-Who": "search-shed",
                "X-RateLimit-Zone": "search-global",
                "X-RateLimit-Remaining": "171",
                "Retry-After": "0",
            },
        ),
        "too_fast": _musicbrainz_error(503, _TOO_FAST, {"X-RateLimit-Remaining": "0", "Retry-After": "0"}),
        "read_only": _musicbrainz_error(503, "The database is currently read only"),
        "unexplained": Step(503, b""),
        "invalid_mbid": _musicbrainz_error(400, "Invalid mbid."),
        "unknown": _musicbrainz_error(404, "Not Found"),
        "unauthorised": _musicbrainz_error(401, "You are not authorized to access this resource."),
    }

    def begin(self) -> None:
        super().begin()
        self.limited = True
        self.refused = 0  # requests above the rate limit
        self.merged: dict[str, str] = {}  # ids that were merged into another
        self.deleted: set[str] = set()
        self._credit, self._counted = _BURST, self.clock.now()

    def mount(self, sim: Simulator) -> None:
        artists = {known_as("artist", name): (name, name) for name in ARTISTS} | {_VARIOUS: ("Various Artists", "")}
        albums = {track.album_mbid: (track.album, track.artist) for track in ALBUMS}
        songs = {track.mbid: (track.title, track.artist) for track in TRACKS}
        tables: Mapping[str, tuple[str, Names]] = {
            "artist": ("artists", artists),
            "release-group": ("release-groups", albums),
            "recording": ("recordings", songs),
        }
        for entity, (listed, names) in tables.items():
            look, search = partial(self._looked_up, names=names), partial(self._searched, listed=listed, names=names)
            self._route(sim, entity, f"GET /ws/2/{entity}/{{id}}", look)
            self._route(sim, f"search-{entity}", f"GET /ws/2/{entity}", search)

    def _looked_up(self, request: RecordedRequest, names: Names) -> object:
        if (no := self._kept_out(request)) is not None:
            return no
        wanted = self.merged.get(request.params["id"], request.params["id"])
        if len(wanted) != 36:
            return self.faults["invalid_mbid"]
        if wanted not in names or wanted in self.deleted:
            return self.faults["unknown"]
        return self._row(wanted, names)

    def _searched(self, request: RecordedRequest, listed: str, names: Names) -> object:
        if (no := self._kept_out(request)) is not None:
            return no
        terms = {name: _plain(re.sub(r"\\(.)", r"\1", value)) for name, value in _TERM.findall(request.query["query"])}
        artist = terms.pop("artist", "")
        name = next(iter(terms.values()), artist)
        matches = []
        for ref, (title, by) in names.items():
            of_artist = not artist or artist == _plain(by)
            if of_artist and name in _plain(title) and ref not in self.deleted:
                matches.append({**self._row(ref, names), "score": 100 if name == _plain(title) else 61})
        matches.sort(key=lambda row: -int(str(row["score"])))
        limit = int(request.query.get("limit", 25))
        return {"created": "2026-01-01T00:00:00Z", "count": len(matches), "offset": 0, listed: matches[:limit]}

    def _row(self, ref: str, names: Names) -> dict[str, object]:
        name, by = names[ref]
        return {"id": ref, "name": name, "title": name, "sort-name": name, "artist-credit": [{"name": by}]}

    def _kept_out(self, request: RecordedRequest) -> Step | None:
        agent = request.headers.get("user-agent")
        if "(" not in agent or agent.startswith("python"):
            return Step(403, "Your User-Agent is blocked", {"Content-Type": "text/plain"})
        now = self.clock.now()
        self._credit = min(_BURST, self._credit + now - self._counted)
        self._counted = now
        if self.limited and self._credit < 1:
            self.refused += 1
            return _musicbrainz_error(
                503,
                _TOO_FAST,
                {
                    "X-RateLimit-Limit": "1",
                    "X-RateLimit-Remaining": "0",
                    "X-RateLimit-Reset": f"{now + 2:.0f}",
                    "X-RateLimit-Zone": "anon",
                    "Retry-After": "0",
                    "Date": formatdate(now, usegmt=True),
                },
            )
        self._credit -= 1
        return None


def _plain(name: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKC", name).casefold() if sign.isalnum())


OPENAI_KEY = "simulated-openai-key"
_TAGS = ("ambient", "folk", "harbour pop", "dub", "choral", "post-rock", "sea shanty", "electronic")


def error(status: int, code: str | None, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Step:
    """Return an error in the usual format."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Step(status, body, {"x-request-id": "req_simulated", **(headers or {})})


def _completion(content: str | None, finish: str = "stop", refusal: str | None = None) -> Step:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {"prompt_tokens": 90, "completion_tokens": 30, "total_tokens": 120}
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }
    return Step(200, body, {"x-request-id": "req_simulated"})


_EACH = 20  # tokens per artist
_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_SPENT = {
    code: error(429, code, "insufficient_quota", _QUOTA)
    for code in (
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    )
}


class OpenAiService(Service):
    """*unknown*: artists that the model does not know; *too_long*: those whose request exceeds the limit.

    *refuses*: parameters that it rejects, as some gateways do.
    """

    name = "openai"
    faults: ClassVar[Mapping[str, Fault]] = {
        **_SPENT,
        "rate_limit": error(
            429,
            "rate_limit_exceeded",
            "requests",
            "Rate limit reached for requests",
            {
                "retry-after-ms": "20000",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "6m0s",
            },
        ),
        "slow_down": error(429, "slow_down", "tokens", "Please slow down."),
        "request_too_large": error(429, "rate_limit_exceeded", "tokens", "Request too large for m on tokens per min."),
        "key_invalid": error(401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided."),
        "region": error(403, "unsupported_country_region_territory", "request_forbidden", "Country not supported"),
        "model_not_found": error(404, "model_not_found", "invalid_request_error", "The model does not exist"),
        "too_long": error(400, "context_length_exceeded", "invalid_request_error", "Too many tokens"),
        "conflict": error(409, None, "conflict", "Try again"),
        "unprocessable": error(422, None, "invalid_request_error", "Unprocessable"),
        "server_error": error(500, None, "server_error", "The server had an error"),
        "overloaded": error(503, "server_is_overloaded", "service_unavailable_error", "Overloaded"),
        "told_to_stop": error(500, None, "server_error", "Do not retry", {"x-should-retry": "false"}),
        "quota_in_200": error(200, "insufficient_quota", "insufficient_quota", _QUOTA),
        "no_choices": Step(200, {"id": "x", "object": "chat.completion", "choices": []}),
        "no_content": _completion(None),
        "cut_by_length": _completion('{"1": ["amb', "length"),
        "content_filter": _completion(None, "content_filter"),
        "refusal": _completion(None, refusal="I cannot help with that."),
        "babble": _completion("Sure! Here are your tags."),
    }

    def begin(self) -> None:
        super().begin()
        self.unknown: set[str] = set()
        self.too_long: set[str] = set()
        self.refuses: set[str] = set()
        self.thinks = 0  # reasoning tokens per response
        self.tagged: list[str] = []  # artists in the order of requests

    def mount(self, sim: Simulator) -> None:
        self._route(sim, "models", "GET /v1/models", self._models)
        self._route(sim, "chat", "POST /v1/chat/completions", self._chat)

    def tags(self, name: str) -> list[str]:
        """Return the tags of an artist."""
        first = hashlib.sha256(name.encode()).digest()[0]
        return [] if name in self.unknown else [_TAGS[(first + step) % len(_TAGS)] for step in (0, 3)]

    def _models(self, request: RecordedRequest) -> object:
        return self._kept_out(request) or {"object": "list", "data": [{"id": "gpt-6-luna", "object": "model"}]}

    def _chat(self, request: RecordedRequest) -> object:
        if (no := self._kept_out(request)) is not None:
            return no
        if refused := self.refuses & request.json.keys():
            return Step(400, {"error": f"'{min(refused)}' is not supported"})
        names = json.loads(request.json["messages"][-1]["content"])
        if self.too_long & set(names.values()):
            return self.faults["too_long"]
        if self.thinks + _EACH * len(names) > request.json.get("max_completion_tokens", 10**6):
            return self.faults["cut_by_length"]
        self.tagged += names.values()
        return _completion(json.dumps({number: self.tags(name) for number, name in names.items()}))

    def _kept_out(self, request: RecordedRequest) -> Fault | None:
        return None if request.headers.get("authorization") == f"Bearer {OPENAI_KEY}" else self.faults["key_invalid"]
