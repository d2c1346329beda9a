"""The enricher: looks for what the library has in Lidarr, and puts into the queue what is not there. It never sends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tidegate import DbTx, Installed, JobFunction
from tidegate_apps.lidarr.asking import Answers, ask_each
from tidegate_apps.lidarr.badges import badge_of, is_idle, status_of
from tidegate_apps.lidarr.client import Lidarr
from tidegate_apps.lidarr.knowing import Known, by_number, due, mark, never_asked_for, usable
from tidegate_apps.lidarr.settings import Settings
from tidegate_apps.lidarr.states import Submission
from tidegate_apps.lidarr.submitting import Accepted
from tidegate_apps.music.library import Album, Artist, EntityKind, Library, Track

_log = logging.getLogger("tidegate.lidarr")

T = TypeVar("T")
_PAGE = 500
ARTISTS_FIRST = 10  # the priority of artists; albums have 0
NO_ARTIST_ID = "Its artist has no MusicBrainz id yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What this look found of one entity. *lost*: Lidarr has accepted it before, and does not know it any more."""

    kind: EntityKind
    entity_id: int
    user: str
    name: str
    artist: str = ""
    mbid: str
    lidarr_id: int | None = None
    status: str | None = None  # None: it is not there
    idle: bool = False  # an album that is there, and nobody wants
    lost: bool = False
    artist_id: int = 0
    artist_mbid: str = ""


@dataclass(slots=True)
class Tally:
    """What one pass did."""

    looked: int = 0
    found: int = 0
    queued: int = 0
    skipped: int = 0  # without an answer; the next look asks again
    why: str = ""  # the last of them

    def as_json(self) -> dict[str, int]:
        return {"looked": self.looked, "found": self.found, "queued": self.queued}


