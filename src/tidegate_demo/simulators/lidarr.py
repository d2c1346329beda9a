"""A simulated Lidarr over real HTTP, for tests, and for `tidegate serve --simulators`.

    with LidarrSimulator() as sim:
        sim.inside.catalogue["artist-1"] = ("Nina", ["album-1", "album-2"])
        sim.weather = "metadata down"
        sim.inside.fill(50, lasts=600)             # downloads of another program: it is full

WEATHERS lists the outages. While it runs, `curl -d starting http://127.0.0.1:12345/weather` sets one, and
`curl -d 50 http://127.0.0.1:12345/fill` fills its queue. Pass a clock to control its time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

from tidegate.apps import Simulated
from tidegate.testing import Hang, RecordedRequest, Simulator, Step

# -- state: artists, albums, commands and downloads --------------------------------------------------------------------
# It changes with the time that is passed in. Durations match the real Lidarr: a new artist has albums after seconds,
# and a search adds to the queue after minutes.

_TRACKS = 10
QUALITY, METADATA = {"Any": 1, "Lossless": 2}, {"Standard": 1, "None": 2}


R = TypeVar("R")
Handler = Callable[[RecordedRequest], object]


class SimulatedArtist(TypedDict):
    id: int
    mbid: str
    name: str
    wanted: list[str]
    monitor: str
    monitored: bool


class SimulatedAlbum(TypedDict):
    id: int
    mbid: str
    artist: int
    monitored: bool
    files: int


class SimulatedCommand(TypedDict):
    id: int
    name: str
    body: dict[str, list[int]]
    at: float


@dataclass(slots=True)
class SimulatedTiming:
    """Seconds. A search takes between *found* and three times that, depending on its number; a download *lasts*."""

    refresh: float = 5.0
    found: float = 120.0
    lasts: float = 600.0


@dataclass(slots=True)
class Download:
    album: int
    shows_at: float
    ends_at: float

    def there(self, now: float) -> bool:
        return self.shows_at <= now < self.ends_at


@dataclass(slots=True)
class LidarrState:
    """The state. Every request first applies the changes that are due."""

    now: Callable[[], float]
    pace: SimulatedTiming = field(default_factory=SimulatedTiming)
    catalogue: dict[str, tuple[str, list[str]]] = field(default_factory=dict)  # artist: name, release groups
    unknown: set[str] = field(default_factory=set)  # ids that the metadata service does not know
    paths_taken: set[str] = field(default_factory=set)
    barren: set[str] = field(default_factory=set)  # albums that no search finds
    artists: dict[int, SimulatedArtist] = field(default_factory=dict)
    albums: dict[int, SimulatedAlbum] = field(default_factory=dict)
    commands: list[SimulatedCommand] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    refreshes: list[tuple[float, int]] = field(default_factory=list)
    folders: list[dict[str, object]] = field(default_factory=lambda: [_folder("/music")])
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    # -- time ----------------------------------------------------------------------------------------------------------

    def advance(self) -> float:
        """Apply the changes that are due, and return the time."""
        now = self.now()
        for at, artist in [refresh for refresh in self.refreshes if refresh[0] <= now]:
            self.refreshes.remove((at, artist))
            if artist in self.artists:
                self._refreshed(artist)
        for download in self.downloads:
            if download.ends_at <= now and download.album in self.albums:
                self.albums[download.album]["files"] = _TRACKS
        return now

    def _refreshed(self, artist: int) -> None:
        """Add all albums of an artist. Only requested ones are monitored."""
        row = self.artists[artist]
        wanted, there = set(row["wanted"]), {album["mbid"]: album for album in self.albums.values()}
        for mbid in self.catalogue.get(row["mbid"], ("", []))[1]:
            if mbid in there:
                there[mbid]["monitored"] |= mbid in wanted
                if row["monitor"] == "none":
                    there[mbid]["monitored"] = False
            else:
                self.put_album(mbid, artist, monitored=mbid in wanted and row["monitor"] != "none")

    # -- queries -------------------------------------------------------------------------------------------------------

    def queue(self) -> list[Download]:
        now = self.advance()
        return [download for download in self.downloads if download.there(now)]

    def peak(self) -> int:
        """Return the largest length of the queue, past or future, if nothing more is submitted."""
        moves = sorted(
            (at, step) for download in self.downloads for at, step in ((download.shows_at, 1), (download.ends_at, -1))
        )
        return max(itertools.accumulate((step for _, step in moves), initial=0))

    def artist_of(self, mbid: str) -> SimulatedArtist | None:
        return next((artist for artist in self.artists.values() if artist["mbid"] == mbid), None)

    def album_of(self, mbid: str) -> SimulatedAlbum | None:
        return next((album for album in self.albums.values() if album["mbid"] == mbid), None)

    # -- changes -------------------------------------------------------------------------------------------------------

    def put_artist(self, mbid: str, name: str, *, monitored: bool = True, **options: Any) -> SimulatedArtist:
        monitor = options.get("monitor", "unknown")
        made: SimulatedArtist = {
            "id": next(self._ids),
            "mbid": mbid,
            "name": name,
            "wanted": list(options.get("albumsToMonitor") or ()),
            "monitor": monitor,
            "monitored": monitored and monitor != "none",
        }
        self.artists[made["id"]] = made
        self.refreshes.append((self.now() + self.pace.refresh, made["id"]))
        return made

    def put_album(self, mbid: str, artist: int, *, monitored: bool = False) -> SimulatedAlbum:
        made: SimulatedAlbum = {
            "id": next(self._ids),
            "mbid": mbid,
            "artist": artist,
            "monitored": monitored,
            "files": 0,
        }
        self.albums[made["id"]] = made
        return made

    def search(self, albums: Iterable[int]) -> SimulatedCommand:
        now, body = self.advance(), {"albumIds": list(albums)}
        made: SimulatedCommand = {"id": next(self._ids), "name": "AlbumSearch", "body": body, "at": now}
        self.commands.append(made)
        for id_ in made["body"]["albumIds"]:
            row = self.albums.get(id_)
            if row is None or not row["monitored"] or row["mbid"] in self.barren or self._held(id_, now):
                continue
            shows = now + self.pace.found * (1 + (id_ * 7919 % 17) / 8)
            self.downloads.append(Download(id_, shows, shows + self.pace.lasts))
        return made

    def _held(self, album: int, now: float) -> bool:
        """Return whether the album exists or is being downloaded: nothing is fetched twice."""
        return any(download.album == album and now < download.ends_at for download in self.downloads) or bool(
            self.albums[album]["files"]
        )

    def fill(self, downloads: int, lasts: float) -> None:
        """Add downloads that do not come from us."""
        now = self.now()
        self.downloads += [Download(0, now, now + lasts) for _ in range(downloads)]


def _folder(path: str) -> dict[str, object]:
    return {
        "id": 1,
        "name": "Music",
        "path": path,
        "accessible": True,
        "freeSpace": 500_000_000_000,
        "defaultQualityProfileId": 1,
        "defaultMetadataProfileId": 1,
    }


def shown_artist(row: SimulatedArtist) -> dict[str, object]:
    return {
        "id": row["id"],
        "artistName": row["name"],
        "foreignArtistId": row["mbid"],
        "monitored": row["monitored"],
        "path": f"/music/{row['name']}",
    }


def shown_album(row: SimulatedAlbum) -> dict[str, object]:
    counted = {"trackFileCount": row["files"], "trackCount": _TRACKS, "percentOfTracks": row["files"] * 100 / _TRACKS}
    return {
        "id": row["id"],
        "title": f"Album {row['mbid']}",
        "foreignAlbumId": row["mbid"],
        "artistId": row["artist"],
        "monitored": row["monitored"],
        "statistics": counted,
    }


KEY = "simulated"
_API = "/api/v1"
_METADATA = "Search for '{}' failed. Unable to communicate with LidarrAPI. DNS Name Resolution Failure"

# Responses of all routes during an outage, or only of those that need the metadata service.
_WHOLE: Mapping[str, Step | Hang] = {
    "starting": Step(503, {"errorMessage": "Lidarr is starting up, please try again later"}),
    "broken": Step(500, {"message": "database is locked", "description": "System.Data.SQLite.SQLiteException"}),
    "hangs": Hang(),
    "page": Step(200, "<html><body>Log in</body></html>", {"Content-Type": "text/html"}),
}
WEATHERS = ("well", *_WHOLE, "metadata down", "slow")


class LidarrSimulator(Simulator):
    """One Lidarr. With *known*, its metadata service knows every id, not only those of the catalogue."""

    def __init__(self, *, pace: SimulatedTiming | None = None, known: bool = True, key: str = KEY, **more: Any) -> None:
        super().__init__("lidarr", on_reset=self._begin, **more)
        self._pace, self._known, self.key = pace, known, key
        self._answers: dict[str, Handler] = {}
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
        """Return the number of requests to a route of the API, such as "POST /artist"."""
        method, path = route.split()
        return self.count(f"{method} {_API}{path}")

    def answers(self, route: str) -> Handler:
        """Return the default handler of a route of the API."""
        return self._answers[route]

    def lose(self, route: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Execute the next request of a route, call *meanwhile*, and lose the response."""

        def done(request: RecordedRequest) -> Step:
            self._answers[route](request)
            meanwhile()
            return Step(reset=True)

        method, path = route.split()
        self.then(f"{method} {_API}{path}", done)

    # -- before every response -----------------------------------------------------------------------------------------

    def _behind(self, answer: Handler, path: str) -> Handler:
        def answered(request: RecordedRequest) -> object:
            if request.headers.get("X-Api-Key") != self.key:
                return Step(401)
            if self.weather in _WHOLE:
                return _WHOLE[self.weather]
            needs_metadata = path == "/artist/lookup" or (request.method == "POST" and path in ("/artist", "/album"))
            if self.weather == "metadata down" and needs_metadata:
                return Step(503, {"message": _METADATA.format(path)})
            self.inside.advance()
            reply = answer(request)
            if self.weather != "slow":
                return reply
            return (
                Step(reply.status, reply.body, delay="3s") if isinstance(reply, Step) else Step(200, reply, delay="3s")
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

    # -- reads ---------------------------------------------------------------------------------------------------------

    def _queue(self, request: RecordedRequest) -> object:
        there = self.inside.queue()
        limit = int(request.query.get("pageSize", 10))
        records = [
            {"id": n, "albumId": download.album or None, "status": "downloading"}
            for n, download in enumerate(there[:limit], 1)
        ]
        return {"page": 1, "pageSize": limit, "totalRecords": len(there), "records": records}

    def _artists(self, request: RecordedRequest) -> object:
        wanted = request.query.get("mbId")
        return [shown_artist(artist) for artist in self.inside.artists.values() if wanted in (None, artist["mbid"])]

    def _albums(self, request: RecordedRequest) -> object:
        wanted = request.query.get("foreignAlbumId")
        return [shown_album(album) for album in self.inside.albums.values() if wanted in (None, album["mbid"])]

    def _one(self, rows: Mapping[int, R], request: RecordedRequest, shown: Callable[[R], object]) -> object:
        row = rows.get(int(request.params["id"]))
        return shown(row) if row is not None else Step(404, {"message": "NotFound", "description": "at NzbDrone.Core"})

    def _lookup(self, request: RecordedRequest) -> object:
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

    # -- writes --------------------------------------------------------------------------------------------------------

    def _add_artist(self, request: RecordedRequest) -> Step:
        body = request.json
        mbid = str(body.get("foreignArtistId", ""))
        wrong = self._refused(body)
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
            mbid, self._name(mbid), monitored=bool(body.get("monitored")), **body.get("addOptions", {})
        )
        return Step(201, shown_artist(made))

    def _add_album(self, request: RecordedRequest) -> Step:
        body = request.json
        mbid, artist = str(body.get("foreignAlbumId", "")), body.get("artist")
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
        return Step(201, shown_album(self.inside.put_album(mbid, owner["id"], monitored=bool(body.get("monitored")))))

    def _refused(self, artist: Mapping[str, object]) -> list[dict[str, str]]:
        wrong = []
        if not artist.get("artistName"):
            wrong.append(_invalid("ArtistName", "'Artist Name' must not be empty.", "NotEmptyValidator"))
        if artist.get("rootFolderPath") not in [folder["path"] for folder in self.inside.folders]:
            wrong.append(_invalid("RootFolderPath", "Root folder does not exist", "RootFolderExistsValidator"))
        for name, there in (("qualityProfileId", QUALITY), ("metadataProfileId", METADATA)):
            if artist.get(name) not in there.values():
                wrong.append(_invalid(name, "Profile does not exist", f"{name[:-2]}ExistsValidator"))
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


def _invalid(field: str, message: str, code: str = "") -> dict[str, str]:
    return {"propertyName": field, "errorMessage": message, "severity": "error", "errorCode": code}


def simulated() -> Simulated:
    # Faster than the real Lidarr, so that a user sees changes.
    simulator = LidarrSimulator(pace=SimulatedTiming(refresh=1.0, found=20.0, lasts=60.0))
    use = f"has the key {KEY}; the albums that Music misses go there"
    return Simulated(simulator, lambda url: {"base_url": url, "api_key": KEY}, use)
