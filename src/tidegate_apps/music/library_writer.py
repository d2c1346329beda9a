"""Writes batches of providers to the library: rows and mark in one transaction, without duplicates.

An empty response never deletes rows: failing services send empty responses too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.apps import Db, DbTx
from tidegate_apps.music import merge
from tidegate_apps.music.library import clean
from tidegate_apps.music.merge import Merging
from tidegate_apps.music.provider import (
    Batch,
    Enrichment,
    EnrichmentRequest,
    Gap,
    Operation,
    Play,
    Playlist,
    RejectedRow,
)

_MAX_BAD = 20  # rejected rows of a batch that are shown
_EXCERPT = 200
_BACK_EVERY = 86400.0  # seconds
_GAP_RETENTION = 30 * 86400.0
_PREFERRED = ("thumb", "cover", "background", "banner", "logo", "disc")  # the first that exists represents an entry


@dataclass(frozen=True, slots=True)
class SyncOperation:
    """One operation of one provider of one user."""

    user: str
    provider: str
    operation: Operation

    def params(self) -> dict[str, str]:
        return {"user_id": self.user, "provider": self.provider, "operation": str(self.operation)}


class LibraryWriter:
    """Writes batches."""

    def __init__(self, db: Db, now: Callable[[], float], older_than: Callable[[float], float] | None = None) -> None:
        """*older_than*: the function of the queue; without it, ages are computed with the clock."""
        self._db, self._now = db, now
        self._older_than = older_than or (lambda age: now() - age)

    def mark(self, operation: SyncOperation) -> str | None:
        return self._db.scalar_or_none(str, "mark", **operation.params())

    def is_late(self, operation: SyncOperation) -> bool:
        """Return whether a full read is due, once a day: players submit plays days later."""
        return self._db.one("due_back", before=self._now() - _BACK_EVERY, **operation.params()) is not None

    def looked_back(self, operation: SyncOperation) -> None:
        self._db.all("looked_back", at=self._now(), **operation.params())

    def plays(self, operation: SyncOperation, batch: Batch[Play]) -> int:
        """Write plays, and return how many were new."""
        plays = {clean(item.ref): item for item in batch.items if item.ref}  # a batch may contain duplicates
        if not plays and not batch.bad and batch.mark is None:
            return 0
        refs = [{"ref": ref} for ref in plays]
        whose = {"user_id": operation.user, "provider": operation.provider}
        known = {ref for (ref,) in self._db.read(lambda tx: tx.many("known_plays", refs, **whose))} if refs else set()
        fresh = {ref: play for ref, play in plays.items() if ref not in known}
        if not fresh and not batch.bad and batch.mark == self.mark(operation):
            return 0  # the common case: nothing to write

        def write(tx: DbTx) -> int:
            added = _add_plays(tx, operation, fresh, self._now()) if fresh else 0
            self._noted(tx, operation, batch.bad, batch.mark)
            if batch.gap is not None:
                self._missed(tx, operation, batch.gap)
            return added

        return self._db.write(write)

    def playlists(self, operation: SyncOperation, batch: Batch[Playlist]) -> int:
        """Write playlists, and return how many were new or changed."""
        if not batch.items and not batch.bad and batch.mark is None:
            return 0

        def write(tx: DbTx) -> int:
            now = self._now()
            merged = Merging(tx, operation.user, now)
            changed = sum([_put_playlist(tx, operation, item, merged, now) for item in batch.items])
            self._noted(tx, operation, batch.bad, batch.mark)
            return changed

        return self._db.write(write)

    def playlists_ended(self, operation: SyncOperation, began: float, seen: int) -> None:
        """Mark playlists that were not listed as gone; not if none was listed."""
        if seen:
            whose = {"user_id": operation.user, "provider": operation.provider}
            self._db.all("playlists_gone", at=self._now(), seen_before=began, **whose)

    def found(
        self, operation: SyncOperation, requests: Sequence[EnrichmentRequest], batch: Batch[Enrichment]
    ) -> set[int]:
        """Write results, also empty ones: each entry is requested again only after a while."""
        by_id = {request.id: request for request in requests}
        answered = [item for item in batch.items if item.id in by_id]
        refused = [by_id[rejected.id] for rejected in batch.bad if rejected.id is not None and rejected.id in by_id]
        if not answered and not refused and not batch.bad:
            return set()

        def write(tx: DbTx) -> None:
            now = self._now()
            tx.all("lock_user", user_id=operation.user)
            for one in answered:
                _put_found(tx, operation.operation, by_id[one.id], one, now)
            for entry in refused:
                _put_found(tx, operation.operation, entry, Enrichment(id=entry.id, nothing=True), now)
            self._noted(tx, operation, batch.bad, batch.mark)

        self._db.write(write)
        return {entry.id for entry in answered} | {entry.id for entry in refused}

    def wanted(self, operation: SyncOperation, before: float, n: int) -> list[EnrichmentRequest]:
        """Return the next entries to enrich: artists, albums, then songs, the most played first."""
        params = {"user_id": operation.user, "before": before, "n": n}
        match operation.operation:
            case Operation.IDS:
                artists = self._db.all("wanted_ids_of_artists", **params)
                return (
                    [EnrichmentRequest(kind="artist", id=i, name=name) for i, name in artists]
                    or [
                        EnrichmentRequest(kind="album", id=i, name=name, artist=artist)
                        for i, name, artist in self._db.all("wanted_ids_of_albums", **params)
                    ]
                    or [
                        EnrichmentRequest(kind="song", id=i, name=name, artist=artist)
                        for i, name, artist in self._db.all("wanted_ids_of_tracks", **params)
                    ]
                )
            case Operation.ART:
                return [
                    EnrichmentRequest(kind="artist", id=i, name=name, mbid=mbid)
                    for i, name, mbid in self._db.all("wanted_art_of_artists", **params)
                ] or [
                    EnrichmentRequest(kind="album", id=i, name=name, artist=artist, mbid=mbid)
                    for i, name, artist, mbid in self._db.all("wanted_art_of_albums", **params)
                ]
            case Operation.TAGS:
                return [
                    EnrichmentRequest(kind="artist", id=i, name=name, mbid=mbid)
                    for i, name, mbid in self._db.all("wanted_tags_of_artists", **params)
                ]
        raise ValueError(f"operation: {operation.operation} is unknown; add it to the table of writers")

    def _noted(self, tx: DbTx, operation: SyncOperation, bad: Sequence[RejectedRow], mark: str | None) -> None:
        now = self._now()
        if bad:
            shown = [(clean(rejected.row, _EXCERPT), clean(rejected.why, _EXCERPT)) for rejected in bad[:_MAX_BAD]]
            rows = [{"excerpt": row, "why": why} for row, why in shown]
            tx.many("add_bad", rows, at=now, **operation.params())
            tx.all("prune_bad", **operation.params())
        if mark is not None:
            tx.all("set_mark", mark=mark, at=now, **operation.params())

    def _missed(self, tx: DbTx, operation: SyncOperation, gap: Gap) -> None:
        now, whose = self._now(), {"user_id": operation.user, "provider": operation.provider}
        tx.all("prune_gaps", before=self._older_than(_GAP_RETENTION), **whose)
        tx.all("add_gap", since=gap.since, until=gap.until, at=now, **whose)


def _add_plays(tx: DbTx, operation: SyncOperation, plays: dict[str, Play], now: float) -> int:
    merged = Merging(tx, operation.user, now)
    rows = [{"ref": ref, "at": play.at, "track_id": merged.track(play.song)} for ref, play in plays.items()]
    added = tx.many("add_plays", rows, user_id=operation.user, provider=operation.provider)
    tracks, albums, artists = dict[int, list[float]](), dict[int, list[float]](), dict[int, list[float]]()
    for track, at in added:
        artist, album = merged.places[track]
        tracks.setdefault(track, []).append(at)
        artists.setdefault(artist, []).append(at)
        if album is not None:
            albums.setdefault(album, []).append(at)
    for statement, counted in (("count_tracks", tracks), ("count_albums", albums), ("count_artists", artists)):
        if counted:
            tx.many(statement, [{"id": id_, "n": len(at), "at": max(at)} for id_, at in counted.items()])
    return len(added)


def _put_playlist(tx: DbTx, operation: SyncOperation, playlist: Playlist, merged: Merging, now: float) -> bool:
    """Return whether the playlist changed."""
    which = {"user_id": operation.user, "provider": operation.provider, "ref": clean(playlist.ref)}
    labels = (clean(playlist.name) or "Untitled", clean(playlist.about, 2000))
    before = tx.one("playlist", **which)
    id_ = tx.scalar(int, "put_playlist", name=labels[0], about=labels[1], at=now, **which)
    changed = before != labels
    if not playlist.songs:
        return changed  # not visible or empty: keep what is stored
    tracks = [merged.track(song) for song in playlist.songs]
    if tracks == tx.scalars(int, "entries", playlist_id=id_):
        return changed
    tx.all("clear_entries", playlist_id=id_)
    tx.many("add_entries", [{"place": at, "track_id": track} for at, track in enumerate(tracks)], playlist_id=id_)
    return True


_TABLES = {"artist": "artist", "album": "album", "song": "track"}
_IDENTIFY = {
    "artist": merge.identify_artist,
    "album": merge.identify_album,
    "song": merge.identify_track,
}


def _put_found(tx: DbTx, operation: Operation, request: EnrichmentRequest, found: Enrichment, now: float) -> None:
    id_ = request.id
    match operation:
        case Operation.IDS:
            if found.mbid:
                id_ = _IDENTIFY[request.kind](tx, id_, found.mbid)
            tx.all(f"asked_ids_{_TABLES[request.kind]}", id=id_, at=now)
        case Operation.ART if request.kind != "song":
            if found.mbid and found.mbid != request.mbid:
                id_ = _IDENTIFY[request.kind](tx, id_, found.mbid)
            art = {kind: found.art[kind] for kind in _PREFERRED if kind in found.art}
            tx.all(f"found_art_{_TABLES[request.kind]}", id=id_, at=now, art=json.dumps(art) if art else None)
        case Operation.TAGS if request.kind == "artist":
            tags = clean(", ".join(filter(None, map(clean, found.tags))), 1000)
            tx.all("found_tags_artist", id=id_, at=now, tags=tags)
