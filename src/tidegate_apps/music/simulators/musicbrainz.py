"""A MusicBrainz: it wants a User-Agent with a contact, counts requests, and has two kinds of 503."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from email.utils import formatdate
from functools import partial
from typing import ClassVar

from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_apps.music.simulators.catalogue import ALBUMS, ARTISTS, TRACKS, known_as
from tidegate_apps.music.simulators.service import Fault, Service

_TERM = re.compile(r'(\w+):"((?:[^"\\]|\\.)*)"')
_HELP = "For usage, please see: https://musicbrainz.org/development/mmd"
_VARIOUS = "89ad4ac3-39f7-470e-963a-56509c546377"
_BURST = 3.0
_TOO_FAST = "Your requests are exceeding the allowable rate limit. Please see the page on rate limiting."
_BUSY = "The MusicBrainz web server is currently busy. Please try again later."

Names = Mapping[str, tuple[str, str]]  # of an entity, by id: its name and its artist


def _musicbrainz_error(status: int, error: str, headers: Mapping[str, str] | None = None) -> Step:
    return Step(status, {"error": error, "help": _HELP}, headers or {})


class MusicBrainzService(Service):
    """*limited*: more than one request a second is refused, all of them, until the average is down again."""

    name = "musicbrainz"
    faults: ClassVar[Mapping[str, Fault]] = {
        "shedding": _musicbrainz_error(503, _BUSY, {
            "X-RateLimit-Who": "search-shed", "X-RateLimit-Zone": "search-global", "X-RateLimit-Remaining": "171",
            "Retry-After": "0",
        }),
        "too_fast": _musicbrainz_error(503, _TOO_FAST, {"X-RateLimit-Remaining": "0", "Retry-After": "0"}),
        "read_only": _musicbrainz_error(503, "The database is currently read only"),
        "unexplained": Step(503, b""),
        "invalid_mbid": _musicbrainz_error(400, "Invalid mbid."),
        "unknown": _musicbrainz_error(404, "Not Found"),
        "unauthorised": _musicbrainz_error(401, "You are not authorized to access this resource."),
    }  # fmt: skip

    def begin(self) -> None:
        super().begin()
        self.limited = True
        self.refused = 0  # requests that came too fast
        self.merged: dict[str, str] = {}  # ids that lead to another one
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
        found = []
        for ref, (title, by) in names.items():
            of_artist = not artist or artist == _plain(by)
            if of_artist and name in _plain(title) and ref not in self.deleted:
                found.append({**self._row(ref, names), "score": 100 if name == _plain(title) else 61})
        found.sort(key=lambda row: -int(str(row["score"])))
        limit = int(request.query.get("limit", 25))
        return {"created": "2026-01-01T00:00:00Z", "count": len(found), "offset": 0, listed: found[:limit]}

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
            return _musicbrainz_error(503, _TOO_FAST, {
                "X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{now + 2:.0f}",
                "X-RateLimit-Zone": "anon", "Retry-After": "0", "Date": formatdate(now, usegmt=True),
            })  # fmt: skip
        self._credit -= 1
        return None


def _plain(name: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKC", name).casefold() if sign.isalnum())
