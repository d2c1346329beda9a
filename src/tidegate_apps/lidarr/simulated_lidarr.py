"""What a Lidarr has inside: artists, albums, commands and downloads that move with the time that is handed in.

Things take as long as they do in the real one: the albums of a new artist exist after seconds, and a search that found
something shows in the queue after minutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

_TRACKS = 10
QUALITY, METADATA = {"Any": 1, "Lossless": 2}, {"Standard": 1, "None": 2}


@dataclass(slots=True)
class SimulatedTiming:
    """Seconds. A search takes between *found* and three times that, by its number; a download *lasts*."""

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
    """The state. Every question first lets happen what is due."""

    now: Callable[[], float]
    pace: SimulatedTiming = field(default_factory=SimulatedTiming)
    catalogue: dict[str, tuple[str, list[str]]] = field(default_factory=dict)  # artist: name, release groups
    unknown: set[str] = field(default_factory=set)  # ids that the metadata service has never heard of
    paths_taken: set[str] = field(default_factory=set)
    barren: set[str] = field(default_factory=set)  # albums that no search finds
    artists: dict[int, dict[str, Any]] = field(default_factory=dict)
    albums: dict[int, dict[str, Any]] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    refreshes: list[tuple[float, int]] = field(default_factory=list)
    folders: list[dict[str, Any]] = field(default_factory=lambda: [_folder("/music")])
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    # -- time ----------------------------------------------------------------------------------------------------------

    def advance(self) -> float:
        """Lets happen what is due; returns the time."""
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
        """All albums of an artist exist now, and only those that were asked for are monitored."""
        row = self.artists[artist]
        wanted, there = set(row["wanted"]), {album["mbid"]: album for album in self.albums.values()}
        for mbid in self.catalogue.get(row["mbid"], ("", []))[1]:
            if mbid in there:
                there[mbid]["monitored"] |= mbid in wanted
                if row["monitor"] == "none":
                    there[mbid]["monitored"] = False
            else:
                self.put_album(mbid, artist, monitored=mbid in wanted and row["monitor"] != "none")

    # -- what is there -------------------------------------------------------------------------------------------------

    def queue(self) -> list[Download]:
        now = self.advance()
        return [download for download in self.downloads if download.there(now)]

    def peak(self) -> int:
        """The most that ever stood in the queue at one time, or will when nothing more is sent."""
        moves = sorted(
            (at, step) for download in self.downloads for at, step in ((download.shows_at, 1), (download.ends_at, -1))
        )  # fmt: skip
        return max(itertools.accumulate((step for _, step in moves), initial=0))

    def artist_of(self, mbid: str) -> dict[str, Any] | None:
        return next((artist for artist in self.artists.values() if artist["mbid"] == mbid), None)

    def album_of(self, mbid: str) -> dict[str, Any] | None:
        return next((album for album in self.albums.values() if album["mbid"] == mbid), None)

    # -- changes -------------------------------------------------------------------------------------------------------

    def put_artist(self, mbid: str, name: str, *, monitored: bool = True, **options: Any) -> dict[str, Any]:
        made = {
            "id": next(self._ids), "mbid": mbid, "name": name, "wanted": list(options.get("albumsToMonitor") or ()),
            "monitor": options.get("monitor", "unknown"),
        }  # fmt: skip
        made["monitored"] = monitored and made["monitor"] != "none"
        self.artists[made["id"]] = made
        self.refreshes.append((self.now() + self.pace.refresh, made["id"]))
        return made

    def put_album(self, mbid: str, artist: int, *, monitored: bool = False) -> dict[str, Any]:
        made = {"id": next(self._ids), "mbid": mbid, "artist": artist, "monitored": monitored, "files": 0}
        self.albums[made["id"]] = made
        return made

    def search(self, albums: Iterable[int]) -> dict[str, Any]:
        now = self.advance()
        made = {"id": next(self._ids), "name": "AlbumSearch", "body": {"albumIds": list(albums)}, "at": now}
        self.commands.append(made)
        for id_ in made["body"]["albumIds"]:
            row = self.albums.get(id_)
            if row is None or not row["monitored"] or row["mbid"] in self.barren or self._held(id_, now):
                continue
            shows = now + self.pace.found * (1 + (id_ * 7919 % 17) / 8)
            self.downloads.append(Download(id_, shows, shows + self.pace.lasts))
        return made

    def _held(self, album: int, now: float) -> bool:
        """Whether it is here, or on its way: nothing is fetched twice."""
        return any(download.album == album and now < download.ends_at for download in self.downloads) or bool(
            self.albums[album]["files"]
        )

    def fill(self, downloads: int, lasts: float) -> None:
        """Downloads that somebody else began."""
        now = self.now()
        self.downloads += [Download(0, now, now + lasts) for _ in range(downloads)]


def _folder(path: str) -> dict[str, Any]:
    return {
        "id": 1, "name": "Music", "path": path, "accessible": True, "freeSpace": 500_000_000_000,
        "defaultQualityProfileId": 1, "defaultMetadataProfileId": 1,
    }  # fmt: skip


def shown_artist(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["id"], "artistName": row["name"], "foreignArtistId": row["mbid"], "monitored": row["monitored"],
        "path": f"/music/{row['name']}",
    }  # fmt: skip


def shown_album(row: dict[str, Any]) -> dict[str, Any]:
    counted = {"trackFileCount": row["files"], "trackCount": _TRACKS, "percentOfTracks": row["files"] * 100 / _TRACKS}
    return {
        "id": row["id"], "title": f"Album {row['mbid']}", "foreignAlbumId": row["mbid"], "artistId": row["artist"],
        "monitored": row["monitored"], "statistics": counted,
    }  # fmt: skip
