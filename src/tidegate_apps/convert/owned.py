"""What only the owner of a job may do: see it, fetch its XML, have it tried again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

from tidegate.apps import Installed
from tidegate.errors import UniqueTaken
from tidegate.web import Problem
from tidegate_apps.convert.codes import LINES, unpromised
from tidegate_apps.convert.files import File, file_of, job_of
from tidegate_apps.convert.refusals import problem_without_code
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import StorageAway, StorageError
from tidegate_apps.convert.upkeep import expire

_log = logging.getLogger("tidegate.convert")


def own_file(app: Installed[ConvertSettings], public_id: str, owner: str) -> File:
    """The job, if it is whose who asks; whatever its state, nobody else learns more than that it is not theirs."""
    job = job_of(app.db, public_id)
    file = None if job is None else file_of(app.db, job)
    if file is None:
        raise problem_without_code("not_there", "There is no such job.")
    if file.owner != owner:
        raise Problem("FORBIDDEN", LINES["FORBIDDEN"], status=403)
    return file


def io_error(detail: str, *, status: int = 500, **more: Any) -> Problem:
    """An answer about the storage: it promises no retry, which only a job in the queue gets."""
    return Problem("IO_ERROR", detail, status=status, title=unpromised("IO_ERROR"), **more)


def unusable(error: StorageError) -> Problem:
    if isinstance(error, StorageAway):
        return io_error("The files are not available at the moment. Try again later.", status=503, retry_after=60)
    _log.error("storage_unreadable error=%s", error)
    return io_error("The storage cannot be used at the moment.")


def size_of(app: Installed[ConvertSettings], key: str) -> int | None:
    """Bytes of a file; None when it is gone, and a Problem when nobody can tell."""
    try:
        found: int | None = app.jobs.storage.size(key)
        if found is None:
            app.jobs.storage_id.check()
            app.jobs.storage.check(key)
    except StorageError as error:
        raise unusable(error) from error
    return found


def ready(app: Installed[ConvertSettings], file: File) -> int:
    """The size of the XML, which is there."""
    if file.status != "complete":
        soon = 2.0 if file.active else None
        raise Problem("NOT_READY", LINES["NOT_READY"], status=409, retry_after=soon)
    size = None if file.expired else size_of(app, file.made["path"])
    if size is None:
        if not file.expired:
            expire(app, file.job)
        raise Problem("EXPIRED", LINES["EXPIRED"], status=404)
    return size


@contextmanager
def open_result(app: Installed[ConvertSettings], file: File) -> Iterator[BinaryIO]:
    """The XML, which may have gone since its size was asked for."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(app.jobs.storage.open(file.made["path"]))
        except StorageError as error:
            ready(app, file)
            raise unusable(error) from error
        yield found


def retry_file(app: Installed[ConvertSettings], public_id: str, owner: str, by: str) -> File:
    """The job of *owner*, which is queued again; *by* is who asked for it."""
    file = own_file(app, public_id, owner)
    if file.status != "failed":
        raise problem_without_code("refused", f"Only failed jobs can be retried; this one is {file.status}.")
    if file.source is None or not file.retriable or size_of(app, file.source) is None:
        raise Problem("EXPIRED", LINES["EXPIRED"], status=404)
    try:
        done = app.queue.retry(file.job, by=by)
    except UniqueTaken as error:
        twin = app.db.one("twin", owner=owner, sha256=file.sha256, mapping=file.mapping, bytes=file.bytes, job=file.job)
        other = None if twin is None else twin[0]
        raise problem_without_code("unique_taken", f"The same file is converted by job {other}.", job=other) from error
    if not done:
        raise problem_without_code("refused", "Only failed jobs can be retried.")
    return own_file(app, public_id, owner)
