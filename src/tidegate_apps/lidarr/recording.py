"""What a look writes: the jobs of what Lidarr is to get, what is known of each entity, and changed badges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate.apps import DbTx, Installed
from tidegate.jobs import JobFunction
from tidegate_apps.lidarr.badges import badge_of
from tidegate_apps.lidarr.knowing import EntityObservation, EntityRecord, by_number, mark, never_asked_for
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.states import Submission
from tidegate_apps.lidarr.submitting import Accepted
from tidegate_apps.music.library import EntityKind, Library, Track

ARTISTS_FIRST = 10  # the priority of artists; albums have 0
NO_ARTIST_ID = "Its artist has no MusicBrainz id yet."


class Recorder:
    """Each of its public methods is for one transaction."""

    def __init__(
        self, app: Installed[LidarrSettings], library: Library, submit: JobFunction[[Submission], Accepted]
    ) -> None:
        self._app, self._library, self._submit = app, library, submit

    def put(self, tx: DbTx, seen: Sequence[EntityObservation], known: dict[int, EntityRecord]) -> int:
        """Writes what was seen, unless more is *known* of it meanwhile; returns how many jobs that made."""
        seen = self._unchanged(tx, seen, known)
        absent = [each for each in seen if each.status is None]
        for each in absent:
            was = known.get(each.entity_id)
            if each.lost and was is not None and was.job is not None:
                queue, job = self._app.queue, was.job
                if not queue.forget(job, by=self._app.app.name, connection=tx):
                    queue.release_unique(job, connection=tx)  # an album still needs it, and the artist is sent again
        sendable = [each for each in absent if not each.unsendable]
        jobs, created = self._enqueued(tx, [*sendable, *self._left_out(tx, seen, known)])
        rows = [self._row(each, jobs.get(each.entity_id), known.get(each.entity_id)) for each in seen]
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
        """A page takes minutes to ask for: what has changed since is newer than the answers."""
        kind, ids = seen[0].kind, sorted(each.entity_id for each in seen)
        tx.many("hold_entities", [{"kind": kind, "entity_id": id_} for id_ in ids])
        now = by_number(tx.all("entities", kind=kind, first=ids[0], last=ids[-1]))
        return [each for each in seen if mark(now.get(each.entity_id)) == mark(known.get(each.entity_id))]

    def _left_out(
        self, tx: DbTx, seen: Sequence[EntityObservation], known: dict[int, EntityRecord]
    ) -> list[EntityObservation]:
        """Albums that came into Lidarr unwanted, with an artist that we have sent, and were never asked for.

        What was wanted there once was switched off by a person, and stays so.
        """
        idle = [each for each in seen if each.idle and never_asked_for(known.get(each.entity_id), each.mbid)]
        if not idle:
            return []
        ours = {mbid for (mbid,) in tx.many("our_artists", [{"mbid": m} for m in {each.artist_mbid for each in idle}])}
        return [each for each in idle if each.artist_mbid in ours]

    def _enqueued(self, tx: DbTx, wanted: Sequence[EntityObservation]) -> tuple[dict[int, int], int]:
        """The jobs of what Lidarr is to get, new ones or their twins, and how many are new."""
        parents = self._parents(tx, wanted)
        priority = ARTISTS_FIRST if wanted and wanted[0].kind == "artist" else 0
        made = self._submit.options(priority=priority, connection=tx).enqueue_many(
            [(_submission(each),) for each in wanted],
            after_each=[parents.get(each.artist_id, ()) for each in wanted],
        )
        jobs = {each.entity_id: job.id for each, job in zip(wanted, made, strict=True)}
        return jobs, sum(job.created for job in made)

    def _parents(self, tx: DbTx, wanted: Sequence[EntityObservation]) -> dict[int, int]:
        """The jobs of the artists of albums, unless they were in Lidarr already."""
        ids = sorted({each.artist_id for each in wanted if each.artist_id})
        if not ids:
            return {}
        rows = tx.many("jobs_of_artists", [{"entity_id": id_} for id_ in ids])
        return dict(rows)

    def _row(self, seen: EntityObservation, job: int | None, was: EntityRecord | None) -> dict[str, Any]:
        kept = was.job if was is not None and job is None else job
        # What is still to be sent may be there already, with the other albums of its artist, and nobody looks for it.
        to_send = (was is not None and was.open) or (seen.status is not None and job is not None)
        # A given-up album that is merely listed is still wanted by us alone; anything more is somebody's doing.
        listed = seen.idle and was is not None and was.given_up
        status = "queued" if to_send else "gave_up" if listed else seen.status or _still(was, job)
        return {
            "kind": seen.kind, "entity_id": seen.entity_id, "user_id": seen.user, "name": seen.name,
            "artist": seen.artist, "status": status, "lidarr_id": seen.lidarr_id,
            "mbid": seen.mbid, "job": kept, "note": _note(seen, status, was),
        }  # fmt: skip

    def put_tracks(self, tx: DbTx, page: Sequence[Track]) -> None:
        albums = sorted({each.album_id for each in page if each.album_id is not None})
        of_album = {row[0]: row[1:] for row in tx.many("statuses_of", [{"entity_id": id_} for id_ in albums])}
        own = by_number(tx.all("entities", kind="track", first=page[0].id, last=page[-1].id))
        rows = []
        for each in page:
            status, lidarr_id, mbid = of_album.get(each.album_id or 0, (None, None, None))
            was = own.get(each.id)
            # The link leads to the page of the album, which may have become another one in the same state.
            if (was.status, was.mbid) != (status, mbid) if was is not None else status is not None:
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
        tx.run(self._library.badge(kind, entity_id, badge_of(kind, entity_id, status)))


def _still(was: EntityRecord | None, job: int | None) -> str | None:
    """The state of what is not in Lidarr: queued, unless it was given up, or a person has cancelled it."""
    if was is not None and was.job == job and (was.given_up or was.cancelled):
        return "gave_up" if was.given_up else None
    return "queued" if job is not None else None


def _note(seen: EntityObservation, status: str | None, was: EntityRecord | None) -> str:
    if status is None and seen.unsendable:
        return NO_ARTIST_ID
    return was.note if was is not None and status == "gave_up" else ""


def _submission(seen: EntityObservation) -> Submission:
    return Submission(
        entity_type="artist" if seen.kind == "artist" else "album", entity_id=seen.entity_id, user=seen.user,
        musicbrainz_id=seen.mbid, name=seen.name, artist_id=seen.artist_id, artist=seen.artist,
        artist_mbid=seen.artist_mbid,
    )  # fmt: skip
