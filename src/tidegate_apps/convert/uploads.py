"""Receives an upload: reads, counts, hashes and checks it in chunks, never as a whole."""

from __future__ import annotations

import asyncio

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from tidegate.web import Problem
from tidegate_apps.convert import codes
from tidegate_apps.convert.codes import problem_without_code
from tidegate_apps.convert.storage import PIECE, Draft

MAGIC = b"%PDF-"
_OVERHEAD = 64 * 1024  # bytes of a form in addition to the file
_MAX_FIELD = 1024
_MAX_PARTS = 20
_MAX_NAME = 200
_HEADERS = 8192


class UploadReceiver:
    """A form with the part `file` and other fields."""

    def __init__(self, draft: Draft, limit: int) -> None:
        self._draft, self._limit = draft, limit
        self._head = b""
        self.fields: dict[str, str] = {}
        self.name: str | None = None  # of the file; None if there is none
        self.bytes = 0

    @property
    def is_pdf(self) -> bool:
        return self._head == MAGIC

    def begun(self, name: str) -> None:
        if self.name is not None:
            raise problem_without_code("invalid", "file: give one file at a time.")
        self.name = name

    def add(self, data: bytes) -> None:
        """Add a chunk of the file."""
        if len(self._head) < len(MAGIC):
            self._head += data[: len(MAGIC) - len(self._head)]
        self.bytes += len(data)
        if self.bytes > self._limit:
            raise too_large(self._limit)
        self._draft.add(data)


def too_large(limit: int) -> Problem:
    # The rest of the body is not read, so the connection cannot be reused.
    return Problem("TOO_LARGE", codes.too_large(limit), status=413, headers={"Connection": "close"}, most_bytes=limit)


def check_length(request: Request, limit: int) -> None:
    """Reject a request whose Content-Length is too large."""
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > limit + _OVERHEAD:
        raise too_large(limit)


def boundary_of(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        raise problem_without_code("media_type", "Send the file as multipart/form-data, in the field file.")
    return boundary


async def receive(request: Request, found: UploadReceiver, within: float) -> None:
    """Read the whole form. Raises Problem if it is too large, malformed, too slow or interrupted."""
    try:
        form = _UploadForm(boundary_of(request), found)
    except FormParserError as error:  # the boundary is too long
        raise _malformed() from error
    taken = 0
    try:
        async with asyncio.timeout(within):
            async for chunk in request.stream():
                form.feed(chunk)
                taken += len(chunk)
                if taken - found.bytes - form.waiting > _OVERHEAD:
                    raise _malformed()
                if form.waiting >= PIECE:
                    await run_in_threadpool(form.store)
            await run_in_threadpool(form.end)
    except TimeoutError as error:
        headers = {"Connection": "close"}
        raise problem_without_code("malformed", "The upload took too long.", status=408, headers=headers) from error
    except ClientDisconnect as error:  # the client is gone, and this is not an error of ours
        raise problem_without_code("malformed", "The upload broke off.") from error


class _UploadForm:
    """Collects the parts of a form. File data waits here until a thread writes it."""

    def __init__(self, boundary: bytes, found: UploadReceiver) -> None:
        self._found = found
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begin,
                "on_part_data": self._part_data,
                "on_part_end": self._part_end,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_finished,
                "on_end": self._on_end,
            },
        )
        self._pieces: list[bytes] = []
        self.waiting = 0
        self._parts = 0
        self._complete = False
        self._headers: dict[bytes, bytes] = {}
        self._field, self._value = b"", b""
        self._name = ""
        self._is_file = False
        self._text = b""

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except Problem:
            raise
        except Exception as error:  # the parser raises its own errors
            raise _malformed() from error

    def store(self) -> None:
        pieces, self._pieces, self.waiting = self._pieces, [], 0
        self._found.add(b"".join(pieces))

    def end(self) -> None:
        if not self._complete:
            raise _malformed()
        if self.waiting:
            self.store()

    # -- callbacks of the parser ---------------------------------------------------------------------------------------

    def _part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise problem_without_code("invalid", f"At most {_MAX_PARTS} fields are read.")
        self._headers, self._text = {}, b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]
        self._bounded(self._field)

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._bounded(self._value)

    def _header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field, self._value = b"", b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._is_file = b"filename" in options
        if self._is_file:
            if self._name != "file":
                raise problem_without_code("invalid", "file: the file must be in the field file.")
            self._found.begun(name_of(options[b"filename"]))

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._pieces.append(data[start:end])
            self.waiting += end - start
        else:
            self._text += data[start:end]
            if len(self._text) > _MAX_FIELD:
                raise problem_without_code("invalid", f"{self._name[:40]}: it is too long.")

    def _part_end(self) -> None:
        if not self._is_file:
            if self._name in self._found.fields:
                raise problem_without_code("invalid", f"{self._name[:40]}: give it once.")
            self._found.fields[self._name] = self._text.decode("utf-8", "replace")

    def _on_end(self) -> None:
        self._complete = True

    def _bounded(self, text: bytes) -> None:
        if len(text) > _HEADERS:
            raise _malformed()


def name_of(given: bytes) -> str:
    """Return the file name for display: no folders, no unprintable characters."""
    text = given.decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
    clean = "".join(char for char in text if char.isprintable()).strip()
    return clean[:_MAX_NAME] or "document.pdf"


def _malformed() -> Problem:
    return problem_without_code("malformed", "The form cannot be read.")
