"""What only the owner of a job may do: see it, fetch its XML, have it tried again."""

from __future__ import annotations

from tidegate import Installed
from tidegate.errors import UniqueTaken
from tidegate.web import Problem
from tidegate_apps.convert.codes import LINES
from tidegate_apps.convert.files import File, file_of
from tidegate_apps.convert.settings import Settings
from tidegate_apps.convert.upkeep import expire


def mine(there: Installed[Settings], job: int, owner: str) -> File:
    """The job, if it is whose who asks; whatever its state, nobody else learns more than that it is not theirs."""
    file = file_of(there.db, job)
    if file is None:
        raise Problem("not_there", "There is no such job.")
    if file.owner != owner:
        raise Problem("FORBIDDEN", LINES["FORBIDDEN"], status=403)
    return file


def ready(there: Installed[Settings], file: File) -> int:
    """The size of the XML, which is there."""
    if file.status != "complete":
        soon = 2.0 if file.active else None
        raise Problem("NOT_READY", LINES["NOT_READY"], status=409, retry_after=soon)
    size = None if file.expired else there.jobs.storage.size(file.made["path"])
    if size is None:
        if not file.expired:
            expire(there, file.job)
        raise Problem("EXPIRED", LINES["EXPIRED"], status=404)
    return int(size)


def retried(there: Installed[Settings], job: int, owner: str) -> File:
    file = mine(there, job, owner)
    if file.status != "failed":
        raise Problem("refused", f"Only failed jobs can be retried; this one is {file.status}.")
    if not file.retriable or there.jobs.storage.size(file.source) is None:
        raise Problem("EXPIRED", LINES["EXPIRED"], status=404)
    try:
        done = there.queue.retry(job, by=owner)
    except UniqueTaken as error:
        twin = there.db.one("twin", owner=owner, sha256=file.sha256, mapping=file.mapping, bytes=file.bytes, job=job)
        other = None if twin is None else twin[0]
        raise Problem("unique_taken", f"The same file is converted by job {other}.", job=other) from error
    if not done:
        raise Problem("refused", "Only failed jobs can be retried.")
    return mine(there, job, owner)
