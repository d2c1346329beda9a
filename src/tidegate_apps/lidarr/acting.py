"""What people do to the submission queue: retry or cancel an entry, undo a cancel, wake it now, look again."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotThere, Refused
from tidegate.jobs import Enqueued
from tidegate_apps.lidarr import upkeep
from tidegate_apps.lidarr.codes import PARENT_FAILED, TARGET
from tidegate_apps.lidarr.settings import Settings
from tidegate_apps.lidarr.states import Entry, entry_of
from tidegate_apps.lidarr.telling import GIVEN_UP

NOT_SET_UP = "Lidarr is not set up: give lidarr.base_url and lidarr.api_key."


def entry_at(there: Installed[Settings], job: int) -> Entry:
    row = there.db.one("row", job=job)
    if row is None:
        raise NotThere(f"there is no entry {job}")
    return entry_of(row)


def retry(there: Installed[Settings], job: int, by: str) -> Entry:
    """Puts an entry that was given up or cancelled back into the queue; an album whose artist is not in it, with him.

    Refused when it was neither.
    """
    entry = entry_at(there, job)
    if not entry.gave_up and not entry.cancelled:
        raise Refused(f"entry {job} is {entry.status}, and was not given up; there is nothing to retry")
    artists = [parent for (parent,) in there.db.all("refused_parents", job=job, code=PARENT_FAILED)]
    for each in artists:
        there.queue.retry(each, by=str(by))  # a part of this, and so in the history of the job alone
    alone = there.queue.retry(job, by=by)  # an album that comes back with its artist is back already
    there.db.write(lambda tx: _told(there, tx, "" if alone else by, len(artists) + 1))
    return entry_at(there, job)


def cancel(there: Installed[Settings], job: int, by: str) -> Entry:
    """Takes an entry out of the queue until somebody puts it back; the albums that wait for an artist fail with him.

    Refused when it has ended, or is being sent at the moment.
    """
    entry = entry_at(there, job)
    if not entry.open:
        raise Refused(f"entry {job} is {entry.status}, and is not waiting to be sent; there is nothing to cancel")
    if entry.stage == "running" or there.queue.cancel(job, by=by) != "cancelled":
        raise Refused(f"entry {job} is being sent at the moment; wait for what comes of it")
    there.db.write(lambda tx: _told(there, tx))
    return entry_at(there, job)


def retry_all(there: Installed[Settings], by: str) -> int:
    """The same for all of them; returns how many."""
    n, below = 0, 2**53
    while rows := there.db.all("rows_failed", below=below, n=500):
        entries = [entry_of(row) for row in rows]
        # Albums that failed with their artist come back with him.
        n += sum(there.queue.retry(each.id, by=str(by)) for each in entries if each.terminal_reason != "artist")
        below = entries[-1].id
    there.db.write(lambda tx: _told(there, tx, by if n else "", n))
    return n


def wake_now(there: Installed[Settings], by: str) -> Enqueued[object]:
    return _asked(there, lambda tx: there.jobs.wake_now.options(connection=tx).enqueue(), by, "woken now")


def look_now(there: Installed[Settings], by: str) -> Enqueued[object]:
    return _asked(
        there, lambda tx: there.jobs.look.options(connection=tx).enqueue(True), by, "the library is looked through"
    )


def noted(tx: DbTx, by: str, what: str) -> None:
    """Who asked for it, for the page Activity."""
    tx.noted(by, "target_asked", TARGET, became={"state": what})


def _asked(there: Installed[Settings], put: Callable[[DbTx], Enqueued[object]], by: str, what: str) -> Enqueued[object]:
    """Puts a job in, unless it is there already."""
    _set_up(there)

    def work(tx: DbTx) -> Enqueued[object]:
        made = put(tx)
        if made.created:
            noted(tx, by, what)
        return made

    return there.db.write(work)


def _set_up(there: Installed[Settings]) -> None:
    if not there.settings.configured:
        raise Refused(NOT_SET_UP)


def _told(there: Installed[Settings], tx: DbTx, by: str = "", retried: int = 0) -> None:
    if by:
        tx.noted(by, "target_retried", TARGET, became={"jobs": retried})
    upkeep.reconcile(there.jobs.library, tx)
    if not tx.all("rows_failed", below=2**53, n=1):
        tx.settled(TARGET, GIVEN_UP)
