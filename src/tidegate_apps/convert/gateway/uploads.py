"""Receives a request: fields in memory, the file straight to disk, limits checked as data arrives."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from tidegate_apps.convert.gateway.config import GatewayLimits, GatewayRefusal

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks
    from starlette.requests import Request

MAGIC = b"%PDF-"
_TYPES = frozenset({b"application/pdf", b"application/x-pdf", b"application/octet-stream", b""})
_FIELDS = 16 * 1024  # bytes of everything except the file: fields and part headers
_PARTS = 16
_FLUSH = 256 * 1024
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
    boundary = _boundary(request)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limits.pdf_bytes + _FIELDS:
        raise _too_large(limits)
    form = _ConversionForm(limits, mappings)
    try:
        parser = MultipartParser(boundary, form.callbacks())
    except FormParserError as error:
        raise GatewayRefusal("malformed", "The boundary in the Content-Type is too long.") from error
    with _upload(folder) as file:
        try:
            async with asyncio.timeout(limits.body_time):
                async for chunk in request.stream():
                    form.take(parser, chunk)
                    if len(form.data) >= _FLUSH:
                        await form.flush(file)
                await form.flush(file)
        except TimeoutError:
            raise GatewayRefusal("too_slow") from None
        return form.result(Path(file.name))


class _ConversionForm:
    """Collects the parts of a form. The file waits in *data* until it is written."""

    def __init__(self, limits: GatewayLimits, mappings: tuple[str, ...]) -> None:
        self._limits, self._mappings = limits, mappings
        self.data = bytearray()
        self._fields: dict[str, bytearray] = {}
        self._size, self._hash, self._start = 0, hashlib.sha256(), b""
        self._parts = self._other = 0
        self._header, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._name: str | None = None
        self._has_file = self._whole = False

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_part_data": self._data,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_end": self._end,
        }

    def take(self, parser: MultipartParser, chunk: bytes) -> None:
        try:
            parser.write(chunk)
        except FormParserError as error:
            raise GatewayRefusal("malformed", "The body is no multipart/form-data.") from error

    async def flush(self, file: IO[bytes]) -> None:
        if self.data:
            data, self.data = self.data, bytearray()
            await asyncio.to_thread(self._write, file, data)

    def result(self, path: Path) -> ConversionUpload:
        """Return the validated request."""
        if not self._whole:
            raise GatewayRefusal("malformed", "The body ends before the form does.")
        fields = {name: bytes(value).decode("utf-8", "replace").strip() for name, value in self._fields.items()}
        if not self._has_file:
            raise GatewayRefusal("malformed", "file: it is missing; send the PDF in a part of that name.")
        if not self._start.startswith(MAGIC):
            raise GatewayRefusal("not_pdf")
        mapping, pretty, job_id = fields.get("mapping", ""), fields.get("pretty", ""), fields.get("job_id", "")
        if mapping not in self._mappings:
            said = f"{mapping[:64]!r} is not known" if mapping else "it is missing"
            raise GatewayRefusal("unknown_mapping", f"mapping: {said}; give one of {', '.join(self._mappings)}.")
        if pretty.lower() not in _PRETTY:
            raise GatewayRefusal("malformed", f"pretty: {pretty[:64]!r} is not allowed; give 1 or 0.")
        if job_id and not _JOB_ID.fullmatch(job_id):
            raise GatewayRefusal("malformed", "job_id: it is not allowed; give 1 to 128 letters, digits and . _ : -")
        return ConversionUpload(
            path=path,
            size=self._size,
            sha256=self._hash.hexdigest(),
            mapping=mapping,
            pretty=_PRETTY[pretty.lower()],
            job_id=job_id,
        )

    def _write(self, file: IO[bytes], data: bytearray) -> None:
        self._hash.update(data)
        with _no_space():
            file.write(data)
            file.flush()

    # -- callbacks of the parser ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _PARTS:
            raise GatewayRefusal("malformed", f"The form has too many parts; send at most {_PARTS}.")
        self._headers, self._name = {}, None

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._spend(end - start)
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._spend(end - start)
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        if self._name in self._fields or (self._name == "file" and self._has_file):
            raise GatewayRefusal("malformed", f"{self._name[:64]}: it comes twice; send it once.")
        if self._name != "file":
            self._fields[self._name] = bytearray()
            return
        self._has_file = True
        kind, _ = parse_options_header(self._headers.get(b"content-type"))
        if kind.lower() not in _TYPES:
            raise GatewayRefusal("media_type", "file: it is sent as another type; send it as application/pdf.")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name != "file":
            self._spend(end - start)
            self._fields[self._name or ""] += data[start:end]
            return
        self._size += end - start
        if self._size > self._limits.pdf_bytes:
            raise _too_large(self._limits)
        if len(self._start) < len(MAGIC):
            self._start += data[start : min(end, start + len(MAGIC))]
            if not MAGIC.startswith(self._start[: len(MAGIC)]):
                raise GatewayRefusal("not_pdf")
        self.data += data[start:end]

    def _end(self) -> None:
        self._whole = True

    def _spend(self, size: int) -> None:
        self._other += size
        if self._other > _FIELDS:
            raise GatewayRefusal("malformed", "The fields of the form are too long.")


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind.lower() != b"multipart/form-data":
        raise GatewayRefusal("media_type", "The request must be multipart/form-data.")
    if not options.get(b"boundary"):
        raise GatewayRefusal("malformed", "The Content-Type names no boundary.")
    return options[b"boundary"]


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
