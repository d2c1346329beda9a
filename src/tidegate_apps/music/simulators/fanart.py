"""A Fanart.tv: most have pictures, some have none, which is a 404 and no error."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import ClassVar

from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_apps.music.simulators.catalogue import ALBUMS, ARTISTS, known_as
from tidegate_apps.music.simulators.service import Fault, Service

KEY, PERSONAL = "fanart-simulated-key", "fanart-simulated-personal"
_WITHOUT = 3  # each third has no pictures
_COLOURS = ("#1f6feb", "#2da44e", "#bf3989", "#9a6700", "#8250df", "#cf222e")


def _fanart_error(status: int, message: str) -> Step:
    return Step(status, {"status": "error", "error message": message})


class FanartService(Service):
    """*version*: "v3" has albums by their ids, "v3.2" in a list. *url* is where its pictures are."""

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
        """Whether there are pictures of an artist, or of an album of this name."""
        return sum(map(ord, name)) % _WITHOUT != 0

    def _artist(self, request: RecordedRequest) -> object:
        if (no := _kept_out(request)) is not None:
            return no
        name = next((artist for artist in ARTISTS if known_as("artist", artist) == request.params["id"]), None)
        if name is None or not self.has(name):
            return self.faults["not_found"]
        return {
            "name": name, "mbid_id": request.params["id"],
            "artistthumb": [self._image(name, 1, "3"), self._image(name, 2, "12")],
            "artistbackground": [self._image(name, 3, "1")],
            "musiclogo": [self._image(name, 4, "0")],
        }  # fmt: skip

    def _album(self, request: RecordedRequest) -> object:
        if (no := _kept_out(request)) is not None:
            return no
        wanted = request.params["id"]
        found = next((track for track in ALBUMS if track.album_mbid == wanted), None)
        if found is None or not self.has(found.album):
            return self.faults["not_found"]
        art = {
            "albumcover": [self._image(found.album, 5, "7")],
            "cdart": [{**self._image(found.album, 6, "2"), "disc": "1"}],
        }
        listed: object = {wanted: art} if self.version == "v3" else [{"release_group_id": wanted, **art}]
        return {"name": found.artist, "mbid_id": found.artist_mbid, "albums": listed}

    def _image(self, name: str, number: int, likes: str) -> dict[str, str]:
        at = f"{self.url}/fanart/picture/{sum(map(ord, name))}-{number}/{number}"
        return {"id": str(number), "url": at, "likes": likes, "lang": "en"}

    def _picture(self, request: RecordedRequest) -> object:
        colour = _COLOURS[(sum(map(ord, request.params["name"]))) % len(_COLOURS)]
        return Step(200, png(bytes.fromhex(colour.lstrip("#"))), {"Content-Type": "image/png"})


def png(colour: bytes, size: int = 96) -> bytes:
    """A square of one colour with a lighter disc in it."""
    light = bytes((each + 255) // 2 for each in colour)
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
    given = request.headers.get("api-key") or request.query.get("api_key", "")
    if not given:
        return _fanart_error(401, "No API key provided")
    return None if given == KEY else _fanart_error(401, "Invalid API key")
