"""Reads a multipart form with one file: fields in memory, the file in chunks to a sink, within limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

if TYPE_CHECKING:
    from starlette.requests import Request

_FLUSH_BYTES = 256 * 1024  # of the file in memory


class FormErrorKind(StrEnum):
    """Why a form is refused."""

    MEDIA_TYPE = "media_type"  # not multipart/form-data
    NO_BOUNDARY = "no_boundary"
    MALFORMED = "malformed"
    INCOMPLETE = "incomplete"
    TOO_MANY_PARTS = "too_many_parts"
    TOO_LONG = "too_long"  # everything except the file
    FIELD_TOO_LONG = "field_too_long"
    DUPLICATE = "duplicate"
    TOO_SLOW = "too_slow"


class FormError(ValueError):
    """A form that cannot be read. *field* is the field at fault, if it is one."""

    def __init__(self, kind: FormErrorKind, field: str = "") -> None:
        super().__init__(f"{kind}: {field}" if field else kind)
        self.kind, self.field = kind, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FormLimits:
    """Limits of a form. *overhead_bytes* is everything except the file. The sink limits the file."""

    parts: int
    overhead_bytes: int
    field_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPart:
    """The head of a part. *filename* is None if it has none."""

    name: str
    filename: bytes | None
    content_type: bytes


class FileSink(Protocol):
    """What a form's file is written to. Both methods may raise, which ends the reading."""

    def begin(self, part: FormPart) -> bool:
        """Return whether this part is the file."""

    def add(self, data: bytes) -> None:
        """Write a chunk of the file. Runs in a thread. The first chunk comes as soon as it has arrived."""


def parse_boundary(request: Request) -> bytes:
    """Return the boundary that the Content-Type names. Raises FormError."""
    media_type, options = parse_options_header(request.headers.get("content-type", ""))
    if media_type.lower() != b"multipart/form-data":
        raise FormError(FormErrorKind.MEDIA_TYPE)
    if not options.get(b"boundary"):
        raise FormError(FormErrorKind.NO_BOUNDARY)
    return options[b"boundary"]


async def read_form(request: Request, limits: FormLimits, sink: FileSink) -> dict[str, str]:
    """Read the whole form and return its fields. Raises FormError, ClientDisconnect, and what *sink* raises."""
    form = _Form(parse_boundary(request), limits, sink)
    received = written = 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                form.feed(chunk)
                received += len(chunk)
                if received - written - len(form.file) > limits.overhead_bytes:
                    raise FormError(FormErrorKind.TOO_LONG)
                if len(form.file) >= (_FLUSH_BYTES if written else 1):
                    data, form.file = bytes(form.file), bytearray()
                    written += len(data)
                    await asyncio.to_thread(sink.add, data)
            if form.file:
                await asyncio.to_thread(sink.add, bytes(form.file))
            if not form.complete:
                raise FormError(FormErrorKind.INCOMPLETE)
    except TimeoutError:
        raise FormError(FormErrorKind.TOO_SLOW) from None
    return {name: bytes(value).decode("utf-8", "replace") for name, value in form.fields.items()}


class _Form:
    """Collects the parts of a form. *file* is what has not been written yet."""

    def __init__(self, boundary: bytes, limits: FormLimits, sink: FileSink) -> None:
        self._limits, self._sink = limits, sink
        self.file = bytearray()
        self.fields: dict[str, bytearray] = {}
        self.complete = False
        self._field: bytearray | None = None  # None: the current part is the file
        self._name = ""
        self._part_count = 0
        self._header, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_part_data": self._on_part_data,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_end": self._on_end,
                },
            )
        except FormParserError as error:  # the boundary is too long
            raise FormError(FormErrorKind.MALFORMED) from error

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise FormError(FormErrorKind.MALFORMED) from error

    def _on_part_begin(self) -> None:
        self._part_count += 1
        if self._part_count > self._limits.parts:
            raise FormError(FormErrorKind.TOO_MANY_PARTS)
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        content_type, _ = parse_options_header(self._headers.get(b"content-type", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        part = FormPart(name=self._name, filename=options.get(b"filename"), content_type=content_type.lower())
        if self._sink.begin(part):
            self._field = None
            return
        if self._name in self.fields:
            raise FormError(FormErrorKind.DUPLICATE, self._name)
        self._field = self.fields[self._name] = bytearray()

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self.file += data[start:end]
            return
        self._field += data[start:end]
        if len(self._field) > self._limits.field_bytes:
            raise FormError(FormErrorKind.FIELD_TOO_LONG, self._name)

    def _on_end(self) -> None:
        self.complete = True
