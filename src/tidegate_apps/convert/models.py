"""An upload and its job, as stored and as shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidegate.apps import Db
from tidegate.jobs import JobEvent
from tidegate_apps.convert.codes import LINES, gave_up, shown

NEWEST = 2**62
PUBLIC_ID = re.compile(r"[0-9a-f]{32}")
STATUSES = ("queued", "processing", "complete", "failed")
_STATUS = {"running": "processing", "done": "complete", "failed": "failed"}
# Events of the queue, by their names here. Others, such as a pause, are not transitions.
_EVENTS = {
    "queued": "queued",
    "processing": "processing",
    "again": "retry",
    "trial": "retry",
    "given_back": "queued",
    "done": "complete",
    "failed": "failed",
    "refused": "failed",
    "retried": "queued",
    "lost": "retry",
}


class UploadPause(NamedTuple):
    """Uploads are paused."""

    until: float
    since: float
    actor: str


@dataclass(frozen=True, slots=True)
class File:
    """One upload with its job. The fields are the columns."""

    job: int
    public_id: str  # the id for its owner and in URLs
    owner: str
    name: str
    mapping: str
    bytes: int
    sha256: str
    source: str | None
    source_gone_at: float | None
    result_gone_at: float | None
    created_at: float
    downloads: int
    state: str
    attempt: int
    most_attempts: int
    manual_retries: int
    due_at: float
    claimed_at: float | None
    finished_at: float | None
    last_at: float | None
    last_code: str | None
    last_status: int | None
    error_code: str | None
    error_message: str | None
    result: str | None  # JSON
    began_at: float | None

    @property
    def status(self) -> str:
        return _STATUS.get(self.state, "queued")

    @property
    def expired(self) -> bool:
        """Return whether the job was complete and its XML has been deleted."""
        return self.status == "complete" and self.result_gone_at is not None

    @property
    def active(self) -> bool:
        return self.status in ("queued", "processing")

    @property
    def retriable(self) -> bool:
        """Return whether a user may retry it."""
        return self.status == "failed" and self.source is not None and self.source_gone_at is None

    @property
    def retrying(self) -> bool:
        """Return whether an attempt failed and another is due."""
        return self.status == "queued" and self.attempt > 0 and self.last_code is not None

    @property
    def made(self) -> dict[str, Any]:
        """Return the result of the job: key, size and hash of the XML."""
        made: dict[str, Any] = json.loads(self.result) if self.result else {}
        return made

    @property
    def code(self) -> str | None:
        """Return one of the ten codes; None if it has not failed."""
        return shown(self.error_code)

    @property
    def line(self) -> str:
        """Return the short text for users; may be empty."""
        if self.expired:
            return LINES["EXPIRED"]
        if self.code is not None:
            # The message includes what the gateway added. A code of the queue has another text.
            has_detail = self.code == self.error_code and self.code == "GW_4XX" and self.error_message
            return has_detail or gave_up(self.code, self.attempt)
        if self.retrying:
            return LINES[shown(self.last_code) or "UNKNOWN"]
        return ""

    @property
    def xml_name(self) -> str:
        stem = self.name[:-4] if self.name.lower().endswith(".pdf") else self.name
        return f"{stem or 'document'}.xml"

    def as_json(self, base: str = "") -> dict[str, Any]:
        here = f"{base}/api/jobs/{self.public_id}"
        ended = self.finished_at
        return {
            "id": self.public_id,
            "status": self.status,
            "expired": self.expired,
            "message": self.line,
            "original_filename": self.name,
            "mapping": self.mapping,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "created_at": self.created_at,
            "started_at": self.began_at or self.claimed_at,
            "completed_at": ended if self.status == "complete" else None,
            "failed_at": ended if self.status == "failed" else None,
            "attempt_count": self.attempt,
            "max_attempts": self.most_attempts,
            "manual_retry_count": self.manual_retries,
            "last_attempt_at": self.claimed_at or self.last_at,
            "retry_at": self.due_at if self.retrying else None,
            "error_code": self.code,
            "error_message": self.line if self.code is not None else None,
            "last_fault_code": shown(self.last_code),
            "last_fault_status": self.last_status,
            "result_bytes": self.made.get("bytes"),
            "result_sha256": self.made.get("sha256"),
            "download_count": self.downloads,
            "links": {
                "self": here,
                "download": f"{here}/download" if self.status == "complete" and not self.expired else None,
                "retry": f"{here}/retry" if self.retriable else None,
            },
        }


def file_of(db: Db, job: int) -> File | None:
    return db.first(File, "file", job=job) if 0 < job < NEWEST else None


def job_of(db: Db, public_id: str) -> int | None:
    """Return the job id of a public id."""
    return db.scalar_or_none(int, "job_of", public_id=public_id) if PUBLIC_ID.fullmatch(public_id) else None


def files_of(
    db: Db, owner: str, *, since: float = 0.0, status: str = "", below: int = NEWEST, limit: int = 50
) -> list[File]:
    """Return the files of an owner, newest first."""
    return db.query_as(File, "files_of", owner=owner, since=since, status=status, below=below, n=limit)


def active_of(db: Db, owner: str) -> int:
    """Return the number of unfinished jobs of an owner."""
    return db.scalar(int, "active_of", owner=owner)


def events_json(events: Iterable[JobEvent], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the transitions of a job, oldest first, each with its attempt and the outcome of that attempt."""
    transitions = []
    known = [event for event in events if event.kind in _EVENTS]
    for before, event, after in zip([None, *known], known, [*known[1:], None], strict=False):
        if event.kind == "lost" and after is not None and after.kind == "failed":
            continue  # it was the last attempt, so there is no retry
        name = _EVENTS[event.kind]
        status = result.get("gateway_http_status") if name == "complete" else event.status
        lasted = event.duration
        if lasted is None and event.kind == "failed" and before is not None and before.kind == "lost":
            lasted = before.duration
        ms = None if lasted is None else round(lasted * 1000)
        meta = {
            "attempt": event.attempt,
            "gateway_http_status": status,
            "duration_ms": ms,
            "error_code": shown(event.code),
        }
        transitions.append({"event": name, "at": event.at, "meta": meta})
    return transitions
