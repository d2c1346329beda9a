"""A simulated Last.fm: numbers are text, the current song is first in every page, and a single row has no list."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from html import escape
from typing import ClassVar
from urllib.parse import urlencode

from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_demo.simulators.music.base import HTML, TRACKS, CatalogueTrack, Fault, Listened

KEY, SECRET = "lastfm-simulated-key", "lastfm-simulated-secret"

# Error numbers, with their text and usual status.
_ERRORS: Mapping[int, tuple[int, str]] = {
    2: (400, "Invalid service - This service does not exist"),
    3: (400, "Invalid Method - No method with that name in this package"),
    4: (403, "Authentication Failed - You do not have permissions to access the service"),
    5: (400, "Invalid format - This service doesn't exist in that format"),
    6: (404, "User not found"),
    7: (400, "Invalid resource specified"),
    8: (500, "Operation failed - Most likely the backend service failed. Please try again."),
    9: (403, "Invalid session key - Please re-authenticate"),
    10: (403, "Invalid API key - You must be granted a valid key by last.fm"),
    11: (503, "Service Offline - This service is temporarily offline. Try again later."),
    13: (403, "Invalid method signature supplied"),
    14: (403, "This token has not been authorized"),
    15: (403, "This token has expired"),
    16: (503, "The service is temporarily unavailable, please try again."),
    17: (403, "Login: User required to be logged in"),
    26: (403, "Suspended API key - Access for your account has been suspended, please contact Last.fm"),
    27: (410, "Deprecated - This type of request is no longer supported"),
    29: (429, "Rate Limit Exceeded - Your IP has made too many requests in a short period"),
}


def error(number: int, *, status: int | None = None) -> Step:
    """Return an error with its usual status or another one."""
    usual, message = _ERRORS[number]
    return Step(usual if status is None else status, {"error": number, "message": message})


def _xml(number: int) -> Step:
    message = escape(_ERRORS[number][1])
    body = f'<?xml version="1.0"?><lfm status="failed"><error code="{number}">{message}</error></lfm>'
    return Step(200, body, {"Content-Type": "text/xml; charset=utf-8"})


class LastFmService(Listened):
    """*hidden*: users with a private history. *playing*: users with a current song."""

    name = "lastfm"
    faults: ClassVar[Mapping[str, Fault]] = {
        **{f"error_{number}": error(number) for number in _ERRORS},
        **{f"error_{number}_in_200": error(number, status=200) for number in _ERRORS},
        **{f"error_{number}_in_xml": _xml(number) for number in _ERRORS},
        "garbled": Step(200, "<br />Warning: too many connections", {"Content-Type": "application/json"}),
    }

    def begin(self) -> None:
        super().begin()
        self.users: set[str] = set()
        self.hidden: set[str] = set()
        self.playing: set[str] = set()
        self.sessions: dict[str, str] = {}
        self._tokens: dict[str, str] = {}

    def user(self, name: str) -> None:
        self.users.add(name)
        self.listening.heard(name)

    def session(self, name: str) -> str:
        """Return the session key of a user."""
        self.user(name)
        key = hashlib.sha256(f"session {name} {len(self.sessions)}".encode()).hexdigest()[:32]
        self.sessions[key] = name
        return key

    def mount(self, sim: Simulator) -> None:
        self._route(sim, "api", "GET /2.0/", self._called)
        self._route(sim, "auth", "GET /api/auth/", self._page)
        self._route(sim, "allowed", "POST /api/auth/", self._allowed)

    def _called(self, request: RecordedRequest) -> object:
        query = request.query
        if query.get("api_key") != KEY:
            return error(10)
        if "api_sig" in query and query["api_sig"] != _signature(query):
            return error(13)
        if "sk" in query and query["sk"] not in self.sessions:
            return error(9)
        match query.get("method", "").lower():
            case "user.getinfo":
                return {"user": {"name": query["user"]}} if query.get("user") in self.users else error(6)
            case "user.getrecenttracks":
                return self._recent(query)
            case "auth.getsession":
                return self._session(query)
        return error(3)

    def _recent(self, given: Mapping[str, str]) -> object:
        user = given.get("user", "")
        if user not in self.users:
            return error(6)
        if user in self.hidden and self.sessions.get(given.get("sk", "")) != user:
            return error(17)
        since, end = int(given.get("from") or 0), int(given.get("to") or 10**12)
        plays = [(int(at), track) for at, track in self.listening.heard(user, since) if int(at) < end][::-1]
        limit, page = min(200, int(given.get("limit") or 50)), int(given.get("page") or 1)
        rows = [_row(track, at) for at, track in plays[(page - 1) * limit : page * limit]]
        if user in self.playing:
            rows.insert(0, {**_row(TRACKS[0], None), "@attr": {"nowplaying": "true"}})
        about = {
            "user": user,
            "page": str(page),
            "perPage": str(limit),
            "total": str(len(plays)),
            "totalPages": str(math.ceil(len(plays) / limit)),
        }
        return {"recenttracks": {"track": rows[0] if len(rows) == 1 else rows, "@attr": about}}

    def _session(self, given: Mapping[str, str]) -> object:
        if "api_sig" not in given:
            return error(13)
        name = self._tokens.pop(given.get("token", ""), None)
        if name is None:
            return error(14)
        return {"session": {"name": name, "key": self.session(name), "subscriber": 0}}

    def _page(self, request: RecordedRequest) -> object:
        if request.query.get("api_key") != KEY:
            return Step(403, "Invalid API key", HTML)
        back = escape(request.query.get("cb", ""))
        fields = f'<input type="hidden" name="cb" value="{back}"><label>Account <input name="user" value="ann"></label>'
        page = f"<form method='post'>{fields}<button>Yes, allow access</button></form>"
        return Step(200, f"<!DOCTYPE html><title>Simulated Last.fm</title>{page}", HTML)

    def _allowed(self, request: RecordedRequest) -> object:
        token = hashlib.sha256(f"token {len(self._tokens)} {self.clock.now()}".encode()).hexdigest()[:32]
        self._tokens[token] = request.form.get("user") or "ann"
        back = request.form.get("cb", "")
        return Step(302, b"", {"Location": f"{back}{'&' if '?' in back else '?'}{urlencode({'token': token})}"})


def _signature(given: Mapping[str, str]) -> str:
    unsigned = ("format", "callback", "api_sig")
    text = "".join(f"{name}{given[name]}" for name in sorted(given) if name not in unsigned)
    return hashlib.md5(f"{text}{SECRET}".encode(), usedforsecurity=False).hexdigest()


def _row(track: CatalogueTrack, at: int | None) -> dict[str, object]:
    row: dict[str, object] = {
        "artist": {"#text": track.artist, "mbid": track.artist_mbid},
        "name": track.title,
        "mbid": "",
        "album": {"#text": track.album, "mbid": ""},
        "url": f"https://www.last.example/music/_/{track.number}",
        "image": [],
        "streamable": "0",
    }
    return row if at is None else {**row, "date": {"uts": str(at), "#text": "some day"}}