class Enricher:
    """One pass over the libraries of all users: artists, then albums, then tracks."""

    def __init__(self, there: Installed[Settings], library: Library, submit: JobFunction[Submission, Accepted]) -> None:
        self._there, self._library, self._submit = there, library, submit

    async def run(
        self, lidarr: Lidarr, stopping: Callable[[], bool], *, force: bool = False, tally: Tally | None = None
    ) -> Tally:
        """What was looked for lately is left alone, unless by *force*. A stop ends it between two pages."""
        tally = Tally() if tally is None else tally
        before = float("inf") if force else self._there.queue.clock.now() - float(self._there.settings.enrich_every)
        for user in await self._at_store(self._library.users):
            await self._pages(
                self._library.artists, user, stopping, lambda page: self.artists(lidarr, page, before, tally)
            )
            await self._pages(
                self._library.albums, user, stopping,
                lambda page: self.albums(lidarr, page, before, tally),
            )  # fmt: skip
            await self._pages(self._library.tracks, user, stopping, self._tracks)
        return tally

    async def _pages(self, read: Any, user: str, stopping: Callable[[], bool], work: Any) -> None:
        after = 0
        while not stopping():
            page = await self._at_store(partial(read, user, after=after, most=_PAGE))
            if not page:
                return
            await work(page)
            after = page[-1].id

    # -- artists and albums --------------------------------------------------------------------------------------------

    async def artists(self, lidarr: Lidarr, page: Sequence[Artist], before: float, tally: Tally) -> None:
        known = await self._at_store(lambda: self._known("artist", page))
        wanted = [each for each in page if usable(each.mbid) and due(known.get(each.id), str(each.mbid), before)]

        async def look(artist: Artist) -> Seen:
            mbid, was = str(artist.mbid), known.get(artist.id)
            found = await lidarr.artist(mbid)
            status = None if found is None else "monitored" if found.monitored else "pending"
            return Seen(
                kind="artist", entity_id=artist.id, user=artist.user, name=artist.name, mbid=mbid, status=status,
                lidarr_id=None if found is None else found.id, lost=await _lost(lidarr, "artist", was, found),
            )  # fmt: skip

        await self._put(await ask_each(wanted, look), known, tally)

    async def albums(self, lidarr: Lidarr, page: Sequence[Album], before: float, tally: Tally) -> None:
        known = await self._at_store(lambda: self._known("album", page))
        with_id = [each for each in page if usable(each.mbid)]
        await self._at_store(
            lambda: self._unsendable([each for each in with_id if not usable(each.artist_mbid)], known)
        )
        wanted = [
            each for each in with_id
            if usable(each.artist_mbid) and due(known.get(each.id), str(each.mbid), before)
        ]  # fmt: skip
        if not wanted:
            return
        downloading = (await lidarr.downloads()).albums
        unseen = await self._missing_artists(lidarr, wanted, tally)
        wanted = [each for each in wanted if each.artist_id not in unseen]

        async def look(album: Album) -> Seen:
            mbid, was = str(album.mbid), known.get(album.id)
            found = await lidarr.album(mbid)
            return Seen(
                kind="album", entity_id=album.id, user=album.user, name=album.title, artist=album.artist, mbid=mbid,
                status=None if found is None else status_of(found, downloading),
                idle=found is not None and is_idle(found, downloading),
                lidarr_id=None if found is None else found.id, lost=await _lost(lidarr, "album", was, found),
                artist_id=album.artist_id, artist_mbid=str(album.artist_mbid),
            )  # fmt: skip

        await self._put(await ask_each(wanted, look), known, tally)

    async def _missing_artists(self, lidarr: Lidarr, albums: Iterable[Album], tally: Tally) -> set[int]:
        """Asks for artists that came to the library after this pass had seen its artists.

        Returns those without an answer: nobody knows whether their albums must wait for them.
        """
        wanted = {
            each.artist_id: Artist(each.artist_id, each.user, each.artist, each.artist_mbid) for each in albums
        }  # fmt: skip
        page = [wanted[id_] for id_ in sorted(wanted)]
        known = await self._at_store(lambda: self._known("artist", page))
        missing = [each for each in page if each.id not in known]
        if not missing:
            return set()
        await self.artists(lidarr, missing, 0.0, tally)
        return wanted.keys() - (await self._at_store(lambda: self._known("artist", page))).keys()

    def _known(self, kind: str, page: Sequence[Any]) -> dict[int, Known]:
        if not page:
            return {}
        return by_number(self._there.db.all("entities", kind=kind, first=page[0].id, last=page[-1].id))

    async def _put(self, answers: Answers[Seen], known: dict[int, Known], tally: Tally) -> None:
        """One transaction for the page: the jobs, what is known of each, and the badges that have changed.

        Raises what has ended the page early, when the answers before it are written.
        """
        seen = answers.good
        tally.looked += len(seen)
        if seen:
            created = await self._at_store(lambda: self._there.db.write(lambda tx: self.put(tx, seen, known)))
            tally.queued += created
            tally.found += sum(each.status is not None for each in seen)
        if answers.ended is not None:
            raise answers.ended
        if answers.faults:
            last = answers.faults[-1]
            tally.skipped, tally.why = tally.skipped + len(answers.faults), last.message
            _log.log(
                last.level.number, "look_skipped n=%s code=%s error=%s", len(answers.faults), last.code, last.detail
            )

    def put(self, tx: DbTx, seen: Sequence[Seen], known: dict[int, Known]) -> int:
        """Writes what was seen, unless more is *known* of it meanwhile; returns how many jobs that made."""
        seen = self._unchanged(tx, seen, known)
        absent = [each for each in seen if each.status is None]
        for each in absent:
            was = known.get(each.entity_id)
            if each.lost and was is not None and was.job is not None:
                self._there.queue.forget(was.job, by=self._there.app.name, connection=tx)
        jobs, created = self._enqueued(tx, [*absent, *self._left_out(tx, seen, known)])
        rows = [self._row(each, jobs.get(each.entity_id), known.get(each.entity_id)) for each in seen]
        if rows:
            tx.many("put_entities", rows)
        for row in rows:
            was = known.get(row["entity_id"])
            if was is None or was.status != row["status"]:
                self._badge(tx, row["kind"], row["entity_id"], row["status"])
        return created

    def _unchanged(self, tx: DbTx, seen: Sequence[Seen], known: dict[int, Known]) -> list[Seen]:
        """A page takes minutes to ask for: what has changed since is newer than the answers."""
        kind, ids = seen[0].kind, sorted(each.entity_id for each in seen)
        tx.many("hold_entities", [{"kind": kind, "entity_id": id_} for id_ in ids])
        now = by_number(tx.all("entities", kind=kind, first=ids[0], last=ids[-1]))
        return [each for each in seen if mark(now.get(each.entity_id)) == mark(known.get(each.entity_id))]

    def _left_out(self, tx: DbTx, seen: Sequence[Seen], known: dict[int, Known]) -> list[Seen]:
        """Albums that came into Lidarr unwanted, with an artist that we have sent, and were never asked for.

        What was wanted there once was switched off by a person, and stays so.
        """
        idle = [each for each in seen if each.idle and never_asked_for(known.get(each.entity_id), each.mbid)]
        if not idle:
            return []
        ours = {mbid for (mbid,) in tx.many("our_artists", [{"mbid": m} for m in {each.artist_mbid for each in idle}])}
        return [each for each in idle if each.artist_mbid in ours]

    def _enqueued(self, tx: DbTx, wanted: Sequence[Seen]) -> tuple[dict[int, int], int]:
        """The jobs of what Lidarr is to get, new ones or their twins, and how many are new."""
        parents = self._parents(tx, wanted)
        made = self._submit.enqueue_many(
            [_submission(each) for each in wanted], after=[parents.get(each.artist_id, ()) for each in wanted],
            priority=ARTISTS_FIRST if wanted and wanted[0].kind == "artist" else 0, connection=tx,
        )  # fmt: skip
        jobs = {each.entity_id: job.id for each, job in zip(wanted, made, strict=True)}
        return jobs, sum(job.created for job in made)

    def _parents(self, tx: DbTx, wanted: Sequence[Seen]) -> dict[int, int]:
        """The jobs of the artists of albums, unless they were in Lidarr already."""
        ids = sorted({each.artist_id for each in wanted if each.artist_id})
        if not ids:
            return {}
        rows = tx.many("jobs_of_artists", [{"entity_id": id_} for id_ in ids])
        return dict(rows)

    def _row(self, seen: Seen, job: int | None, was: Known | None) -> dict[str, Any]:
        kept = was.job if was is not None and job is None else job
        # What is still to be sent may be there already, with the other albums of its artist, and nobody looks for it.
        to_send = (was is not None and was.open) or (seen.status is not None and job is not None)
        # A given-up album that is merely listed is still wanted by us alone; anything more is somebody's doing.
        listed = seen.idle and was is not None and was.given_up
        status = "queued" if to_send else "gave_up" if listed else seen.status or _still(was, job)
        return {
            "kind": seen.kind, "entity_id": seen.entity_id, "user_id": seen.user, "name": seen.name,
            "artist": seen.artist, "status": status, "lidarr_id": seen.lidarr_id,
            "mbid": seen.mbid, "job": kept, "note": was.note if was is not None and status == "gave_up" else "",
        }  # fmt: skip

    def _unsendable(self, albums: Sequence[Album], known: dict[int, Known]) -> None:
        rows = [
            {
                "kind": "album", "entity_id": each.id, "user_id": each.user, "name": each.title, "artist": each.artist,
                "status": None, "lidarr_id": None, "mbid": each.mbid, "job": None, "note": NO_ARTIST_ID,
            }
            for each in albums
            if each.id not in known
        ]  # fmt: skip
        if rows:
            self._there.db.write(lambda tx: tx.many("put_entities", rows))

    # -- tracks --------------------------------------------------------------------------------------------------------

    async def _tracks(self, page: Sequence[Track]) -> None:
        """A track shows what its album does; nothing is asked for it."""
        await self._at_store(lambda: self._there.db.write(lambda tx: self.put_tracks(tx, page)))

    def put_tracks(self, tx: DbTx, page: Sequence[Track]) -> None:
        albums = sorted({each.album_id for each in page if each.album_id is not None})
        of_album = {row[0]: row[1:] for row in tx.many("statuses_of", [{"entity_id": id_} for id_ in albums])}
        own = by_number(tx.all("entities", kind="track", first=page[0].id, last=page[-1].id))
        rows = []
        for each in page:
            status, lidarr_id, mbid = of_album.get(each.album_id or 0, (None, None, None))
            was = own.get(each.id)
            if (None if was is None else was.status) != status:
                rows.append({
                    "kind": "track", "entity_id": each.id, "user_id": each.user, "name": each.title,
                    "artist": each.artist, "status": status, "lidarr_id": lidarr_id, "mbid": mbid, "job": None,
                    "note": "",
                })  # fmt: skip
        if rows:
            tx.many("put_entities", rows)
        for row in rows:
            self._badge(tx, "track", row["entity_id"], row["status"])

    def _badge(self, tx: DbTx, kind: EntityKind, entity_id: int, status: str | None) -> None:
        bound = self._library.badge(kind, entity_id, badge_of(kind, entity_id, status))
        tx.tx.all(bound.name, bound.params)

    async def _at_store(self, work: Callable[[], T]) -> T:
        return await self._there.queue.at_store(work)


async def _lost(lidarr: Lidarr, kind: str, was: Known | None, found: object) -> bool:
    """Whether Lidarr had it once and does not any more, so that it must be sent again."""
    if found is not None or was is None or was.lidarr_id is None or was.state != "done":
        return False
    return not await lidarr.knows(kind, was.lidarr_id)


def _still(was: Known | None, job: int | None) -> str | None:
    """The state of what is not in Lidarr: queued, unless it was given up."""
    if was is not None and was.given_up and was.job == job:
        return "gave_up"
    return "queued" if job is not None else None


def _submission(seen: Seen) -> Submission:
    return Submission(
        entity_type="artist" if seen.kind == "artist" else "album", entity_id=seen.entity_id, user=seen.user,
        musicbrainz_id=seen.mbid, name=seen.name, artist_id=seen.artist_id, artist=seen.artist,
        artist_mbid=seen.artist_mbid,
    )  # fmt: skip
