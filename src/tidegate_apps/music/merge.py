"""Finds the artist, album and track of a song: by MusicBrainz id, then by name key.

An entry without an id takes the first id that arrives under its name. Two entries with different ids stay separate,
however similar their names. Two entries with the same id are merged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.apps import DbTx
from tidegate.faults import Reach
from tidegate_apps.music.client import ProviderClient
from tidegate_apps.music.library import clean, key_of
from tidegate_apps.music.provider import Batch, Playlist, RejectedRow, Song

UNKNOWN = "Unknown artist"


class EntryPlace(NamedTuple):
    """An artist, album or track, with the album and artist that it belongs to."""

    id: int
    mbid: str | None
    album_id: int | None
    artist_id: int


class EntryOwner(NamedTuple):
    user_id: str
    mbid: str | None


class Merging:
    """The entries of one user, within one transaction. It caches lookups."""

    def __init__(self, tx: DbTx, user: str, now: float) -> None:
        tx.all("add_user", user_id=user, at=now)
        tx.all("lock_user", user_id=user)
        self._tx, self._user = tx, user
        self._artists: dict[tuple[str, str | None], int] = {}
        self._albums: dict[tuple[int, str, str | None], int] = {}
        self._tracks: dict[tuple[int, str, str | None], int] = {}
        self.places: dict[int, tuple[int, int | None]] = {}  # artist and album of each track

    def track(self, song: Song) -> int:
        """Return the track of a song. Creates it, its artist and its album if missing."""
        artist = self.artist(song.artist or UNKNOWN, song.artist_mbid)
        album = self.album(artist, song.album, song.album_mbid) if song.album else None
        title, mbid = clean(song.title) or "Untitled", song.mbid
        where = (artist, key_of(title), mbid)
        track_id = self._tracks.get(where)
        if track_id is None:
            track_id = self._tracks[where] = self._track(artist, album, title, song)
        elif album is not None and self.places[track_id][1] is None:
            self._put_into(track_id, album)
            self.places[track_id] = (self.places[track_id][0], album)
        return track_id

    def artist(self, name: str, mbid: str | None) -> int:
        name = clean(name) or UNKNOWN
        key = key_of(name)
        if (key, mbid) not in self._artists:
            entry = self._find("artist", key, mbid, user_id=self._user)
            self._artists[key, mbid] = (
                self._tx.scalar(int, "add_artist", user_id=self._user, name=name, name_key=key, mbid=mbid)
                if entry is None
                else entry.id
            )
        return self._artists[key, mbid]

    def album(self, artist: int, title: str, mbid: str | None) -> int:
        title = clean(title) or "Untitled"
        key = key_of(title)
        if (artist, key, mbid) not in self._albums:
            entry = self._find("album", key, mbid, artist_id=artist)
            added = {"user_id": self._user, "artist_id": artist, "title": title, "name_key": key, "mbid": mbid}
            self._albums[artist, key, mbid] = self._tx.scalar(int, "add_album", **added) if entry is None else entry.id
        return self._albums[artist, key, mbid]

    def _track(self, artist: int, album: int | None, title: str, song: Song) -> int:
        key, mbid = key_of(title), song.mbid
        entry = self._find("track", key, mbid, artist_id=artist)
        if entry is None:
            track_id = self._tx.scalar(
                int,
                "add_track",
                user_id=self._user,
                artist_id=artist,
                album_id=album,
                title=title,
                name_key=key,
                mbid=mbid,
                isrc=song.isrc,
                seconds=song.seconds,
            )
            self.places[track_id] = (artist, album)
            return track_id
        if entry.album_id is None and album is not None:
            self._put_into(entry.id, album)
        self._tx.all("fill_track", id=entry.id, isrc=song.isrc, seconds=song.seconds)
        # A track found by id may belong to another artist, who then gets the plays.
        self.places[entry.id] = (entry.artist_id, album if entry.album_id is None else entry.album_id)
        return entry.id

    def _find(self, kind: str, key: str, mbid: str | None, **within: object) -> EntryPlace | None:
        """Return the entry with this id. Without one, give the id to an entry of that name."""
        entry = self._tx.first(EntryPlace, f"{kind}_by_mbid", user_id=self._user, mbid=mbid) if mbid else None
        if entry is None:
            entry = _chosen(self._tx.query_as(EntryPlace, f"{kind}s_by_key", name_key=key, **within), mbid)
            if entry is not None and mbid:
                self._tx.all(f"set_{kind}_mbid", id=entry.id, mbid=mbid)
        return entry

    def _put_into(self, track: int, album: int) -> None:
        """Assign a track without an album to one, which also counts its earlier plays."""
        self._tx.all("set_track_album", id=track, album_id=album)
        self._tx.all("recount_album", id=album)


def _chosen(named: Iterable[EntryPlace], mbid: str | None) -> EntryPlace | None:
    """Return the first entry of that name without a different id; without an id, the first entry."""
    return next((entry for entry in named if mbid is None or entry.mbid is None), None)


# -- merging entries with the same id ----------------------------------------------------------------------------------


def identify_artist(tx: DbTx, id_: int, mbid: str) -> int:
    """Set the id of an artist. If another artist has it, merge the two. Returns the remaining artist."""
    into = _other(tx, "artist", id_, mbid)
    if into is None:
        return id_
    joins: dict[str, Callable[[DbTx, int, int, str | None], object]] = {"album": _join_albums, "track": _join_tracks}
    for kind, join in joins.items():
        for part, key, part_mbid in tx.all(f"{kind}s_of_artist", artist_id=id_):
            twin = _chosen(tx.query_as(EntryPlace, f"{kind}s_by_key", artist_id=into, name_key=key), part_mbid)
            if twin is None:
                tx.all(f"move_{kind}", id=part, artist_id=into)
            else:
                join(tx, part, twin.id, part_mbid)
    _join(tx, "artist", id_, into)
    tx.all("recount_artist", id=into)
    return into


def identify_album(tx: DbTx, id_: int, mbid: str) -> int:
    into = _other(tx, "album", id_, mbid)
    if into is None:
        return id_
    _join_albums(tx, id_, into, None)
    return into


def identify_track(tx: DbTx, id_: int, mbid: str) -> int:
    into = _other(tx, "track", id_, mbid)
    if into is None:
        return id_
    for artist in _join_tracks(tx, id_, into, None):
        tx.all("recount_artist", id=artist)
    return into


def _other(tx: DbTx, kind: str, id_: int, mbid: str) -> int | None:
    """Return the entry of that user with this MusicBrainz id; if there is none, give it to *id_* and return None."""
    owner = tx.first(EntryOwner, f"owner_of_{kind}", id=id_)
    if owner is None or owner.mbid == mbid:
        return None
    there = tx.scalar_or_none(int, f"{kind}_by_mbid", user_id=owner.user_id, mbid=mbid)
    if there is None:
        tx.all(f"set_{kind}_mbid", id=id_, mbid=mbid)
    return there


def _join_albums(tx: DbTx, id_: int, into: int, mbid: str | None) -> None:
    tx.all("move_tracks_of_album", id=id_, into=into)
    _join(tx, "album", id_, into)
    tx.all("recount_album", id=into)
    if mbid:  # after the other is deleted: an id is unique
        tx.all("set_album_mbid", id=into, mbid=mbid)


def _join_tracks(tx: DbTx, id_: int, into: int, mbid: str | None) -> set[int]:
    """Return the artists whose plays moved. Albums are recounted."""
    places = [place for track in (id_, into) for place in tx.all("places_of_track", id=track)]
    tx.all("move_plays", id=id_, into=into)
    tx.all("move_entries", id=id_, into=into)
    _join(tx, "track", id_, into)
    if mbid:
        tx.all("set_track_mbid", id=into, mbid=mbid)
    for album in {album for _, album in places if album is not None}:
        tx.all("recount_album", id=album)
    return {artist for artist, _ in places}


def _join(tx: DbTx, kind: str, id_: int, into: int) -> None:
    tx.all(f"carry_{kind}", id=id_, into=into)
    tx.all("move_badge", kind=kind, id=id_, into=into)
    tx.all("remove_badge", kind=kind, entity_id=id_)
    tx.all(f"remove_{kind}", id=id_)


# -- playlists of an account -------------------------------------------------------------------------------------------
# One that cannot be read does not hide the others.

MAX_SONGS = 10_000  # of one playlist
# Faults of one playlist, although elsewhere they may concern more: only its name is visible.
_NOT_SHOWN = frozenset({"forbidden", "not_shared"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaylistHead:
    """A playlist in a list; *version* changes with its songs, and is empty if unknown.

    *name* may be empty: services allow that.
    """

    ref: str
    name: str
    about: str = ""
    version: str = ""


class Playlists:
    """Remembers versions, so that unchanged playlists cost one request for all."""

    def __init__(
        self, client: ProviderClient, songs: Callable[[PlaylistHead], Awaitable[tuple[Song, ...] | None]]
    ) -> None:
        self._client, self._songs = client, songs
        self._seen: dict[str, str] = {}

    async def each(
        self, heads: Iterable[PlaylistHead], bad: Iterable[RejectedRow] = ()
    ) -> AsyncIterator[Batch[Playlist]]:
        """Yield a batch for each playlist. A failure of one is raised after the others were fetched."""
        broken: Exception | None = None
        unread = tuple(bad)
        if unread:
            yield Batch(bad=unread)
        for head in heads:
            try:
                songs = None if self._same(head) else await self._songs(head)
            except Exception as error:
                fault = self._client.verdict(error)
                if fault is None or fault.code in _NOT_SHOWN:
                    songs = None
                elif fault.reach.rank > Reach.OPERATION.rank:
                    raise
                else:
                    broken = broken or (error if fault.reach is Reach.OPERATION else None)
                    yield Batch(bad=(RejectedRow(row=(head.name or head.ref)[:80], why=fault.message),))
                    continue
            yield Batch(items=(Playlist(ref=head.ref, name=head.name, about=head.about, songs=songs),))
            # When the caller asks for the next one, it has stored this one.
            if head.version:
                self._seen[head.ref] = head.version
        if broken is not None:
            raise broken

    def _same(self, head: PlaylistHead) -> bool:
        return bool(head.version) and self._seen.get(head.ref) == head.version
