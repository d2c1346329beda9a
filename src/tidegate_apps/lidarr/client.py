"""A client for Lidarr's API v1, and what its errors mean."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import httpx2

from tidegate import Fault, classify, net
from tidegate_apps.lidarr.codes import FOLDER_AWAY, PACK
from tidegate_apps.lidarr.settings import LidarrSettings

_MAX_LISTED = 500  # downloads per request; the total is exact regardless
_DEPTH_TIME = 6.0  # seconds for that request
_ALBUM_SEARCH = "AlbumSearch"
Json = Any  # a response; another shape raises one of BAD


class LidarrError(Exception):
    """An unusable response; *fault* says what it means."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"{fault.code}: {fault.detail or fault.message}")


class AlreadyThere(Exception):
    """Lidarr has it already: added by a user, or by an earlier call whose response was lost."""


# Faults of a call. The last ones are responses that Lidarr does not send.
BAD = (httpx2.HTTPError, LidarrError, AlreadyThere, LookupError, ValueError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class LidarrArtist:
    id: int
    name: str
    mbid: str
    monitored: bool

    @classmethod
    def of(cls, found: Mapping[str, Json]) -> LidarrArtist:
        return cls(
            id=int(found.get("id") or 0),
            name=str(found.get("artistName") or ""),
            mbid=str(found.get("foreignArtistId") or ""),
            monitored=bool(found.get("monitored")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LidarrAlbum:
    id: int
    title: str
    mbid: str
    artist_id: int
    monitored: bool
    files: int = 0
    tracks: int = 0

    @classmethod
    def of(cls, found: Mapping[str, Json]) -> LidarrAlbum:
        counted = found.get("statistics") or {}
        return cls(
            id=int(found["id"]),
            title=str(found.get("title") or ""),
            mbid=str(found.get("foreignAlbumId") or ""),
            artist_id=int(found.get("artistId") or 0),
            monitored=bool(found.get("monitored")),
            files=int(counted.get("trackFileCount") or 0),
            tracks=int(counted.get("trackCount") or 0),
        )


@dataclass(frozen=True, slots=True)
class Downloads:
    """Lidarr's queue: the total, and the listed albums."""

    total: int
    albums: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Where Lidarr puts new music: root folder and profiles."""

    root_folder: str
    quality_profile: int
    metadata_profile: int

    def as_json(self) -> dict[str, object]:
        return {
            "rootFolderPath": self.root_folder,
            "qualityProfileId": self.quality_profile,
            "metadataProfileId": self.metadata_profile,
        }


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificate authorities. Loading takes long, so all clients share them."""
    return httpx2.create_ssl_context()


class Lidarr:
    """One Lidarr. Each method makes one call. It raises `LidarrError`, `AlreadyThere`, or an error of httpx2."""

    def __init__(
        self, base_url: str, api_key: str, timeout: float, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._timeout = timeout
        self._http = httpx2.AsyncClient(
            base_url=f"{base_url}/api/v1",
            headers={"X-Api-Key": api_key, "User-Agent": net.user_agent()},
            timeout=timeout,
            transport=transport,
            verify=_trusted(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    # -- calls that Lidarr handles alone -------------------------------------------------------------------------------

    async def downloads(self) -> Downloads:
        # Submissions wait for this response.
        asked = {"page": 1, "pageSize": _MAX_LISTED}
        queue = _read(await self._http.get("/queue", params=asked, timeout=min(_DEPTH_TIME, self._timeout)))
        listed = frozenset(int(record["albumId"]) for record in queue.get("records", ()) if record.get("albumId"))
        return Downloads(int(queue["totalRecords"]), listed)

    async def artist(self, mbid: str) -> LidarrArtist | None:
        artists = await self._list("/artist", mbId=mbid)
        return LidarrArtist.of(artists[0]) if artists else None

    async def album(self, mbid: str) -> LidarrAlbum | None:
        albums = await self._list("/album", foreignAlbumId=mbid)
        return LidarrAlbum.of(albums[0]) if albums else None

    async def knows(self, kind: str, lidarr_id: int) -> bool:
        """Return whether a Lidarr id still exists."""
        try:
            await self._get(f"/{kind}/{lidarr_id}")
        except LidarrError as error:
            if error.fault.status == 404:
                return False
            raise
        return True

    async def searched(self, album: int) -> bool:
        """Return whether a search for this album is queued, running, or recent."""
        return any(
            command.get("name") == _ALBUM_SEARCH and album in ((command.get("body") or {}).get("albumIds") or ())
            for command in await self._get("/command")
        )

    async def root_folders(self) -> list[dict[str, Json]]:
        return list(await self._get("/rootfolder"))

    async def profiles(self, kind: str) -> dict[str, int]:
        """Return the profile ids by name; *kind* is quality or metadata."""
        return {str(profile["name"]): int(profile["id"]) for profile in await self._get(f"/{kind}profile")}

    async def watch_artist(self, artist: int) -> None:
        await self._send("PUT", "/artist/editor", {"artistIds": [artist], "monitored": True})

    async def watch_albums(self, albums: Iterable[int]) -> list[LidarrAlbum]:
        """Monitor albums, and return them as Lidarr then has them."""
        updated = await self._send("PUT", "/album/monitor", {"albumIds": list(albums), "monitored": True})
        return [LidarrAlbum.of(album) for album in updated or ()]

    async def search(self, album: int) -> None:
        await self._send("POST", "/command", {"name": _ALBUM_SEARCH, "albumIds": [album]})

    # -- calls that need Lidarr's metadata service ---------------------------------------------------------------------

    async def lookup_artist(self, mbid: str) -> LidarrArtist:
        """Return the artist from the metadata service. Raises LidarrError (unknown_music, nameless)."""
        artist = LidarrArtist.of((await self._get("/artist/lookup", term=f"lidarr:{mbid}"))[0])
        if not artist.name:
            raise LidarrError(PACK.code_book["nameless"].fault("nameless"))
        return artist

    async def add_artist(self, artist: LidarrArtist, setup: Setup, wanted: Iterable[str]) -> LidarrArtist:
        """Add an artist. Only the albums in *wanted* are monitored, and no search starts."""
        # `monitor` is left out: "none" would also unmonitor the artist, and with that all of its albums.
        options = {"albumsToMonitor": list(wanted), "searchForMissingAlbums": False}
        return LidarrArtist.of(await self._send("POST", "/artist", _new_artist(artist, setup, options)))

    async def add_album(self, mbid: str, artist: LidarrArtist, setup: Setup) -> LidarrAlbum:
        """Add a monitored album without a search. Lidarr needs the whole artist object and ignores an id."""
        made = _new_artist(artist, setup, {"searchForMissingAlbums": False})
        body = {
            "foreignAlbumId": mbid,
            "monitored": True,
            "anyReleaseOk": True,
            "artistId": artist.id,
            "addOptions": {"searchForNewAlbum": False},
            "artist": {**made, **({"id": artist.id} if artist.id else {})},
        }
        return LidarrAlbum.of(await self._send("POST", "/album", body))

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _list(self, path: str, **params: str) -> list[Json]:
        """Return a list. Only an empty list means that there is nothing."""
        items = await self._get(path, **params)
        if not isinstance(items, list):
            raise LidarrError(PACK.code_book["bad_answer"].fault("no-list", detail=f"{path} answered with no list"))
        return items

    async def _get(self, path: str, **params: str) -> Json:
        return _read(await self._http.get(path, params=params))

    async def _send(self, method: str, path: str, body: Mapping[str, object]) -> Json:
        return _read(await self._http.request(method, path, json=body))


def _new_artist(artist: LidarrArtist, setup: Setup, options: Mapping[str, object]) -> dict[str, object]:
    return {
        "artistName": artist.name,
        "foreignArtistId": artist.mbid,
        "monitored": True,
        "monitorNewItems": "none",
        "addOptions": options,
        **setup.as_json(),
    }


def _read(answer: httpx2.Response) -> Json:
    fault = classify(answer, PACK)
    if fault is not None:
        raise LidarrError(fault)
    if answer.is_error:
        raise AlreadyThere
    return answer.json() if answer.content else None


def fault_of(error: Exception) -> Fault:
    """Return the fault of a failed call."""
    if isinstance(error, LidarrError):
        return error.fault
    if isinstance(error, AlreadyThere):
        return PACK.code_book["not_listed"].fault("exists", status=400)
    return classify(error, PACK) or PACK.code_book["unexpected"].fault("handler")


# -- setup: root folder and profiles, from Lidarr and the settings -----------------------------------------------------

_CACHE_SECONDS = 600.0


@dataclass(slots=True)
class Places:
    """Caches the setup for some minutes: it rarely changes."""

    settings: LidarrSettings
    now: Callable[[], float]
    _setup: Setup | None = None
    _at: float = 0.0

    async def of(self, lidarr: Lidarr) -> Setup:
        now = self.now()
        if self._setup is None or not 0 <= now - self._at < _CACHE_SECONDS:
            self._setup, self._at = await _found_setup(lidarr, self.settings), now
        return self._setup

    def forget(self) -> None:
        """Invalidate the cache."""
        self._setup = None


async def _found_setup(lidarr: Lidarr, settings: LidarrSettings) -> Setup:
    """Return the setup. Raises LidarrError (profile_missing, root_folder_away)."""
    folders = await lidarr.root_folders()
    quality, metadata = await lidarr.profiles("quality"), await lidarr.profiles("metadata")
    folder = next((candidate for candidate in folders if settings.root_folder in ("", candidate["path"])), None)
    if folder is None:
        raise LidarrError(
            PACK.code_book["profile_missing"].fault("root-folder", detail=f"asked for {settings.root_folder!r}")
        )
    if not folder.get("accessible", True) or folder.get("freeSpace", settings.least_free) < settings.least_free:
        raise LidarrError(PACK.code_book[FOLDER_AWAY.name].fault("root-folder", detail=str(folder["path"])))
    return Setup(
        root_folder=str(folder["path"]),
        quality_profile=_profile(quality, settings.quality_profile, folder.get("defaultQualityProfileId")),
        metadata_profile=_profile(metadata, settings.metadata_profile, folder.get("defaultMetadataProfileId")),
    )


def _profile(there: dict[str, int], name: str, usual: object) -> int:
    if name in there:
        return there[name]
    if name or not there:
        raise LidarrError(PACK.code_book["profile_missing"].fault("profile", detail=f"asked for {name!r}"))
    ids = list(there.values())
    return next((id_ for id_ in ids if id_ == usual), ids[0])
