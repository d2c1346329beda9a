"""What is removed: files that are too old, and files that no job knows. First the database says so, then they go."""

from __future__ import annotations

import json
import logging

from tidegate.apps import DbTx, Installed
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import Storage, StorageError

_log = logging.getLogger("tidegate.convert")

_BATCH_SIZE = 200
# Nothing younger is swept: somebody may be about to name it.
_ORPHAN_AGE = 3600.0


def expire(app: Installed[ConvertSettings], job: int) -> None:
    """The XML of a job is gone, or goes now: the same file may be uploaded again."""

    def work(tx: DbTx) -> None:
        tx.all("result_gone", job=job)
        app.queue.release_unique(job, connection=tx)

    app.db.write(work)


def retention(app: Installed[ConvertSettings], storage: Storage) -> dict[str, int]:
    """Removes PDFs and XML files that are older than the settings say; never those of a job that has not ended."""
    older_than, settings = app.queue.older_than, app.settings
    gone = {"pdf": 0, "xml": 0, "jobs": 0}
    while old := app.db.all("old_sources", before=older_than(settings.keep_pdf), n=_BATCH_SIZE):
        sources = [source for (job,) in old for source in _sources_gone(app, job)]
        gone["pdf"] += sum(remove_object(storage, source) for source in sources)
        if not sources:
            break  # somebody retried them just now
    while made := app.db.all("old_results", before=older_than(settings.keep_xml), n=_BATCH_SIZE):
        for job, result in made:
            expire(app, job)
            gone["xml"] += remove_object(storage, json.loads(result)["path"])
    while forgotten := app.db.all("forgotten", n=_BATCH_SIZE):
        gone["jobs"] += len(forgotten)
    return gone


def _sources_gone(app: Installed[ConvertSettings], job: int) -> list[str]:
    def work(tx: DbTx) -> list[str]:
        states = tx.all("held_still", job=job)
        gone = [row[0] for row in tx.all("source_gone", job=job)]
        if gone and states == [("failed",)]:
            app.queue.forbid_retry(job, connection=tx)
        return gone

    return app.db.write(work)


def sweep(app: Installed[ConvertSettings], storage: Storage) -> dict[str, int]:
    """Removes drafts and files that no job knows, once they are an hour old."""
    before = app.queue.older_than(_ORPHAN_AGE)
    gone = kept = 0
    for each in storage.kept():
        if each.changed_at >= before or (not each.draft and _known(app, each.key)):
            kept += 1
        else:
            gone += remove_object(storage, each.key)
    return {"removed": gone, "kept": kept}


def _known(app: Installed[ConvertSettings], key: str) -> bool:
    """Whether a job still stands for the file; what is neither a PDF nor an XML of ours is left alone."""
    folder, _, name = key.rpartition("/")
    stem, _, kind = name.rpartition(".")
    if (folder, kind) not in (("pdf", "pdf"), ("xml", "xml")):
        return True
    asks = "source_known" if kind == "pdf" else "running_or_done"
    return bool(app.db.all(asks, source=f"pdf/{stem}.pdf"))


def remove_object(storage: Storage, key: str) -> int:
    """1 when it is gone now; 0 when it was not there, or stays: the sweep comes again."""
    try:
        return int(storage.remove(key))
    except StorageError as error:
        _log.error("file_not_removed key=%s error=%s", key, error)
        return 0
