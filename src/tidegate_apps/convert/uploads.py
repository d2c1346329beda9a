"""Receives an upload: reads, counts, hashes and checks it in chunks, never as a whole."""

from __future__ import annotations

from starlette.requests import ClientDisconnect, Request

from tidegate.web import FormError, FormErrorKind, FormLimits, FormPart, Problem, parse_boundary, read_form
from tidegate_apps.convert import codes
from tidegate_apps.convert.codes import problem_without_code
from tidegate_apps.convert.storage import Draft

MAGIC = b"%PDF-"
_OVERHEAD = 64 * 1024  # bytes of a form in addition to the file
_MAX_FIELD = 1024
_MAX_PARTS = 20
_MAX_NAME = 200


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

    def begin(self, part: FormPart) -> bool:
        """Return whether this part is the file."""
        if part.filename is None:
            return False
        if part.name != "file":
            raise problem_without_code("invalid", "file: the file must be in the field file.")
        self.begun(name_of(part.filename))
        return True

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


def check_media_type(request: Request) -> None:
    """Reject a request that is not a form."""
    try:
        parse_boundary(request)
    except FormError as error:
        raise _problem(error) from error


async def receive(request: Request, found: UploadReceiver, within: float) -> None:
    """Read the whole form. Raises Problem if it is too large, malformed, too slow or interrupted."""
    limits = FormLimits(parts=_MAX_PARTS, overhead_bytes=_OVERHEAD, field_bytes=_MAX_FIELD, seconds=within)
    try:
        found.fields |= await read_form(request, limits, found)
    except FormError as error:
        raise _problem(error) from error
    except ClientDisconnect as error:  # the client is gone, and this is not an error of ours
        raise problem_without_code("malformed", "The upload broke off.") from error


def _problem(error: FormError) -> Problem:
    match error.kind:
        case FormErrorKind.MEDIA_TYPE | FormErrorKind.NO_BOUNDARY:
            return problem_without_code("media_type", "Send the file as multipart/form-data, in the field file.")
        case FormErrorKind.TOO_MANY_PARTS:
            return problem_without_code("invalid", f"At most {_MAX_PARTS} fields are read.")
        case FormErrorKind.FIELD_TOO_LONG:
            return problem_without_code("invalid", f"{error.field[:40]}: it is too long.")
        case FormErrorKind.DUPLICATE:
            return problem_without_code("invalid", f"{error.field[:40]}: give it once.")
        case FormErrorKind.TOO_SLOW:
            headers = {"Connection": "close"}
            return problem_without_code("malformed", "The upload took too long.", status=408, headers=headers)
        case _:
            return problem_without_code("malformed", "The form cannot be read.")


def name_of(given: bytes) -> str:
    """Return the file name for display: no folders, no unprintable characters."""
    text = given.decode("utf-8", "replace").replace("\\", "/").rpartition("/")[2]
    clean = "".join(char for char in text if char.isprintable()).strip()
    return clean[:_MAX_NAME] or "document.pdf"
