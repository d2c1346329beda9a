"""Evidence from a response or an exception of any HTTP library, without importing one and without raising."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.faults import heuristics, introspection
from tidegate.faults.attribution import has_readable_text
from tidegate.faults.exceptions import INCIDENTAL, OURS, STRENGTH, VAGUE, ExceptionKind, kind_of
from tidegate.faults.introspection import MAX_TEXT, fields_of, is_a, message_of, read, status_in_field

if TYPE_CHECKING:
    from urllib.parse import SplitResult

MAX_BODY = MAX_TEXT
_MAX_HEADER = 1024
_MAX_HEADERS = 256
_MAX_URL = 2048

# The attributes of a body that is already read. Other attributes could read from the network.
_BODY_OF = {"requests": ("_content",), "aiohttp": ("_body",), "urllib3": ("_body",), "http": (), "urllib": ()}
_BODY = ("content", "body", "text")


class Evidence:
    """One response, one exception, or both. Everything is read lazily, with size limits.

    *error* is the most specific exception, *outer* the one that was caught, if they differ.
    """

    __slots__ = ("_body", "_json", "_text", "_url", "error", "kind", "outer", "response", "status")

    def __init__(
        self,
        error: BaseException | None = None,
        response: object = None,
        kind: ExceptionKind | None = None,
        status: int = 0,
        body: bytes | None = None,
        url: str = "",
        outer: BaseException | None = None,
    ) -> None:
        self.error = error
        self.outer = outer
        self.response = response
        self.kind = kind
        self.status = status
        self._body = body
        self._url = url
        self._json: object = _UNREAD
        self._text: str | None = None

    def header(self, name: str) -> str | None:
        """Returns the value of a header, ignoring case, or None."""
        lowered = name.lower()
        value = _header(read(self.response, "headers"), lowered)
        return value if value is not None or self.error is None else _header(read(self.error, "headers"), lowered)

    def headers(self, *names: str) -> list[str | None]:
        """Returns the values of several headers. The names are in lower case."""
        headers = read(self.response, "headers")
        if headers is None:
            headers = read(self.error, "headers")
        return [None if headers is None else _header(headers, name) for name in names]

    @property
    def body(self) -> bytes:
        """The first 4 kB of the body if it is in memory, else the message of the exception."""
        if self._body is None:
            self._body = _body(self.response) or _body_of_error(self.error) or self.text.encode("utf-8", "replace")
        return self._body[:MAX_BODY]

    @property
    def text(self) -> str:
        """The message of the exception, up to 4 kB. Empty if its `str` raises."""
        if self._text is None:
            self._text = message_of(self.error)
        return self._text

    @property
    def json(self) -> object:
        """The body as JSON, or None if it is not JSON."""
        if self._json is _UNREAD:
            self._json = self._parsed()
        return self._json

    def _parsed(self) -> object:
        if self._body is None and not _body(self.response):
            # Some clients store the parsed body on the exception.
            body = read(self.error, "body")
            if is_a(body, dict) or is_a(body, list):
                return body
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def html(self) -> bool:
        """Whether this is a web page instead of data."""
        if "text/html" in (self.header("content-type") or "").lower():
            return True
        return self.body[:256].lstrip().lower().startswith((b"<!doctype html", b"<html"))

    @property
    def url(self) -> str:
        """The URL of the call. Empty if unknown."""
        if self._url:
            return self._url
        for source in (self.response, self.error):
            for path in (("url",), ("request", "url"), ("request_info", "url")):
                value: object = source
                for name in path:
                    value = read(value, name)
                if value is not None:
                    return _text(value)
        return ""

    @property
    def host(self) -> str:
        parts = self._parts()
        return "" if parts is None else parts.hostname or ""

    @property
    def path(self) -> str:
        parts = self._parts()
        return "" if parts is None else parts.path

    def _parts(self) -> SplitResult | None:
        from urllib.parse import urlsplit  # imported late: a tenth of `import tidegate`, and rarely needed

        try:
            return urlsplit(self.url)
        except ValueError:
            return None


_UNREAD = object()


def status_of(source: object) -> int:
    """Returns the HTTP status of a response, or 0."""
    if source is None:
        return 0
    return (
        status_in_field(read(source, "status_code"))
        or status_in_field(read(source, "status"))
        or status_in_field(read(source, "code"))
    )


def _header(headers: object, name: str) -> str | None:
    try:
        if is_a(headers, dict):
            value = headers.get(name)
            if value is None and len(headers) <= _MAX_HEADERS:
                # The mappings of clients ignore case. A plain dict does not.
                value = next((v for k, v in headers.items() if type(k) is str and k.lower() == name), None)
        else:
            # `in` first, because a miss of `get` raises and catches inside most mappings.
            value = headers.get(name) if name in headers else None  # type: ignore[attr-defined, operator]
        if is_a(value, bytes):
            return value[:_MAX_HEADER].decode("latin-1")
        return str(value[:_MAX_HEADER]) if is_a(value, str) else None
    except Exception:  # a third-party mapping may raise anything
        return None


def _body(response: object) -> bytes:
    if response is None:
        return b""
    for name in _body_names(type(response)):
        value = read(response, name)
        if is_a(value, bytes) or is_a(value, bytearray):
            return bytes(value[:MAX_BODY])
        if is_a(value, str):
            return value[:MAX_BODY].encode("utf-8", "replace")
        if is_a(value, dict) or is_a(value, list):
            return _dumped(value)
    return b""


def _body_names(cls: type) -> tuple[str, ...]:
    for base in cls.__mro__:
        names = _BODY_OF.get(str(read(base, "__module__")).partition(".")[0])
        if names is not None:
            return names
    return _BODY


def _body_of_error(error: BaseException | None) -> bytes:
    body = read(error, "body")
    return _dumped(body) if is_a(body, dict) or is_a(body, list) else b""


def _dumped(value: object) -> bytes:
    """Returns the start of *value* as JSON. It encodes in pieces, because the value may be large."""
    parts, length = [], 0
    try:
        for part in json.JSONEncoder().iterencode(value):
            parts.append(part)
            length += len(part)
            if length >= MAX_BODY:
                break
    except Exception:  # not serializable, endless, or raises when it is read
        return b""
    return "".join(parts).encode("utf-8", "replace")


def _text(value: object) -> str:
    try:
        return str(value)[:_MAX_URL]
    except Exception:
        return ""


# -- selection ------------------------------------------------------------------------------------------------------

# Exceptions of Python that usually have no cause and no attributes.
_PLAIN = frozenset(
    {
        OSError,
        ConnectionError,
        ConnectionRefusedError,
        ConnectionResetError,
        ConnectionAbortedError,
        BrokenPipeError,
        TimeoutError,
        EOFError,
    }
)

_GAVE_UP = r"too many ([1-5][0-9]{2}) error responses"


def collect_evidence(what: object) -> Evidence:
    """Returns the most specific evidence of a response, an exception or a message. Never raises."""
    try:
        if is_a(what, BaseException):
            return _of_error(what)
        if is_a(what, Evidence):
            return what
        if is_a(what, str):
            return Evidence(error=RuntimeError(what[:MAX_TEXT]))
        return Evidence(response=what, status=status_of(what))
    except Exception:  # a type may raise on any access
        return Evidence(error=what if is_a(what, BaseException) else None)


def _of_error(error: BaseException) -> Evidence:
    kind = kind_of(error)
    if kind in OURS or (type(error) in _PLAIN and kind is not None and _stands_alone(error)):
        return Evidence(error=error, kind=kind)
    if kind is None and (status := status_of(answer := read(error, "response"))) >= 300:
        # The usual result of raise_for_status(): its causes are not more specific.
        return Evidence(error=error, response=answer, status=status)
    best = _best(error, introspection.causes(error))
    if best is None or (best.kind in VAGUE and not best.status):
        # The context of an exception is weaker than its cause: a response in the context counts only if nothing else is
        # known.
        best = _best(error, introspection.contexts(error), answers=best is None) or best
    return best or _ours(error) or _untyped(error)


def _stands_alone(error: BaseException) -> bool:
    if error.__cause__ is not None or error.__context__ is not None or error.__dict__:
        return False
    return not any(is_a(arg, BaseException) for arg in error.args)


def _best(error: BaseException, nodes: Iterable[BaseException], *, answers: bool = True) -> Evidence | None:
    """Prefers an HTTP response over a kind, a stronger kind over a weaker one, then the outermost exception."""
    strongest: tuple[int, BaseException, ExceptionKind] | None = None
    good: Evidence | None = None
    for node in nodes:
        kind = kind_of(node)
        if kind in OURS:
            continue  # siblings that a task group cancelled
        if answers and kind not in INCIDENTAL:
            fields = fields_of(node)
            answer = fields.get("response")
            status = status_of(answer) or _status_in(fields, node)
            if (
                not status
                and kind is ExceptionKind.CONNECT
                and (gave_up := re.search(_GAVE_UP, message_of(node), re.ASCII))
            ):
                status = int(gave_up[1])
            if status >= 300:
                return Evidence(error=node, response=answer, kind=kind, status=status, outer=error)
            if status and good is None:
                good = Evidence(error=node, response=answer, kind=kind, status=status, outer=error)
        if kind is not None and (strongest is None or STRENGTH[kind] > strongest[0]):
            strongest = STRENGTH[kind], node, kind
    if strongest is None or (good is not None and strongest[2] in VAGUE):
        return good
    return Evidence(error=strongest[1], kind=strongest[2], outer=error)


def _status_in(fields: dict[str, object], node: BaseException) -> int:
    """Returns the status on an exception."""
    if not fields:
        return 0
    # aiohttp invents a 400 for a response that is not HTTP.
    cause = read(node, "__cause__")
    if is_a(cause, BaseException) and kind_of(cause) is ExceptionKind.PROTOCOL:
        return 0
    for name in ("status_code", "status", "http_status"):
        if status := status_in_field(fields.get(name)):
            return status
    # `code` is an exit code on some exceptions and an errno on others, so it counts only with headers. It is read last,
    # because that of aiohttp emits a warning.
    return status_in_field(read(node, "code")) if fields.get("headers") is not None else 0


def _ours(error: BaseException) -> Evidence | None:
    """Returns evidence if the group or wrapper contains only exceptions that our side caused."""
    ends = list(introspection.ends(error))
    kinds = [kind_of(end) for end in ends]
    return Evidence(error=ends[0], kind=kinds[0], outer=error) if ends and all(k in OURS for k in kinds) else None


def _untyped(error: BaseException) -> Evidence:
    """Returns the first message with a meaning. A status is preferred over words."""
    nodes = [node for node in introspection.contexts(error) if has_readable_text(node) and kind_of(node) not in OURS]
    texts = [(node, message_of(node)) for node in nodes]
    for says in (heuristics.lastfm_in, heuristics.status_in, heuristics.code_in):
        for node, text in texts:
            if text and says(text):
                return Evidence(error=node, outer=error)
    return Evidence(error=error)
