"""From a form that was read to a job: refused with a code, the twin that is there already, or a new one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from secrets import token_hex

from tidegate.apps import DbTx, Installed
from tidegate.errors import StoreError
from tidegate.web import Problem
from tidegate_apps.convert.codes import LINES, gave_up
from tidegate_apps.convert.files import File, file_of
from tidegate_apps.convert.handlers import ConvertJob, ConvertJobs
from tidegate_apps.convert.mapping_names import MAPPING, is_mapping
from tidegate_apps.convert.owned import io_error, size_of, unusable
from tidegate_apps.convert.receiving import UploadReceiver
from tidegate_apps.convert.refusals import problem_without_code
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import Draft, StorageAway, StorageError
from tidegate_apps.convert.upkeep import expire, remove_object

_log = logging.getLogger("tidegate.convert")

_ROUNDS = 3  # a twin may vanish while we look at it
_NO_HASH = "0" * 64  # of what could not be kept


@dataclass(frozen=True, slots=True)
class AcceptedUpload:
    """The job that stands for an upload; *created* is False when it was there before."""

    file: File
    created: bool


def held_until(app: Installed[ConvertSettings]) -> Problem | None:
    """Why no upload is taken now: a person paused them, or the disk is nearly full."""
    for until, _, _ in app.db.all("paused"):
        left = max(1.0, until - app.queue.clock.now())
        return io_error("Uploads are paused.", status=503, retry_after=left)
    try:
        app.jobs.storage_id.check()
        free = app.jobs.storage.free()
    except StorageAway as error:
        return unusable(error)
    except StorageError as error:
        _log.error("storage_unreadable error=%s", error)
        return io_error("The storage cannot be used at the moment.", status=503, retry_after=60)
    if free is not None and free < app.settings.least_free:
        return io_error("Uploads are paused: the disk is nearly full.", status=503, retry_after=60)
    return None


def mapping_of(app: Installed[ConvertSettings], got: UploadReceiver) -> str:
    mapping = got.fields.get("mapping", "").strip() or app.settings.mapping
    if not is_mapping(mapping):
        raise problem_without_code("malformed", f"mapping: give {MAPPING}.", field="mapping")
    return mapping


def take(app: Installed[ConvertSettings], owner: str, got: UploadReceiver, draft: Draft) -> AcceptedUpload:
    """Waits for disk and database; Problem when the upload is not taken."""
    mapping = mapping_of(app, got)
    if got.name is None:
        raise problem_without_code("invalid", "file: there is none; send one in the field file.", field="file")
    order = ConvertJob(token_hex(16), mapping, draft.sha256, got.bytes, owner)
    if not got.is_pdf:
        job = _refused(app, order, got.name, "NOT_PDF")
        raise Problem("NOT_PDF", LINES["NOT_PDF"], status=400, job=job)
    jobs: ConvertJobs = app.jobs
    try:
        draft.seal()
        jobs.storage_id.require()
        # Nobody else has that key. An object store that need not look takes a file in parts, and not as a whole.
        jobs.storage.put(draft, order.source, replace=True)
    except StorageError as error:
        raise lost(app, error, order, got.name) from error
    taken = _queued(app, order, got.name)
    if not taken.created:
        remove_object(jobs.storage, order.source)
    return taken


def lost(app: Installed[ConvertSettings], error: StorageError, order: ConvertJob, name: str) -> Problem:
    """The file could not be kept: a failed job says so, if the database can still be written."""
    _log.error("upload_not_stored error=%s", error)
    said = "The file could not be stored. Try again later."
    try:
        job = _refused(app, order, name, "IO_ERROR")
    except StoreError as away:
        _log.error("upload_not_recorded error=%s", away)
        return io_error(said)
    return io_error(said, job=job)


def record_aborted(
    app: Installed[ConvertSettings], error: StorageError, owner: str, got: UploadReceiver | None
) -> Problem:
    """As `lost`, while the file was still coming in."""
    name, size = ("document.pdf", 0) if got is None else (got.name or "document.pdf", got.bytes)
    return lost(app, error, ConvertJob(token_hex(16), app.settings.mapping, _NO_HASH, size, owner), name)


def _queued(app: Installed[ConvertSettings], order: ConvertJob, name: str) -> AcceptedUpload:
    for _ in range(_ROUNDS):

        def work(tx: DbTx) -> tuple[int, bool]:
            job = app.jobs.convert.options(connection=tx).enqueue(order)
            if job.created:
                _add(tx, job.id, order, name, order.source)
            return job.id, job.created

        job, created = app.db.write(work)
        file = file_of(app.db, job)
        if file is not None and (created or not _gone(app, file)):
            return AcceptedUpload(file, created)
    raise Problem("internal")


def _gone(app: Installed[ConvertSettings], file: File) -> bool:
    """Whether a complete twin has lost its XML; then it stands for nothing any more."""
    if file.status != "complete":
        return False
    if not file.expired and size_of(app, file.made["path"]) is not None:
        return False
    _log.error("result_missing job=%s", file.job)
    expire(app, file.job)
    return True


def _refused(app: Installed[ConvertSettings], order: ConvertJob, name: str, code: str) -> str:
    """The public id of a job that failed before it began."""

    def work(tx: DbTx) -> str:
        job = app.jobs.convert.options(connection=tx).refuse((order,), code, gave_up(code, 0))
        return _add(tx, job.id, order, name, None)

    return app.db.write(work)


def _add(tx: DbTx, job: int, order: ConvertJob, name: str, source: str | None) -> str:
    public_id = token_hex(16)
    tx.all(
        "add", job=job, public_id=public_id, owner=order.owner, name=name, mapping=order.mapping, bytes=order.bytes,
        sha256=order.sha256, source=source,
    )  # fmt: skip
    return public_id
