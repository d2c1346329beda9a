"""Limits of the gateway, and the table of its refusals, which are sent as problem+json with a code."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

# -- limits ------------------------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    from starlette.responses import Response

MIB = 1024 * 1024


def _cores() -> int:
    return max(2, os.cpu_count() or 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Limits of a gateway; times are seconds.

    *time* is wall-clock time and ends a conversion on an overloaded machine. *cpu* and *memory_mb* end a conversion
    whose document needs too much. The result of a job_id is cached for *kept_for*, while there is space.
    """

    pdf_bytes: int = 50 * MIB
    xml_bytes: int = 512 * MIB
    body_time: float = 120.0  # for the whole request body
    uploads: int = 64  # concurrent requests whose body is arriving
    conversions: int = field(default_factory=_cores)  # concurrent; each in its own child process
    waiting: int = 64  # requests that wait for a free conversion slot
    memory_mb: int = 1024
    cpu: float = 60.0
    time: float = 150.0
    kept: int = 256
    kept_bytes: int = 512 * MIB
    kept_for: float = 900.0
    folder: Path | None = None  # parent of the working folder; None: the system's temporary folder

    @classmethod
    def for_one_who_waits(cls, seconds: float, pdf_bytes: int) -> Self:
        """Return limits for a caller with this timeout. A conversion ends earlier, so the caller gets the reason."""
        usual = cls(pdf_bytes=pdf_bytes)
        return replace(usual, cpu=max(usual.cpu, seconds / 3), time=max(usual.time, seconds * 5 / 6))

    def __post_init__(self) -> None:
        for name in ("pdf_bytes", "xml_bytes", "uploads", "conversions", "memory_mb"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed; give 1 or more")
        for name in ("body_time", "cpu", "time"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed; give more than 0 seconds")
        for name in ("waiting", "kept", "kept_bytes", "kept_for"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is not allowed; give 0 or more")


MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class RefusalRow:
    status: int
    title: str
    retry_after: int | None = None  # seconds


# 4xx: the same request will be refused again. 5xx: a retry may succeed.
ROWS: dict[str, RefusalRow] = {
    "malformed": RefusalRow(400, "The request is not as it should be."),
    "unknown_mapping": RefusalRow(400, "There is no such mapping."),
    "not_pdf": RefusalRow(400, "The file is no PDF."),
    "not_there": RefusalRow(404, "There is nothing here."),
    "method": RefusalRow(405, "This method is not for this address."),
    "not_acceptable": RefusalRow(406, "The answer is XML, and the request does not accept that."),
    "too_slow": RefusalRow(408, "The request took too long to arrive."),
    "too_large": RefusalRow(413, "The file is too large."),
    "media_type": RefusalRow(415, "The file must come as application/pdf in multipart/form-data."),
    "encrypted": RefusalRow(422, "The document is locked with a password."),
    "broken": RefusalRow(422, "The document is damaged."),
    "no_pages": RefusalRow(422, "The document has no pages."),
    "too_hard": RefusalRow(422, "The document takes too long to read."),
    "too_much_memory": RefusalRow(422, "The document takes too much memory to read."),
    "crashed": RefusalRow(422, "The document cannot be read: reading it crashed twice."),
    "result_too_large": RefusalRow(422, "The result would be too large."),
    "job_id_reused": RefusalRow(422, "This job_id was used for another request."),
    "internal": RefusalRow(500, "Something went wrong in the gateway."),
    "busy": RefusalRow(503, "The gateway has too much to do.", 5),
    "stopping": RefusalRow(503, "The gateway is stopping.", 5),
    "no_child": RefusalRow(503, "The gateway cannot start a process for the document.", 15),
    "took_too_long": RefusalRow(504, "The conversion was not done in time."),
    "no_space": RefusalRow(507, "The gateway has no space left.", 60),
}


class GatewayRefusal(Exception):
    """A request that gets no XML; *detail* is a sentence that adds to the code."""

    def __init__(self, code: str, detail: str = "", **more: int) -> None:
        super().__init__(code, detail)
        self.code, self.detail, self.more = code, detail, more
        self.row = ROWS[code]

    @property
    def lasting(self) -> bool:
        """Return whether the same request would be refused again."""
        return self.row.status < 500


def answer(refused: GatewayRefusal) -> Response:
    from starlette.responses import Response

    row = refused.row
    document = {
        "type": "about:blank",
        "title": row.title,
        "status": row.status,
        "detail": refused.detail or row.title,
        "code": refused.code,
        "retriable": not refused.lasting,
        **refused.more,
    }
    headers = {} if row.retry_after is None else {"Retry-After": str(row.retry_after)}
    return Response(json.dumps(document, ensure_ascii=False), row.status, headers, MEDIA_TYPE)
