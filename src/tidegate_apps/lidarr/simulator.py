"""A Lidarr that behaves as the real one does, over real HTTP: for tests, and for `tidegate serve --simulators`.

    with LidarrSimulator() as sim:
        sim.inside.catalogue["artist-1"] = ("Nina", ["album-1", "album-2"])
        sim.weather = "metadata down"
        sim.inside.fill(50, lasts=600)             # somebody else's downloads: it is full

WEATHERS names what it can be. While it runs, `curl -d starting http://127.0.0.1:12345/weather` does the same, and
`curl -d 50 http://127.0.0.1:12345/fill` fills its queue. For times of its own, hand it a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate.apps import Simulated
from tidegate.testing import Hang, RecordedRequest, Simulator, Step
from tidegate_apps.lidarr.simulated_lidarr import (
    METADATA,
    QUALITY,
    LidarrState,
    SimulatedTiming,
    shown_album,
    shown_artist,
)

KEY = "simulated"
_API = "/api/v1"
_METADATA = "Search for '{}' failed. Unable to communicate with LidarrAPI. DNS Name Resolution Failure"

# What the whole of it answers in a weather, or only what needs the metadata service.
_WHOLE: Mapping[str, Step | Hang] = {
    "starting": Step(503, {"errorMessage": "Lidarr is starting up, please try again later"}),
    "broken": Step(500, {"message": "database is locked", "description": "System.Data.SQLite.SQLiteException"}),
    "hangs": Hang(),
    "page": Step(200, "<html><body>Log in</body></html>", {"Content-Type": "text/html"}),
}
WEATHERS = ("well", *_WHOLE, "metadata down", "slow")


class LidarrSimulator(Simulator):
    """One Lidarr. With *known*, its metadata service knows every id there is, and not only those of the catalogue."""

    def __init__(self, *, pace: SimulatedTiming | None = None, known: bool = True, key: str = KEY, **more: Any) -> None:
        super().__init__("lidarr", on_reset=self._begin, **more)
        self._pace, self._known, self.key = pace, known, key
        self._answers: dict[str, Callable[[RecordedRequest], Any]] = {}
        self._begin()
        for route, answer in {
            "GET /system/status": lambda _: {"appName": "Lidarr", "version": "2.9.6"},
            "GET /queue": self._queue,
            "GET /artist": self._artists,
            "GET /artist/lookup": self._lookup,
            "GET /artist/{id}": lambda asked: self._one(self.inside.artists, asked, shown_artist),
            "POST /artist": self._add_artist,
            "PUT /artist/editor": self._edit,
            "GET /album": self._albums,
            "GET /album/{id}": lambda asked: self._one(self.inside.albums, asked, shown_album),
            "POST /album": self._add_album,
            "PUT /album/monitor": self._monitor,
            "GET /command": lambda _: self.inside.commands[-100:],
            "POST /command": lambda asked: Step(201, self.inside.search(asked.json["albumIds"])),
            "GET /rootfolder": lambda _: self.inside.folders,
            "GET /qualityprofile": lambda _: [{"id": id_, "name": name} for name, id_ in QUALITY.items()],
            "GET /metadataprofile": lambda _: [{"id": id_, "name": name} for name, id_ in METADATA.items()],
        }.items():
            method, path = route.split()
            self._answers[route] = self._behind(answer, path)
            self.on(f"{method} {_API}{path}", self._answers[route])
        self.on("POST /weather", self._told)
        self.on("POST /fill", self._filled)

    def _begin(self) -> None:
        self.weather = "well"
        self.inside = LidarrState(self._clock.now, self._pace or SimulatedTiming())

    def sent(self, route: str) -> int:
        """How often something was sent to a route of the API, such as "POST /artist"."""
        method, path = route.split()
        return self.count(f"{method} {_API}{path}")

    def answers(self, route: str) -> Callable[[RecordedRequest], Any]:
        """What it answers to a route of the API when nobody has changed that."""
        return self._answers[route]

    def lose(self, route: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The next of these is done, *meanwhile* is called, and the answer is lost on its way."""

        def done(request: RecordedRequest) -> Step:
            self._answers[route](request)
            meanwhile()
            return Step(reset=True)

        method, path = route.split()
        self.then(f"{method} {_API}{path}", done)

    # -- before every answer -------------------------------------------------------------------------------------------

    def _behind(self, answer: Callable[[RecordedRequest], Any], path: str) -> Callable[[RecordedRequest], Any]:
        def answered(request: RecordedRequest) -> Any:
            if request.headers.get("X-Api-Key") != self.key:
                return Step(401)
            if self.weather in _WHOLE:
                return _WHOLE[self.weather]
            needs_metadata = path == "/artist/lookup" or (request.method == "POST" and path in ("/artist", "/album"))
            if self.weather == "metadata down" and needs_metadata:
                return Step(503, {"message": _METADATA.format(path)})
            self.inside.advance()
            found = answer(request)
            if self.weather != "slow":
                return found
            return (
                Step(found.status, found.body, delay="3s") if isinstance(found, Step) else Step(200, found, delay="3s")
            )

        return answered

    def _told(self, request: RecordedRequest) -> Step:
        if request.text.strip() not in WEATHERS:
            return Step(400, f"give one of: {', '.join(WEATHERS)}\n")
        self.weather = request.text.strip()
        return Step(200, f"{self.weather}\n")

    def _filled(self, request: RecordedRequest) -> Step:
        self.inside.fill(int(request.text.strip() or 50), lasts=600)
        return Step(200, f"{len(self.inside.queue())} in the queue\n")

    # -- what it has ---------------------------------------------------------------------------------------------------

    def _queue(self, request: RecordedRequest) -> Any:
        there = self.inside.queue()
        limit = int(request.query.get("pageSize", 10))
        records = [
            {"id": n, "albumId": each.album or None, "status": "downloading"} for n, each in enumerate(there[:limit], 1)
        ]
        return {"page": 1, "pageSize": limit, "totalRecords": len(there), "records": records}

    def _artists(self, request: RecordedRequest) -> Any:
        wanted = request.query.get("mbId")
        return [shown_artist(artist) for artist in self.inside.artists.values() if wanted in (None, artist["mbid"])]

    def _albums(self, request: RecordedRequest) -> Any:
        wanted = request.query.get("foreignAlbumId")
        return [shown_album(album) for album in self.inside.albums.values() if wanted in (None, album["mbid"])]

    def _one(self, rows: Mapping[int, Any], request: RecordedRequest, shown: Callable[[Any], Any]) -> Any:
        row = rows.get(int(request.params["id"]))
        return shown(row) if row is not None else Step(404, {"message": "NotFound", "description": "at NzbDrone.Core"})

    def _lookup(self, request: RecordedRequest) -> Any:
        mbid = request.query.get("term", "").removeprefix("lidarr:")
        there = self.inside.artist_of(mbid)
        if there is not None:
            return [shown_artist(there)]
        return [{"artistName": self._name(mbid), "foreignArtistId": mbid}] if self._knows(mbid) else []

    def _knows(self, mbid: str) -> bool:
        listed = mbid in self.inside.catalogue or any(mbid in albums for _, albums in self.inside.catalogue.values())
        return mbid not in self.inside.unknown and (self._known or listed)

    def _name(self, mbid: str) -> str:
        return self.inside.catalogue.get(mbid, (f"Artist {mbid}", []))[0]

    # -- what it takes -------------------------------------------------------------------------------------------------

    def _add_artist(self, request: RecordedRequest) -> Any:
        given = request.json
        mbid = str(given.get("foreignArtistId", ""))
        wrong = self._refused(given)
        if self.inside.artist_of(mbid) is not None:
            wrong.append(_invalid("ForeignArtistId", "This artist has already been added.", "ArtistExistsValidator"))
        if mbid in self.inside.paths_taken:
            wrong.append(
                _invalid("Path", "Path '/music/x' is already configured for another artist", "ArtistPathValidator")
            )
        if wrong:
            return Step(400, wrong)
        if not self._knows(mbid):
            return Step(400, [_invalid("MusicbrainzId", "An artist with this ID was not found")])
        made = self.inside.put_artist(
            mbid, self._name(mbid), monitored=bool(given.get("monitored")), **given.get("addOptions", {})
        )
        return Step(201, shown_artist(made))

    def _add_album(self, request: RecordedRequest) -> Any:
        given = request.json
        mbid, artist = str(given.get("foreignAlbumId", "")), given.get("artist")
        if not artist:
            return Step(400, [_invalid("Artist", "'Artist' must not be empty.", "NotEmptyValidator")])
        wrong = self._refused(artist)
        if self.inside.album_of(mbid) is not None:
            wrong.append(_invalid("ForeignAlbumId", "This album has already been added.", "AlbumExistsValidator"))
        if wrong:
            return Step(400, wrong)
        if not self._knows(mbid):
            return Step(400, [_invalid("MusicbrainzId", "An album with this ID was not found")])
        owner = self.inside.artist_of(str(artist.get("foreignArtistId", "")))
        if owner is None:
            owner = self.inside.put_artist(artist["foreignArtistId"], self._name(artist["foreignArtistId"]))
        return Step(201, shown_album(self.inside.put_album(mbid, owner["id"], monitored=bool(given.get("monitored")))))

    def _refused(self, artist: Mapping[str, Any]) -> list[dict[str, Any]]:
        wrong = []
        if not artist.get("artistName"):
            wrong.append(_invalid("ArtistName", "'Artist Name' must not be empty.", "NotEmptyValidator"))
        if artist.get("rootFolderPath") not in [folder["path"] for folder in self.inside.folders]:
            wrong.append(_invalid("RootFolderPath", "Root folder does not exist", "RootFolderExistsValidator"))
        for field, there in (("qualityProfileId", QUALITY), ("metadataProfileId", METADATA)):
            if artist.get(field) not in there.values():
                wrong.append(_invalid(field, "Profile does not exist", f"{field[:-2]}ExistsValidator"))
        return wrong

    def _edit(self, request: RecordedRequest) -> Step:
        for id_ in request.json["artistIds"]:
            self.inside.artists[id_]["monitored"] = bool(request.json["monitored"])
        return Step(202, [shown_artist(self.inside.artists[id_]) for id_ in request.json["artistIds"]])

    def _monitor(self, request: RecordedRequest) -> Step:
        rows = [self.inside.albums[id_] for id_ in request.json["albumIds"] if id_ in self.inside.albums]
        for row in rows:
            row["monitored"] = bool(request.json["monitored"])
        return Step(202, [shown_album(row) for row in rows])


def _invalid(field: str, message: str, code: str = "") -> dict[str, Any]:
    return {"propertyName": field, "errorMessage": message, "severity": "error", "errorCode": code}


def simulated() -> Simulated:
    # Quicker than a real one, so that somebody who looks sees something happen.
    simulator = LidarrSimulator(pace=SimulatedTiming(refresh=1.0, found=20.0, lasts=60.0))
    use = f"has the key {KEY}; the albums that Music misses go there"
    return Simulated(simulator, lambda url: {"base_url": url, "api_key": KEY}, use)
