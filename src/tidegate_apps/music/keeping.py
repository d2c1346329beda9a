"""What a provider handed over goes into the library: rows and mark in one transaction, and nothing twice.

Nothing here ever takes rows away because an answer was empty: services answer so when they are ill.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.apps import Db, DbTx
from tidegate_apps.music import merging
from tidegate_apps.music.contract import Bad, Batch, Found, Gap, Operation, Play, Playlist, Wanted
from tidegate_apps.music.merging import Merging
from tidegate_apps.music.names import clean

_MOST_BAD = 20  # rows of a batch that are shown
_EXCERPT = 200
_BACK_EVERY = 86400.0  # seconds
_GAPS_KEPT = 30 * 86400.0
_PREFERRED = ("thumb", "cover", "background", "banner", "logo", "disc")  # the first that there is stands for an entry


@dataclass(frozen=True, slots=True)
class Lane:
    """One operation of one provider of one user."""

    user: str
    provider: str
    operation: Operation

    def params(self) -> dict[str, str]:
        return {"user_id": self.user, "provider": self.provider, "operation": str(self.operation)}


class Keeping:
    """Writes batches."""

    def __init__(self, db: Db, now: Callable[[], float], older_than: Callable[[float], float] | None = None) -> None:
        """*older_than*: that of the queue; without it, ages are counted by the clock."""
        self._db, self._now = db, now
        self._older_than = older_than or (lambda age: now() - age)

    def mark(self, lane: Lane) -> str | None:
        row = self._db.one("mark", **lane.params())
        return None if row is None else str(row[0])

    def is_late(self, lane: Lane) -> bool:
        """Whether what lies before the mark was not read again for a day: players hand in plays of days ago."""
        return self._db.one("due_back", before=self._now() - _BACK_EVERY, **lane.params()) is not None

    def looked_back(self, lane: Lane) -> None:
        self._db.all("looked_back", at=self._now(), **lane.params())

    def plays(self, lane: Lane, batch: Batch[Play]) -> int:
        """How many of them were new."""
        plays = {clean(each.ref): each for each in batch.items if each.ref}  # a batch may have one twice
        if not plays and not batch.bad and batch.mark is None:
            return 0
        refs = [{"ref": ref} for ref in plays]
        whose = {"user_id": lane.user, "provider": lane.provider}
        known = {row[0] for row in self._db.read(lambda tx: tx.many("known_plays", refs, **whose))} if refs else set()
        fresh = {ref: play for ref, play in plays.items() if ref not in known}
        if not fresh and not batch.bad and batch.mark == self.mark(lane):
            return 0  # as most of the time: nothing is written

        def write(tx: DbTx) -> int:
            added = _add_plays(tx, lane, fresh, self._now()) if fresh else 0
            self._noted(tx, lane, batch.bad, batch.mark)
            if batch.gap is not None:
                self._missed(tx, lane, batch.gap)
            return added

        return self._db.write(write)

    def playlists(self, lane: Lane, batch: Batch[Playlist]) -> int:
        """How many of them were new or have changed."""
        if not batch.items and not batch.bad and batch.mark is None:
            return 0

        def write(tx: DbTx) -> int:
            now = self._now()
            merged = Merging(tx, lane.user, now)
            changed = sum([_put_playlist(tx, lane, each, merged, now) for each in batch.items])
            self._noted(tx, lane, batch.bad, batch.mark)
            return changed

        return self._db.write(write)

    def playlists_ended(self, lane: Lane, began: float, seen: int) -> None:
        """All were listed: those that were not among them are said to be gone; not if there were none at all."""
        if seen:
            whose = {"user_id": lane.user, "provider": lane.provider}
            self._db.all("playlists_gone", at=self._now(), seen_before=began, **whose)

    def found(self, lane: Lane, wanted: Sequence[Wanted], batch: Batch[Found]) -> set[int]:
        """The entries that were answered, whatever the answer was: each is asked for again only after a while."""
        by_id = {each.id: each for each in wanted}
        answered = [each for each in batch.items if each.id in by_id]
        refused = [by_id[each.id] for each in batch.bad if each.id is not None and each.id in by_id]
        if not answered and not refused and not batch.bad:
            return set()

        def write(tx: DbTx) -> None:
            now = self._now()
            tx.all("lock_user", user_id=lane.user)
            for one in answered:
                _put_found(tx, lane.operation, by_id[one.id], one, now)
            for entry in refused:
                _put_found(tx, lane.operation, entry, Found(id=entry.id, nothing=True), now)
            self._noted(tx, lane, batch.bad, batch.mark)

        self._db.write(write)
        return {each.id for each in answered} | {each.id for each in refused}

    def wanted(self, lane: Lane, before: float, n: int) -> list[Wanted]:
        """What is to be asked for next: artists before albums before songs, the most played first."""
        params = {"user_id": lane.user, "before": before, "n": n}
        match lane.operation:
            case Operation.IDS:
                artists = self._db.all("wanted_ids_of_artists", **params)
                return (
                    [Wanted(kind="artist", id=i, name=name) for i, name in artists]
                    or [
                        Wanted(kind="album", id=i, name=name, artist=artist)
                        for i, name, artist in self._db.all("wanted_ids_of_albums", **params)
                    ]
                    or [
                        Wanted(kind="song", id=i, name=name, artist=artist)
                        for i, name, artist in self._db.all("wanted_ids_of_tracks", **params)
                    ]
                )
            case Operation.ART:
                return [
                    Wanted(kind="artist", id=i, name=name, mbid=mbid)
                    for i, name, mbid in self._db.all("wanted_art_of_artists", **params)
                ] or [
                    Wanted(kind="album", id=i, name=name, artist=artist, mbid=mbid)
                    for i, name, artist, mbid in self._db.all("wanted_art_of_albums", **params)
                ]
            case Operation.TAGS:
                return [
                    Wanted(kind="artist", id=i, name=name, mbid=mbid)
                    for i, name, mbid in self._db.all("wanted_tags_of_artists", **params)
                ]
        raise ValueError(f"operation: nothing is wanted for {lane.operation}")

    def _noted(self, tx: DbTx, lane: Lane, bad: Sequence[Bad], mark: str | None) -> None:
        now = self._now()
        if bad:
            shown = [(clean(each.row, _EXCERPT), clean(each.why, _EXCERPT)) for each in bad[:_MOST_BAD]]
            rows = [{"excerpt": row, "why": why} for row, why in shown]
            tx.many("add_bad", rows, at=now, **lane.params())
            tx.all("prune_bad", **lane.params())
        if mark is not None:
            tx.all("set_mark", mark=mark, at=now, **lane.params())

    def _missed(self, tx: DbTx, lane: Lane, gap: Gap) -> None:
        now, whose = self._now(), {"user_id": lane.user, "provider": lane.provider}
        tx.all("prune_gaps", before=self._older_than(_GAPS_KEPT), **whose)
        tx.all("add_gap", since=gap.since, until=gap.until, at=now, **whose)


def _add_plays(tx: DbTx, lane: Lane, plays: dict[str, Play], now: float) -> int:
    merged = Merging(tx, lane.user, now)
    rows = [{"ref": ref, "at": play.at, "track_id": merged.track(play.song)} for ref, play in plays.items()]
    added = tx.many("add_plays", rows, user_id=lane.user, provider=lane.provider)
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


def _put_playlist(tx: DbTx, lane: Lane, playlist: Playlist, merged: Merging, now: float) -> bool:
    """Whether it is another one than before."""
    which = {"user_id": lane.user, "provider": lane.provider, "ref": clean(playlist.ref)}
    told = (clean(playlist.name) or "Untitled", clean(playlist.about, 2000))
    before = tx.one("playlist", **which)
    id_ = tx.all("put_playlist", name=told[0], about=told[1], at=now, **which)[0][0]
    changed = before is None or before[:2] != told
    if not playlist.songs:
        return changed  # not shown, or empty: what is known stays
    tracks = [merged.track(song) for song in playlist.songs]
    if tracks == [row[0] for row in tx.all("entries", playlist_id=id_)]:
        return changed
    tx.all("clear_entries", playlist_id=id_)
    tx.many("add_entries", [{"place": at, "track_id": track} for at, track in enumerate(tracks)], playlist_id=id_)
    return True


_TABLES = {"artist": "artist", "album": "album", "song": "track"}
_IDENTIFY = {
    "artist": merging.identify_artist, "album": merging.identify_album, "song": merging.identify_track,
}  # fmt: skip


def _put_found(tx: DbTx, operation: Operation, wanted: Wanted, found: Found, now: float) -> None:
    id_ = wanted.id
    match operation:
        case Operation.IDS:
            if found.mbid:
                id_ = _IDENTIFY[wanted.kind](tx, id_, found.mbid)
            tx.all(f"asked_ids_{_TABLES[wanted.kind]}", id=id_, at=now)
        case Operation.ART if wanted.kind != "song":
            if found.mbid and found.mbid != wanted.mbid:
                id_ = _IDENTIFY[wanted.kind](tx, id_, found.mbid)
            art = {kind: found.art[kind] for kind in _PREFERRED if kind in found.art}
            tx.all(f"found_art_{_TABLES[wanted.kind]}", id=id_, at=now, art=json.dumps(art) if art else None)
        case Operation.TAGS if wanted.kind == "artist":
            tags = clean(", ".join(filter(None, map(clean, found.tags))), 1000)
            tx.all("found_tags_artist", id=id_, at=now, tags=tags)
