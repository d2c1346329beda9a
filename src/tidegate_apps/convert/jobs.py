"""The jobs: convert a PDF, delete expired files, delete orphaned files."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import httpx2

from tidegate import Again, Backoff, Context, Done, Fail, Fault, Target, classify, net
from tidegate.apps import DbTx, Installed
from tidegate.errors import LeaseLost
from tidegate.jobs import JobFunction
from tidegate_apps.convert.client import Bounds, ConvertRequest, Gateway, more_of
from tidegate_apps.convert.codes import ONCE_MORE, PACK, REFUSED, TARGET, UNKNOWN, Unforeseen, gave_up, shown
from tidegate_apps.convert.gateway import Mappings
from tidegate_apps.convert.models import file_of
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import (
    Draft,
    KeyTaken,
    Storage,
    StorageAway,
    StorageError,
    StorageFull,
    digest,
    is_upload,
)
from tidegate_apps.convert.storage_id import StorageId

# -- retention ---------------------------------------------------------------------------------------------------------
# The database is updated first, then files are deleted.

_log = logging.getLogger("tidegate.convert")

_BATCH_SIZE = 200
# Younger files are never orphans: a transaction may be about to reference them.
_ORPHAN_AGE = 3600.0


def expire(app: Installed[ConvertSettings], job: int) -> None:
    """Mark the XML of a job as expired, so that the same file can be uploaded again."""

    def work(tx: DbTx) -> None:
        tx.all("result_gone", job=job)
        app.queue.release_unique(job, connection=tx)

    app.db.write(work)


def apply_retention(app: Installed[ConvertSettings], storage: Storage) -> dict[str, int]:
    """Delete PDFs and XML files that are older than the settings allow; never those of an unfinished job."""
    older_than, settings = app.queue.older_than, app.settings
    gone = {"pdf": 0, "xml": 0, "jobs": 0}
    while old := app.db.all("old_sources", before=older_than(settings.keep_pdf), n=_BATCH_SIZE):
        sources = [source for (job,) in old for source in _sources_gone(app, job)]
        gone["pdf"] += sum(remove_object(storage, source) for source in sources)
        if not sources:
            break  # a user retried these jobs just now
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
        gone = tx.scalars(str, "source_gone", job=job)
        if gone and states == [("failed",)]:
            app.queue.forbid_retry(job, connection=tx)
        return gone

    return app.db.write(work)


def sweep_storage(app: Installed[ConvertSettings], storage: Storage) -> dict[str, int]:
    """Delete drafts and files without a job that are older than an hour.

    The jobs of files from before a restore may be in a newer copy of the database. Such files are kept as long as the
    retention of an XML file.
    """
    before = app.queue.older_than(_ORPHAN_AGE)
    row = app.db.one("restored_at")
    restored_at = 0.0 if row is None else float(row[0])
    before_restored = app.queue.older_than(max(_ORPHAN_AGE, app.settings.keep_pdf, app.settings.keep_xml))
    gone = remaining = 0
    for stored in storage.kept():
        is_young = stored.changed_at >= (before_restored if stored.changed_at < restored_at else before)
        if is_young or (not stored.draft and _known(app, stored.key)):
            remaining += 1
        else:
            gone += remove_object(storage, stored.key)
    return {"removed": gone, "kept": remaining}


def count_unknown(app: Installed[ConvertSettings]) -> int:
    """Return how many files of the storage the next sweeps would delete."""
    return sum(not stored.draft and not _known(app, stored.key) for stored in app.jobs.storage.kept())


def _known(app: Installed[ConvertSettings], key: str) -> bool:
    """Return whether a job references the file. Files with other names are left alone."""
    if not is_upload(key):
        return True
    stem, _, kind = key.rpartition("/")[2].rpartition(".")
    asks = "source_known" if kind == "pdf" else "running_or_done"
    return bool(app.db.all(asks, source=f"pdf/{stem}.pdf"))


def remove_object(storage: Storage, key: str) -> int:
    """Return 1 if the file was deleted; 0 if it did not exist or could not be deleted: the next run retries."""
    try:
        return int(storage.remove(key))
    except StorageError as error:
        _log.error("file_not_removed key=%s error=%s", key, error)
        return 0


def storage_at(where: str) -> Storage:
    """Return the storage of a setting, which is a folder or a URL. Raises ValueError."""
    if "://" in where and not where.startswith("file://"):
        from tidegate_apps.convert.storage_s3 import Objects

        return Objects.at(where)
    from tidegate_apps.convert.storage import Folder

    return Folder(Path(where.removeprefix("file://")))


QUEUE, UPKEEP = "convert", "convert-upkeep"
_DISK_FULL = 60.0  # seconds that the queue pauses
_JOB_RETENTION = 90 * 86400.0  # seconds; for jobs with their history, whose files expire sooner


@dataclass(frozen=True, slots=True)
class ConvertJob:
    """One conversion. The files are pdf/KEY.pdf and xml/KEY.xml."""

    key: str
    mapping: str
    sha256: str
    bytes: int
    owner: str

    @property
    def source(self) -> str:
        return f"pdf/{self.key}.pdf"

    @property
    def result(self) -> str:
        return f"xml/{self.key}.xml"


@dataclass(frozen=True, slots=True)
class ConvertResult:
    """The XML of a job."""

    path: str  # its key in the storage
    sha256: str
    bytes: int
    gateway_http_status: int | None  # None: an earlier attempt created it, and the gateway was not called again


@dataclass(frozen=True, slots=True)
class ConvertJobs:
    """The parts of the application that routes, pages and schedules share."""

    storage: Storage
    storage_id: StorageId
    mappings: Mappings
    gateway: Gateway
    convert: JobFunction[[ConvertJob], ConvertResult]
    retention: JobFunction[[], dict[str, int]]
    sweep: JobFunction[[], dict[str, int]]


def declare(app: Installed[ConvertSettings], transport: Bounds | None = None) -> ConvertJobs:
    """Declare the jobs. *transport* replaces sockets in tests."""
    settings = app.settings
    storage = storage_at(settings.storage)
    storage_id = StorageId(app, storage)
    mappings = _mappings(settings)
    gateway = Gateway(settings, app.closing, mappings, transport=transport)
    work = Converting(app, storage, storage_id, gateway)
    target = Target(
        TARGET,
        "jobs",
        rules=PACK,
        backoff=None,
        breaker={
            "window": settings.breaker_window,
            "min_requests": 6,
            "failure_ratio": 0.5,
            "consecutive": 5,
            "max_requests": 3,
        },
        probe=gateway.probe,
        probe_every=settings.probe_every,
        probe_after={"GW_5XX"},
        when_open="fail-fast" if settings.breaker == "fail-fast" else "hold",
        self_guard=False,
        reprobe_every=None,  # a probe would cost a job: a rejected one fails permanently
    )
    job_retention = max(_JOB_RETENTION, settings.keep_pdf + settings.keep_xml)
    app.queue.set_retention(QUEUE, done=job_retention, failed=job_retention)
    app.queue.set_retention(UPKEEP, done="1d")

    @app.queue.job(
        queue=QUEUE,
        name="convert.pdf",
        target=target,
        unique=lambda order: (order.owner, order.sha256, order.mapping, order.bytes),
        while_={"queued", "running", "done"},
        attempts=settings.attempts,
        per_code={"unexpected": 2},
        free_trials=0,  # each dispatch is an attempt
        backoff=Backoff(settings.retry_after, cap=settings.retry_after * 9, factor=3, jitter=0.2),
        verify=work.found,
        cancellable=False,
        fail_fast_code="GW_5XX",
        lost_code=UNKNOWN,
    )
    def convert(job: Context, order: ConvertJob) -> Done[ConvertResult]:
        return work.convert(order, job)

    @app.queue.job(queue=UPKEEP, name="convert.retention", unique=True, attempts=3)
    def retention() -> dict[str, int]:
        _require(storage_id)
        return apply_retention(app, storage)

    @app.queue.job(queue=UPKEEP, name="convert.sweep", unique=True, attempts=3)
    def sweep() -> dict[str, int]:
        _require(storage_id)
        return sweep_storage(app, storage)

    return ConvertJobs(storage, storage_id, mappings, gateway, convert, retention, sweep)


def _require(storage_id: StorageId) -> None:
    """Raise unless the storage is available, so that deletion waits for it."""
    try:
        storage_id.check()
    except StorageAway as error:
        raise Again(_DISK_FULL, keep_attempt=True, code="IO_ERROR") from error


def _mappings(settings: ConvertSettings) -> Mappings:
    try:
        return Mappings(Path(settings.mappings) if settings.mappings else None)
    except ValueError as error:
        raise ValueError(f"convert.mappings: {error}") from error


class Converting:
    """One attempt at a conversion."""

    def __init__(
        self, app: Installed[ConvertSettings], storage: Storage, storage_id: StorageId, gateway: Gateway
    ) -> None:
        self._app, self._storage, self._storage_id, self._gateway = app, storage, storage_id, gateway

    def found(self, order: ConvertJob, job: Context) -> Done[ConvertResult] | None:
        """Return the XML of an earlier attempt, only if it has the hash that was saved under the lease."""
        pending = job.saved.get("pending")
        if not isinstance(pending, dict):
            return None
        try:
            there = digest(self._storage, order.result)
        except StorageError as error:
            self._faulted(job, error)
        if there is None or there != (pending.get("sha256"), pending.get("bytes")):
            return None
        _log.info("result_found job=%s", job.id)
        return Done(ConvertResult(order.result, there[0], there[1], None), unsent=True)

    def convert(self, order: ConvertJob, job: Context) -> Done[ConvertResult]:
        try:
            self._storage_id.require()
            self._require_source(order, job)
            with self._storage.draft() as draft:
                with self._storage.open(order.source) as source:
                    request = ConvertRequest(source, order.mapping, job.idempotency_key)
                    status = self._gateway.convert(request, draft, lambda: job.cancelled)
                draft.seal()
                self._publish(order, job, draft)
                return Done(ConvertResult(order.result, draft.sha256, draft.size, status))
        except (Fail, LeaseLost):
            raise
        except net.CallStopped as error:
            # The lease is lost or the worker stops. The next attempt gets the result that the gateway cached.
            raise (LeaseLost(job.id, job.fence) if job.lost else Again(keep_attempt=True)) from error
        except (StorageFull, StorageAway) as error:
            self._hold(error)
        except Exception as error:
            self._faulted(job, error)

    def _require_source(self, order: ConvertJob, job: Context) -> None:
        if self._storage.size(order.source) is None:
            file = file_of(self._app.db, job.id)
            if file is not None and file.source_gone_at is not None:
                raise Fail("EXPIRED")
            raise StorageError("the PDF is missing")  # retention never deletes the file of an unfinished job

    def _publish(self, order: ConvertJob, job: Context, draft: Draft) -> None:
        pending = {"sha256": draft.sha256, "bytes": draft.size}
        job.save_now(pending=pending)
        try:
            self._storage.put(draft, order.result)
        except KeyTaken:
            # An attempt without its lease was late, and the current holder decides. Check once more to be sure.
            job.save_now(pending=pending)
            self._storage.put(draft, order.result, replace=True)

    def _hold(self, error: StorageFull | StorageAway) -> NoReturn:
        """Pause the queue while the storage is full or unavailable. Jobs keep their attempts."""
        full = isinstance(error, StorageFull)
        _log.error("%s error=%s", "storage_full" if full else "storage_away", error)
        if not self._app.db.all("queue_paused", name=QUEUE):
            self._app.queue.pause(QUEUE, f"{_DISK_FULL:g}s", by="full disk" if full else "storage away")
        raise Again(_DISK_FULL, keep_attempt=True, code="IO_ERROR") from error

    def _faulted(self, job: Context, error: Exception) -> NoReturn:
        fault = classify(error, PACK)
        if fault is None or (shown(fault.code) == UNKNOWN and fault.code != REFUSED.name):
            # It says nothing about the gateway, so it does not count against it.
            _log.error("conversion_broke job=%s attempt=%s", job.id, job.attempt, exc_info=error)
            error = Unforeseen(f"{type(error).__name__}: {error}")
            fault = PACK.code_book[UNKNOWN].fault("unforeseen")
        if fault.retriable and job.attempt < self._app.settings.attempts and _once_more(job, fault):
            raise error
        code = "GW_4XX" if fault.code == REFUSED.name else fault.code
        about = (job.id, job.attempt, code, fault.status, fault.detail)
        _log.log(fault.level.number, "conversion_failed job=%s attempt=%s code=%s status=%s error=%s", *about)
        raise Fail(code, _line(code, job.attempt, error), status=fault.status or None, fault=fault) from error


def _once_more(job: Context, fault: Fault) -> bool:
    """Return whether to retry. A failure that is retried only once is retried at its first occurrence in a round."""
    met = ONCE_MORE & {fault.code, fault.rule}
    # A retry by a user begins a new round, but saved data stays.
    before = job.saved.get("met", []) if job.attempt > 1 else []
    if met & set(before):
        return False
    if met or before != job.saved.get("met", []):
        job.save_now(met=sorted({*before, *met}))
    return True


def _line(code: str, attempts: int, error: Exception) -> str:
    more = more_of(error) if isinstance(error, httpx2.HTTPStatusError) and code == "GW_4XX" else ""
    return f"{gave_up(code, attempts)} {more}".rstrip()
