"""Receives a request: fields in memory, the file straight to disk, limits checked as data arrives."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING

from tidegate.web import FormError, FormErrorKind, FormLimits, FormPart, parse_boundary, read_form
from tidegate_apps.convert.gateway.config import GatewayLimits, GatewayRefusal

if TYPE_CHECKING:
    from starlette.requests import Request

MAGIC = b"%PDF-"
_TYPES = frozenset({b"application/pdf", b"application/x-pdf", b"application/octet-stream", b""})
_FIELDS = 16 * 1024  # bytes of everything except the file: fields and part headers
_PARTS = 16
_JOB_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_PRETTY = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionUpload:
    """A valid request. Its file is at *path*, and the owner of this value deletes it."""

    path: Path
    size: int
    sha256: str
    mapping: str
    pretty: bool
    job_id: str

    @property
    def fingerprint(self) -> tuple[str, str, bool]:
        """Return everything that determines the result."""
        return self.sha256, self.mapping, self.pretty


async def receive_upload(
    request: Request, folder: Path, limits: GatewayLimits, mappings: tuple[str, ...]
) -> ConversionUpload:
    """Read and validate a request. Raises GatewayRefusal, and then leaves no file."""
    form_limits = FormLimits(parts=_PARTS, overhead_bytes=_FIELDS, field_bytes=_FIELDS, seconds=limits.body_time)
    try:
        parse_boundary(request)
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > limits.pdf_bytes + _FIELDS:
            raise _too_large(limits)
        with _upload(folder) as file:
            sink = _PdfSink(file, limits)
            fields = await read_form(request, form_limits, sink)
            return sink.upload(fields, mappings)
    except FormError as error:
        raise _refusal(error) from error


_REFUSALS = {
    FormErrorKind.MEDIA_TYPE: ("media_type", "The request must be multipart/form-data."),
    FormErrorKind.NO_BOUNDARY: ("malformed", "The Content-Type names no boundary."),
    FormErrorKind.MALFORMED: ("malformed", "The body is no multipart/form-data."),
    FormErrorKind.INCOMPLETE: ("malformed", "The body ends before the form does."),
    FormErrorKind.TOO_MANY_PARTS: ("malformed", f"The form has too many parts; send at most {_PARTS}."),
    FormErrorKind.TOO_LONG: ("malformed", "The fields of the form are too long."),
    FormErrorKind.FIELD_TOO_LONG: ("malformed", "The fields of the form are too long."),
    FormErrorKind.TOO_SLOW: ("too_slow", ""),
}


def _refusal(error: FormError) -> GatewayRefusal:
    if error.kind is FormErrorKind.DUPLICATE:
        return GatewayRefusal("malformed", f"{error.field[:64]}: it comes twice; send it once.")
    return GatewayRefusal(*_REFUSALS[error.kind])


class _PdfSink:
    """Checks the file of a request and writes it."""

    def __init__(self, file: IO[bytes], limits: GatewayLimits) -> None:
        self._file, self._limits = file, limits
        self._size, self._hash, self._start = 0, hashlib.sha256(), b""
        self._has_file = False

    def begin(self, part: FormPart) -> bool:
        if part.name != "file":
            return False
        if self._has_file:
            raise FormError(FormErrorKind.DUPLICATE, part.name)
        self._has_file = True
        if part.content_type not in _TYPES:
            raise GatewayRefusal("media_type", "file: it is sent as another type; send it as application/pdf.")
        return True

    def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limits.pdf_bytes:
            raise _too_large(self._limits)
        if len(self._start) < len(MAGIC):
            self._start += data[: len(MAGIC) - len(self._start)]
            if not MAGIC.startswith(self._start):
                raise GatewayRefusal("not_pdf")
        self._hash.update(data)
        with _no_space():
            self._file.write(data)
            self._file.flush()

    def upload(self, fields: dict[str, str], mappings: tuple[str, ...]) -> ConversionUpload:
        """Return the validated request."""
        if not self._has_file:
            raise GatewayRefusal("malformed", "file: it is missing; send the PDF in a part of that name.")
        if self._start != MAGIC:
            raise GatewayRefusal("not_pdf")
        mapping, pretty, job_id = (fields.get(name, "").strip() for name in ("mapping", "pretty", "job_id"))
        if mapping not in mappings:
            said = f"{mapping[:64]!r} is not known" if mapping else "it is missing"
            raise GatewayRefusal("unknown_mapping", f"mapping: {said}; give one of {', '.join(mappings)}.")
        if pretty.lower() not in _PRETTY:
            raise GatewayRefusal("malformed", f"pretty: {pretty[:64]!r} is not allowed; give 1 or 0.")
        if job_id and not _JOB_ID.fullmatch(job_id):
            raise GatewayRefusal("malformed", "job_id: it is not allowed; give 1 to 128 letters, digits and . _ : -")
        return ConversionUpload(
            path=Path(self._file.name),
            size=self._size,
            sha256=self._hash.hexdigest(),
            mapping=mapping,
            pretty=_PRETTY[pretty.lower()],
            job_id=job_id,
        )


def _too_large(limits: GatewayLimits) -> GatewayRefusal:
    return GatewayRefusal(
        "too_large", f"The file is larger than {limits.pdf_bytes:,} bytes.", most_bytes=limits.pdf_bytes
    )


@contextmanager
def _upload(folder: Path) -> Iterator[IO[bytes]]:
    """Yield a new file, which is deleted on failure."""
    with _no_space(), NamedTemporaryFile(dir=folder, prefix="upload-", suffix=".pdf", delete=False) as file:
        try:
            yield file
        except BaseException:
            Path(file.name).unlink()
            raise


@contextmanager
def _no_space() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GatewayRefusal("no_space") from error
        raise
