"""What a scan writes: submission jobs, entity records and changed badges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypedDict, TypeVar

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound
from tidegate.jobs import JobFunction
from tidegate_apps.lidarr.codes import PARENT_FAILED
from tidegate_apps.lidarr.models import MAX_ID_LENGTH, OPEN, Submission, badge_of
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.submitter import Accepted
from tidegate_apps.music.library import Album, Artist, EntityKind, Library, Track

# -- records of entities that the library no longer has, because they were merged --------------------------------------

_MAX_ID = 2**53
E = TypeVar("E", Artist, Album, Track)


@dataclass(frozen=True, slots=True)
class LibraryShelf(Generic[E]):
    """All entities of one kind of a user. *read* is the library's query by user, cursor and limit."""

    kind: EntityKind
    user: str
    read: Callable[..., Sequence[E]]

    def has(self, entity_id: int) -> bool:
        return any(entity.id == entity_id for entity in self.read(self.user, after=entity_id - 1, limit=1))


def clear(
    app: Installed[LidarrSettings], library: Library, cache: LibraryShelf[E], page: Sequence[E], after: int
) -> int:
    """Delete records that a page after *after* should contain and does not; return how many."""
    last = page[-1].id if page else _MAX_ID
    known = app.db.all("known_of_user", kind=cache.kind, user_id=cache.user, after=after, last=last)
    present = {entity.id for entity in page}
    gone = 0
    for entity_id, job, state in known:
        # Query them explicitly: entities that were added while the page was read are not gone.
        if entity_id in present or cache.has(entity_id) or not _ended(app, job, state):
            continue
        gone += app.db.write(partial(_remove, app, library, (cache.kind, entity_id), job))
    return gone


def _ended(app: Installed[LidarrSettings], job: int | None, state: str | None) -> bool:
    """Return whether its job has ended. A waiting job is cancelled. A later scan handles the others."""
    if job is None:
        return True
    if any(child in OPEN and child != "blocked" for _, child, _ in app.db.all("children_of", job=job)):
        return False  # the albums that are submitted next need the Lidarr id of this artist
    try:
        return state not in OPEN or app.queue.cancel(job, by=app.app.name) == "cancelled"
    except NotFound:
        return False  # another scan is working on it


def _remove(
    app: Installed[LidarrSettings], library: Library, entity: tuple[EntityKind, int], job: int | None, tx: DbTx
) -> int:
    """Delete the record. Albums that failed with their artist are scanned again: they have another artist now."""
    if job is not None:
        for child, _, code in tx.all("children_of", job=job):
            if code == PARENT_FAILED:
                app.queue.forget(child, by=app.app.name, connection=tx)
                tx.all("look_again", job=child)
        app.queue.forget(job, by=app.app.name, connection=tx)
    tx.run(library.badge(*entity, None))
    return len(tx.all("remove_entity", kind=entity[0], entity_id=entity[1]))


# -- an entity before a scan, its observation, and the difference ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EntityRecord:
    """The stored record of an entity. The fields are the columns."""

    entity_id: int
    status: str | None
    lidarr_id: int | None
    mbid: str | None
    job: int | None
    note: str
    checked_at: float
    watched: bool  # Lidarr has monitored it, or accepted it from us
    state: str | None  # of its job

    @property
    def open(self) -> bool:
        """Return whether it is still to be submitted."""
        return self.state in OPEN

    @property
    def given_up(self) -> bool:
        return self.state == "failed"

    @property
    def cancelled(self) -> bool:
        return self.state == "cancelled"

    @property
    def mark(self) -> tuple[object, ...]:
        """Return a value that changes with every other scan, finished submission or user request."""
        return (self.status, self.lidarr_id, self.job, self.checked_at, self.open)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityObservation:
    """What this scan found for one entity. *lost*: Lidarr accepted it before and no longer has it."""

    kind: EntityKind
    entity_id: int
    user: str
    name: str
    artist: str = ""
    mbid: str
    lidarr_id: int | None = None
    status: str | None = None  # None: not in Lidarr
    idle: bool = False  # an album that is listed and not monitored
    lost: bool = False
    artist_id: int = 0
    artist_mbid: str = ""

    @property
    def unsendable(self) -> bool:
        """Return whether it cannot be submitted: Lidarr accepts no album without its artist."""
        return self.kind == "album" and not self.artist_mbid


