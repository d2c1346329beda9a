"""What people do to the submission queue: retry or cancel an entry, undo a cancel, wake it now, look again."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound, Rejected
from tidegate.jobs import Enqueued
from tidegate_apps.lidarr import upkeep
from tidegate_apps.lidarr.codes import PARENT_FAILED, TARGET
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.states import SubmissionEntry, entry_of
from tidegate_apps.lidarr.telling import GIVEN_UP

NOT_SET_UP = "Lidarr is not set up: give lidarr.base_url and lidarr.api_key."


def entry_at(app: Installed[LidarrSettings], job: int) -> SubmissionEntry:
    row = app.db.one("row", job=job)
    if row is None:
        raise NotFound(f"there is no entry {job}")
    return entry_of(row)


def retry(app: Installed[LidarrSettings], job: int, by: str) -> SubmissionEntry:
    """Puts an entry that was given up or cancelled back into the queue; an album whose artist is not in it, with him.

    Refused when it was neither.
    """
    entry = entry_at(app, job)
    if not entry.gave_up and not entry.cancelled:
        raise Rejected(f"entry {job} is {entry.status}, and was not given up; there is nothing to retry")
    artists = [parent for (parent,) in app.db.all("refused_parents", job=job, code=PARENT_FAILED)]
    for artist in artists:
        app.queue.retry(artist, by=str(by))  # a part of this, and so in the history of the job alone
    alone = app.queue.retry(job, by=by)  # an album that comes back with its artist is back already
    app.db.write(lambda tx: _told(app, tx, "" if alone else by, len(artists) + 1))
    return entry_at(app, job)


def cancel(app: Installed[LidarrSettings], job: int, by: str) -> SubmissionEntry:
    """Takes an entry out of the queue until somebody puts it back; the albums that wait for an artist fail with him.

    Refused when it has ended, or is being sent at the moment.
    """
    entry = entry_at(app, job)
    if not entry.open:
        raise Rejected(f"entry {job} is {entry.status}, and is not waiting to be sent; there is nothing to cancel")
    if entry.stage == "running" or app.queue.cancel(job, by=by) != "cancelled":
        raise Rejected(f"entry {job} is being sent at the moment; wait for what comes of it")
    app.db.write(lambda tx: _told(app, tx))
    return entry_at(app, job)


def retry_all(app: Installed[LidarrSettings], by: str) -> int:
    """The same for all of them; returns how many."""
    n, below = 0, 2**53
    while rows := app.db.all("rows_failed", below=below, n=500):
        entries = [entry_of(row) for row in rows]
        # Albums that failed with their artist come back with him.
        n += sum(app.queue.retry(entry.id, by=str(by)) for entry in entries if entry.terminal_reason != "artist")
        below = entries[-1].id
    app.db.write(lambda tx: _told(app, tx, by if n else "", n))
    return n


def wake_now(app: Installed[LidarrSettings], by: str) -> Enqueued[object]:
    return _asked(app, lambda tx: app.jobs.wake_now.options(connection=tx).enqueue(), by, "woken now")


def look_now(app: Installed[LidarrSettings], by: str) -> Enqueued[object]:
    return _asked(
        app, lambda tx: app.jobs.look.options(connection=tx).enqueue(True), by, "the library is looked through"
    )


def append_entry(tx: DbTx, by: str, what: str) -> None:
    """Who asked for it, for the page Activity."""
    tx.noted(by, "target_asked", TARGET, became={"state": what})


def _asked(
    app: Installed[LidarrSettings], put: Callable[[DbTx], Enqueued[object]], by: str, what: str
) -> Enqueued[object]:
    """Puts a job in, unless it is there already."""
    _set_up(app)

    def work(tx: DbTx) -> Enqueued[object]:
        made = put(tx)
        if made.created:
            append_entry(tx, by, what)
        return made

    return app.db.write(work)


def _set_up(app: Installed[LidarrSettings]) -> None:
    if not app.settings.configured:
        raise Rejected(NOT_SET_UP)


def _told(app: Installed[LidarrSettings], tx: DbTx, by: str = "", retried: int = 0) -> None:
    if by:
        tx.noted(by, "target_retried", TARGET, became={"jobs": retried})
    upkeep.reconcile(app.jobs.library, tx)
    if not tx.all("rows_failed", below=2**53, n=1):
        tx.settled(TARGET, GIVEN_UP)
