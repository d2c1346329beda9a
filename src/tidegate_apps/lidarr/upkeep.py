"""What a wake does before and after it sends: entries that are too old go, and each shows what became of its job."""

from __future__ import annotations

from functools import partial

from tidegate.apps import DbTx, Installed
from tidegate_apps.lidarr.badges import badge_of
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.states import error_of
from tidegate_apps.music.library import Library

_BATCH_SIZE = 200


def begin(app: Installed[LidarrSettings], library: Library) -> int:
    """Tidies up; returns how many entries this wake may send."""
    prune(app, library)
    return int(app.db.all("eligible")[0][0])


def prune(app: Installed[LidarrSettings], library: Library) -> int:
    """Removes submitted entries after a week, given-up ones after a month with their badges; returns how many."""
    settings, older_than, gone = app.settings, app.queue.older_than, 0
    # What was cancelled stays: it would be sent after all, once nobody knew that a person does not want it.
    for state, kept in (("done", settings.keep_submitted), ("failed", settings.keep_given_up)):
        one = partial(_slice, app, library, state, older_than(kept))
        while n := app.db.write(one):
            gone += n
    app.db.write(lambda tx: _orphans(library, tx))
    app.db.all("prune_events", before=older_than(settings.keep_submitted))
    return gone


def _slice(app: Installed[LidarrSettings], library: Library, state: str, before: float, tx: DbTx) -> int:
    old = [job for (job,) in tx.all("old_jobs", state=state, before=before, n=_BATCH_SIZE)]
    for job in old:
        app.queue.forget(job, by=app.app.name, connection=tx)
        _release(library, tx, job)
    return len(old)


def _orphans(library: Library, tx: DbTx) -> None:
    for (job,) in tx.all("orphans", n=_BATCH_SIZE):
        _release(library, tx, job)


def _release(library: Library, tx: DbTx, job: int) -> None:
    for kind, entity_id, status in tx.all("release", job=job):
        if status is None:
            tx.run(library.badge(kind, entity_id, None))


def reconcile(library: Library, tx: DbTx) -> int:
    """Entries whose jobs have given up say so, those that a person has cancelled say nothing, the others are queued."""
    changed = tx.all("changed")
    for kind, entity_id, state, code, message in changed:
        status = {"failed": "gave_up", "cancelled": None}.get(state, "queued")
        note = error_of(code, message) or "" if status == "gave_up" else ""
        tx.all("set_status", kind=kind, entity_id=entity_id, status=status, note=note)
        tx.run(library.badge(kind, entity_id, badge_of(kind, entity_id, status)))
    return len(changed)