class EntityColumns(TypedDict):
    """What a scan writes of an entity."""

    kind: EntityKind
    entity_id: int
    user_id: str
    name: str
    artist: str
    status: str | None
    lidarr_id: int | None
    mbid: str | None
    job: int | None
    note: str


def by_number(records: Iterable[EntityRecord]) -> dict[int, EntityRecord]:
    return {record.entity_id: record for record in records}


def mark(known: EntityRecord | None) -> object:
    return None if known is None else known.mark


def due(was: EntityRecord | None, mbid: str, before: float) -> bool:
    return was is None or was.checked_at <= before or was.mbid != mbid


def never_asked_for(was: EntityRecord | None, mbid: str) -> bool:
    return was is None or (was.state is None and not (was.watched and was.mbid == mbid))


def usable(mbid: str | None) -> bool:
    """Return whether a MusicBrainz id can be submitted."""
    return mbid is not None and 0 < len(mbid) <= MAX_ID_LENGTH


ARTISTS_FIRST = 10  # the priority of artists; albums have 0
NO_ARTIST_ID = "Its artist has no MusicBrainz id yet."


class Recorder:
    """Writes observations. Call each public method in one transaction."""

    def __init__(
        self, app: Installed[LidarrSettings], library: Library, submit: JobFunction[[Submission], Accepted]
    ) -> None:
        self._app, self._library, self._submit = app, library, submit

    def put(self, tx: DbTx, seen: Sequence[EntityObservation], known: dict[int, EntityRecord]) -> int:
        """Write observations whose record is still as *known*; return the number of new jobs."""
        seen = self._unchanged(tx, seen, known)
        absent = [observation for observation in seen if observation.status is None]
        for observation in absent:
            was = known.get(observation.entity_id)
            if observation.lost and was is not None and was.job is not None:
                queue, job = self._app.queue, was.job
                if not queue.forget(job, by=self._app.app.name, connection=tx):
                    # an album still needs it, so the artist is submitted again
                    queue.release_unique(job, connection=tx)
        sendable = [observation for observation in absent if not observation.unsendable]
        jobs, created = self._enqueued(tx, [*sendable, *self._left_out(tx, seen, known)])
        rows = [
            self._row(observation, jobs.get(observation.entity_id), known.get(observation.entity_id))
            for observation in seen
        ]
        if rows:
            tx.many("put_entities", rows)
        for row in rows:
            was = known.get(row["entity_id"])
            if was is None or was.status != row["status"]:
                self._badge(tx, row["kind"], row["entity_id"], row["status"])
        return created

    def _unchanged(
        self, tx: DbTx, seen: Sequence[EntityObservation], known: dict[int, EntityRecord]
    ) -> list[EntityObservation]:
        """Return observations that are still current: scanning a page takes minutes, and newer changes win."""
        kind, ids = seen[0].kind, sorted(observation.entity_id for observation in seen)
        tx.many("hold_entities", [{"kind": kind, "entity_id": id_} for id_ in ids])
        now = by_number(tx.query_as(EntityRecord, "entities", kind=kind, first=ids[0], last=ids[-1]))
        return [
            observation
            for observation in seen
            if mark(now.get(observation.entity_id)) == mark(known.get(observation.entity_id))
        ]

    def _left_out(
        self, tx: DbTx, seen: Sequence[EntityObservation], known: dict[int, EntityRecord]
    ) -> list[EntityObservation]:
        """Return albums that Lidarr added unmonitored with an artist that we submitted, and that were never submitted.

        If an album was monitored before, a user has switched it off, and it stays off.
        """
        idle = [
            observation
            for observation in seen
            if observation.idle and never_asked_for(known.get(observation.entity_id), observation.mbid)
        ]
        if not idle:
            return []
        ours = {
            mbid
            for (mbid,) in tx.many(
                "our_artists", [{"mbid": m} for m in {observation.artist_mbid for observation in idle}]
            )
        }
        return [observation for observation in idle if observation.artist_mbid in ours]

    def _enqueued(self, tx: DbTx, wanted: Sequence[EntityObservation]) -> tuple[dict[int, int], int]:
        """Return the jobs of missing entities, new or existing, and how many are new."""
        parents = self._parents(tx, wanted)
        priority = ARTISTS_FIRST if wanted and wanted[0].kind == "artist" else 0
        made = self._submit.options(priority=priority, connection=tx).enqueue_many(
            [(_submission(observation),) for observation in wanted],
            after_each=[parents.get(observation.artist_id, ()) for observation in wanted],
        )
        jobs = {observation.entity_id: job.id for observation, job in zip(wanted, made, strict=True)}
        return jobs, sum(job.created for job in made)

    def _parents(self, tx: DbTx, wanted: Sequence[EntityObservation]) -> dict[int, int]:
        """Return the jobs of the artists of albums, unless they were in Lidarr before."""
        ids = sorted({observation.artist_id for observation in wanted if observation.artist_id})
        if not ids:
            return {}
        rows = tx.many("jobs_of_artists", [{"entity_id": id_} for id_ in ids])
        return dict(rows)

    def _row(self, seen: EntityObservation, job: int | None, was: EntityRecord | None) -> EntityColumns:
        job_id = was.job if was is not None and job is None else job
        # A queued album may already be listed with the other albums of its artist, without a search.
        to_send = (was is not None and was.open) or (seen.status is not None and job is not None)
        # A failed album that is only listed is still missing. Anything more is the action of a user.
        listed = seen.idle and was is not None and was.given_up
        status = "queued" if to_send else "gave_up" if listed else seen.status or _still(was, job)
        return {
            "kind": seen.kind,
            "entity_id": seen.entity_id,
            "user_id": seen.user,
            "name": seen.name,
            "artist": seen.artist,
            "status": status,
            "lidarr_id": seen.lidarr_id,
            "mbid": seen.mbid,
            "job": job_id,
            "note": _note(seen, status, was),
        }

    def put_tracks(self, tx: DbTx, page: Sequence[Track]) -> None:
        albums = sorted({track.album_id for track in page if track.album_id is not None})
        statuses = tx.many("statuses_of", [{"entity_id": id_} for id_ in albums])
        of_album = {album: (status, lidarr_id, mbid) for album, status, lidarr_id, mbid in statuses}
        own = by_number(tx.query_as(EntityRecord, "entities", kind="track", first=page[0].id, last=page[-1].id))
        rows: list[EntityColumns] = []
        for track in page:
            status, lidarr_id, mbid = of_album.get(track.album_id or 0, (None, None, None))
            was = own.get(track.id)
            # The link leads to the page of the album, which may change while the state stays.
            if (was.status, was.mbid) != (status, mbid) if was is not None else status is not None:
                rows.append(
                    {
                        "kind": "track",
                        "entity_id": track.id,
                        "user_id": track.user,
                        "name": track.title,
                        "artist": track.artist,
                        "status": status,
                        "lidarr_id": lidarr_id,
                        "mbid": mbid,
                        "job": None,
                        "note": "",
                    }
                )
        if rows:
            tx.many("put_entities", rows)
        for row in rows:
            self._badge(tx, "track", row["entity_id"], row["status"])

    def _badge(self, tx: DbTx, kind: EntityKind, entity_id: int, status: str | None) -> None:
        tx.run(self._library.badge(kind, entity_id, badge_of(kind, entity_id, status)))


def _still(was: EntityRecord | None, job: int | None) -> str | None:
    """Return the state of what is not in Lidarr: queued, unless it failed or a user cancelled it."""
    if was is not None and was.job == job and (was.given_up or was.cancelled):
        return "gave_up" if was.given_up else None
    return "queued" if job is not None else None


def _note(seen: EntityObservation, status: str | None, was: EntityRecord | None) -> str:
    if status is None and seen.unsendable:
        return NO_ARTIST_ID
    return was.note if was is not None and status == "gave_up" else ""


def _submission(seen: EntityObservation) -> Submission:
    return Submission(
        entity_type="artist" if seen.kind == "artist" else "album",
        entity_id=seen.entity_id,
        user=seen.user,
        musicbrainz_id=seen.mbid,
        name=seen.name,
        artist_id=seen.artist_id,
        artist=seen.artist,
        artist_mbid=seen.artist_mbid,
    )
