"""What is removed: files that are too old, and files that no job knows. First the database says so, then they go."""

from __future__ import annotations

import json
import logging

from tidegate.apps import DbTx, Installed
from tidegate_apps.convert.settings import Settings
from tidegate_apps.convert.storage import Storage, StorageError

_log = logging.getLogger("tidegate.convert")

_SLICE = 200
# Nothing younger is swept: somebody may be about to name it.
_ORPHAN_AGE = 3600.0


def expire(there: Installed[Settings], job: int) -> None:
    """The XML of a job is gone, or goes now: the same file may be uploaded again."""

    def work(tx: DbTx) -> None:
        tx.all("result_gone", job=job)
        there.queue.free(job, connection=tx)

    there.db.write(work)


def retention(there: Installed[Settings], storage: Storage) -> dict[str, int]:
    """Removes PDFs and XML files that are older than the settings say; never those of a job that has not ended."""
    older_than, settings = there.queue.older_than, there.settings
    gone = {"pdf": 0, "xml": 0, "jobs": 0}
    while old := there.db.all("old_sources", before=older_than(settings.keep_pdf), n=_SLICE):
        sources = [source for (job,) in old for source in _sources_gone(there, job)]
        gone["pdf"] += sum(removed(storage, source) for source in sources)
        if not sources:
            break  # somebody retried them just now
    while made := there.db.all("old_results", before=older_than(settings.keep_xml), n=_SLICE):
        for job, result in made:
            expire(there, job)
            gone["xml"] += removed(storage, json.loads(result)["path"])
    while forgotten := there.db.all("forgotten", n=_SLICE):
        gone["jobs"] += len(forgotten)
    return gone


def _sources_gone(there: Installed[Settings], job: int) -> list[str]:
    def work(tx: DbTx) -> list[str]:
        states = tx.all("held_still", job=job)
        gone = [row[0] for row in tx.all("source_gone", job=job)]
        if gone and states == [("failed",)]:
            there.queue.bar(job, connection=tx)
        return gone

    return there.db.write(work)


def sweep(there: Installed[Settings], storage: Storage) -> dict[str, int]:
    """Removes drafts and files that no job knows, once they are an hour old."""
    before = there.queue.older_than(_ORPHAN_AGE)
    gone = kept = 0
    for each in storage.kept():
        if each.changed_at >= before or (not each.draft and _known(there, each.key)):
            kept += 1
        else:
            gone += removed(storage, each.key)
    return {"removed": gone, "kept": kept}


def _known(there: Installed[Settings], key: str) -> bool:
    """Whether a job still stands for the file; what is neither a PDF nor an XML of ours is left alone."""
    folder, _, name = key.rpartition("/")
    stem, _, kind = name.rpartition(".")
    if (folder, kind) not in (("pdf", "pdf"), ("xml", "xml")):
        return True
    asks = "source_known" if kind == "pdf" else "running_or_done"
    return bool(there.db.all(asks, source=f"pdf/{stem}.pdf"))


def removed(storage: Storage, key: str) -> int:
    """1 when it is gone now; 0 when it was not there, or stays: the sweep comes again."""
    try:
        return int(storage.remove(key))
    except StorageError as error:
        _log.error("file_not_removed key=%s error=%s", key, error)
        return 0
