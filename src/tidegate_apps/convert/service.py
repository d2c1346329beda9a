"""Uploads and jobs for the API and the pages: accept, deduplicate, look up, retry, pause and quotas."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, BinaryIO

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from tidegate.apps import DbTx, Installed
from tidegate.errors import StoreError, UniqueTaken
from tidegate.web import Problem, client_networks, current_principal, current_user, not_signed_in, owner_session
from tidegate_apps.convert.codes import LINES, gave_up, problem_without_code, unpromised
from tidegate_apps.convert.jobs import ConvertJob, ConvertJobs, expire, remove_object
from tidegate_apps.convert.mapping_names import MAPPING, is_mapping
from tidegate_apps.convert.models import File, UploadPause, file_of, files_of, job_of
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import Draft, StorageAway, StorageError
from tidegate_apps.convert.uploads import UploadReceiver, check_length, check_media_type, receive

# -- access ------------------------------------------------------------------------------------------------------------
# Only the owner may see a job, download its XML or retry it.

_log = logging.getLogger("tidegate.convert")


def own_file(app: Installed[ConvertSettings], public_id: str, owner: str) -> File:
    """Return the job if *owner* owns it. In any state, other callers only learn that it is not theirs."""
    job = job_of(app.db, public_id)
    file = None if job is None else file_of(app.db, job)
    if file is None:
        raise problem_without_code("not_there", "There is no such job.")
    if file.owner != owner:
        raise Problem("FORBIDDEN", LINES["FORBIDDEN"], status=403)
    return file


def io_error(detail: str, *, status: int = 500, **more: Any) -> Problem:
    """Return a Problem about the storage. It promises no retry: only a queued job gets one."""
    return Problem("IO_ERROR", detail, status=status, title=unpromised("IO_ERROR"), **more)


def unusable(error: StorageError) -> Problem:
    if isinstance(error, StorageAway):
        return io_error("The files are not available at the moment. Try again later.", status=503, retry_after=60)
    _log.error("storage_unreadable error=%s", error)
    return io_error("The storage cannot be used at the moment.")


def size_of(app: Installed[ConvertSettings], key: str) -> int | None:
    """Return the size of a file; None if it is gone. Raises Problem if the storage cannot be read."""
    try:
        size: int | None = app.jobs.storage.size(key)
        if size is None:
            app.jobs.storage_id.check()
            app.jobs.storage.check(key)
    except StorageError as error:
        raise unusable(error) from error
    return size


def ready(app: Installed[ConvertSettings], file: File) -> int:
    """Return the size of the XML. Raises Problem if there is none."""
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
    """Open the XML. It may have been deleted since its size was read."""
    with ExitStack() as stack:
        try:
            file_object = stack.enter_context(app.jobs.storage.open(file.made["path"]))
        except StorageError as error:
            ready(app, file)
            raise unusable(error) from error
        yield file_object


def retry_file(
    app: Installed[ConvertSettings], public_id: str, owner: str, by: str, count: Callable[[File], object]
) -> File:
    """Queue a failed job again; *by* is the actor. *count* raises Problem if the owner may not retry now."""
    file = own_file(app, public_id, owner)
    if file.status != "failed":
        raise problem_without_code("refused", f"Only failed jobs can be retried; this one is {file.status}.")
    if file.source is None or not file.retriable or size_of(app, file.source) is None:
        raise Problem("EXPIRED", LINES["EXPIRED"], status=404)
    count(file)
    try:
        done = app.queue.retry(file.job, by=by)
    except UniqueTaken as error:
        same = {"owner": owner, "sha256": file.sha256, "mapping": file.mapping, "bytes": file.bytes, "job": file.job}
        other = app.db.scalar_or_none(str, "twin", **same)
        raise problem_without_code("unique_taken", f"The same file is converted by job {other}.", job=other) from error
    if not done:
        raise problem_without_code("refused", "Only failed jobs can be retried.")
    return own_file(app, public_id, owner)


_ROUNDS = 3  # a duplicate may be deleted while we read it
_NO_HASH = "0" * 64  # of a file that could not be stored


@dataclass(frozen=True, slots=True)
class AcceptedUpload:
    """The job of an upload; *created* is False for a duplicate."""

    file: File
    created: bool


def held_until(app: Installed[ConvertSettings]) -> Problem | None:
    """Return why no upload is accepted now: an operator paused them, or the disk is almost full."""
    paused = app.db.first(UploadPause, "paused")
    if paused is not None:
        left = max(1.0, paused.until - app.queue.clock.now())
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


def take(app: Installed[ConvertSettings], owner: str, got: UploadReceiver, draft: Draft) -> AcceptedUpload:
    """Store the upload and its job. Blocks on disk and database. Raises Problem."""
    mapping = got.fields.get("mapping", "").strip() or app.settings.mapping
    if not is_mapping(mapping):
        raise problem_without_code("malformed", f"mapping: give {MAPPING}.", field="mapping")
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
        # The key is unique. Without an existence check, an object store can upload in parts.
        jobs.storage.put(draft, order.source, replace=True)
    except StorageError as error:
        raise lost(app, error, order, got.name) from error
    taken = _queued(app, order, got.name)
    if not taken.created:
        remove_object(jobs.storage, order.source)
    return taken


def lost(app: Installed[ConvertSettings], error: StorageError, order: ConvertJob, name: str) -> Problem:
    """Record a failed job for a file that could not be stored, if the database is still writable."""
    _log.error("upload_not_stored error=%s", error)
    said = "The file could not be stored. Try again later."
    try:
        job = _refused(app, order, name, "IO_ERROR")
    except StoreError as away:
        _log.error("upload_not_recorded error=%s", away)
        return io_error(said)
    return io_error(said, job=job)


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
    """Return whether a complete duplicate has lost its XML; then it no longer counts as one."""
    if file.status != "complete":
        return False
    if not file.expired and size_of(app, file.made["path"]) is not None:
        return False
    _log.error("result_missing job=%s", file.job)
    expire(app, file.job)
    return True


def _refused(app: Installed[ConvertSettings], order: ConvertJob, name: str, code: str) -> str:
    """Return the public id of a job that failed before it started."""

    def work(tx: DbTx) -> str:
        job = app.jobs.convert.options(connection=tx).refuse((order,), code, gave_up(code, 0))
        return _add(tx, job.id, order, name, None)

    return app.db.write(work)


def _add(tx: DbTx, job: int, order: ConvertJob, name: str, source: str | None) -> str:
    public_id = token_hex(16)
    tx.all(
        "add",
        job=job,
        public_id=public_id,
        owner=order.owner,
        name=name,
        mapping=order.mapping,
        bytes=order.bytes,
        sha256=order.sha256,
        source=source,
    )
    return public_id


# -- pausing uploads ---------------------------------------------------------------------------------------------------

SHORTEST, LONGEST = 1.0, 30 * 86400.0  # seconds

_KEY = "uploads"


def pause(app: Installed[Any], lasts: float, by: str) -> float:
    """Pause uploads for a number of seconds, and return the end."""
    until = app.queue.clock.now() + lasts

    def write(tx: DbTx) -> None:
        was = _state(tx)
        tx.all("pause", until=until, actor=by)
        tx.noted(by, "target_paused", app.app.name, _KEY, was=was, became=_state(tx))

    app.db.write(write)
    return until


def resume(app: Installed[Any], by: str) -> bool:
    """Accept uploads again; False if they were not paused."""

    def write(tx: DbTx) -> bool:
        was = _state(tx)
        if not tx.all("resume"):
            return False
        tx.noted(by, "target_resumed", app.app.name, _KEY, was=was, became=_state(tx))
        return True

    return app.db.write(write)


def _state(tx: DbTx) -> dict[str, Any]:
    pause = tx.first(UploadPause, "paused")
    return {"state": "on"} if pause is None else {"state": "paused", "until": pause.until, "by": pause.actor}


# -- visitors who are not signed in ------------------------------------------------------------------------------------

_WINDOW = 3600.0  # seconds
_MAX_NETWORKS = 10_000


def is_shut_out(app: Installed[ConvertSettings], request: Request) -> bool:
    """Return whether the caller must sign in before uploading."""
    return current_principal(request) is None and not app.settings.anonymous


def reading_owner(app: Installed[ConvertSettings], request: Request) -> str:
    """Return the owner whose files are shown. A visitor must sign in, unless this browser uploaded files before."""
    owner = owner_session(request)
    if is_shut_out(app, request) and not files_of(app.db, owner, limit=1):
        raise not_signed_in(request)
    return owner


@dataclass(slots=True)
class Upload:
    """One upload or retry of a visitor: its start and size. Until an upload ends, the size is the maximum."""

    at: float
    bytes: int


class VisitorQuota:
    """Counts the uploads and retries of visitors per network and hour, in this process."""

    def __init__(self, clock: Callable[[], float], max_uploads: int, max_bytes: int) -> None:
        self._clock, self._max_uploads, self._max_bytes = clock, max_uploads, max_bytes
        self._networks: OrderedDict[str, deque[Upload]] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, networks: Sequence[str], size: int) -> Upload | float:
        """Start an upload that counts from now on, or return the seconds until *size* bytes are allowed.

        *networks* contain the visitor, the smallest first. The n-th has n times the quota.
        """
        with self._lock:
            now = self._clock()
            counted = [self._uploads_of(network, now) for network in networks]
            waits = [
                _WINDOW if not uploads else max(1.0, uploads[0].at + _WINDOW - now)
                for n, uploads in enumerate(counted, start=1)
                if len(uploads) >= n * self._max_uploads
                or size > max(n * self._max_bytes - sum(upload.bytes for upload in uploads), 0)
            ]
            if waits:
                return max(waits)
            made = Upload(now, size)
            for uploads in counted:
                uploads.append(made)
            return made

    def _uploads_of(self, network: str, now: float) -> deque[Upload]:
        uploads = self._networks.pop(network, deque[Upload]())
        self._networks[network] = uploads
        if len(self._networks) > _MAX_NETWORKS:
            self._networks.popitem(last=False)
        while uploads and now - uploads[0].at >= _WINDOW:
            uploads.popleft()
        return uploads


# -- uploads in progress, limited in number ----------------------------------------------------------------------------
# Each has a draft that is always dropped.


class Uploads:
    """All uploads of this server. Only the event loop of the server changes the count."""

    def __init__(self, app: Installed[ConvertSettings]) -> None:
        self._app = app
        self._visitors = VisitorQuota(
            app.queue.clock.monotonic, app.settings.anonymous_uploads, app.settings.anonymous_bytes
        )
        self._under_way = 0

    async def take(self, request: Request, owner: str) -> AcceptedUpload:
        """Return the job of the upload. Raises Problem."""
        app, settings = self._app, self._app.settings
        if is_shut_out(app, request):
            raise await run_in_threadpool(not_signed_in, request)
        check_length(request, settings.most_bytes)
        check_media_type(request)
        reason = await run_in_threadpool(held_until, app)
        if reason is not None:
            raise reason
        if self._under_way >= settings.uploads_at_once:
            raise problem_without_code("too_many", "Too many files come in at the moment.", status=503, retry_after=5)
        stated = request.headers.get("content-length", "")
        size = min(int(stated), settings.most_bytes) if stated.isdecimal() else settings.most_bytes
        counted = self._count(request, size)
        self._under_way += 1
        got: UploadReceiver | None = None
        try:
            with await run_in_threadpool(app.jobs.storage.draft) as draft:
                got = UploadReceiver(draft, settings.most_bytes)
                await receive(request, got, settings.upload_time)
                if counted is not None:
                    counted.bytes = got.bytes
                return await run_in_threadpool(take, app, owner, got, draft)
        except StorageError as error:
            # The file was still arriving.
            name, size = (got.name, got.bytes) if got is not None else (None, 0)
            order = ConvertJob(token_hex(16), settings.mapping, _NO_HASH, size, owner)
            raise await run_in_threadpool(lost, app, error, order, name or "document.pdf") from error
        finally:
            self._under_way -= 1

    def retry(self, request: Request, public_id: str) -> File:
        """Queue a failed job of the caller again. A visitor needs the same permission and quota as for an upload."""
        if is_shut_out(self._app, request):
            raise not_signed_in(request)
        owner, by = owner_session(request), current_user(request)
        return retry_file(self._app, public_id, owner, by, lambda file: self._count(request, file.bytes))

    def _count(self, request: Request, size: int) -> Upload | None:
        """Count an upload or a retry of a visitor. Raises Problem if the quota is used up."""
        if current_principal(request) is not None:
            return None
        upload = self._visitors.begin(client_networks(request), size)
        if not isinstance(upload, Upload):
            raise problem_without_code(
                "too_many", "You uploaded much in the last hour. Sign in to go on.", retry_after=upload
            )
        return upload
