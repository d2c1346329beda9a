"""What can be read off an answer or an exception of any HTTP library, without importing one and without raising."""

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

# Where the body lies once it has been read. Asking for anything else could read from the network.
_BODY_OF = {"requests": ("_content",), "aiohttp": ("_body",), "urllib3": ("_body",), "http": (), "urllib": ()}
_BODY = ("content", "body", "text")


class Evidence:
    """One answer, one exception, or both; everything is read when it is asked for, and bounded.

    *error* is the exception that tells most, *outer* the one that was caught, when that is another.
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
        """The value of a header, whatever the case of its name; None when there is none."""
        lowered = name.lower()
        found = _header(read(self.response, "headers"), lowered)
        return found if found is not None or self.error is None else _header(read(self.error, "headers"), lowered)

    def headers(self, *names: str) -> list[str | None]:
        """The values of several headers, whose names are given in lower case."""
        found = read(self.response, "headers")
        if found is None:
            found = read(self.error, "headers")
        return [None if found is None else _header(found, name) for name in names]

    @property
    def body(self) -> bytes:
        """The first 4 kB of the body if it is already in memory, else the message of the exception."""
        if self._body is None:
            self._body = _body(self.response) or _body_of_error(self.error) or self.text.encode("utf-8", "replace")
        return self._body[:MAX_BODY]

    @property
    def text(self) -> str:
        """The message of the exception, at most 4 kB of it; empty when its `str` raises."""
        if self._text is None:
            self._text = message_of(self.error)
        return self._text

    @property
    def json(self) -> object:
        """The body as JSON; None when it is none."""
        if self._json is _UNREAD:
            self._json = self._parsed()
        return self._json

    def _parsed(self) -> object:
        if self._body is None and not _body(self.response):
            # Some clients keep the parsed body on the exception.
            found = read(self.error, "body")
            if is_a(found, dict) or is_a(found, list):
                return found
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def html(self) -> bool:
        """Whether this is a web page where data was expected."""
        if "text/html" in (self.header("content-type") or "").lower():
            return True
        return self.body[:256].lstrip().lower().startswith((b"<!doctype html", b"<html"))

    @property
    def url(self) -> str:
        """The address that was called; empty when unknown."""
        if self._url:
            return self._url
        for source in (self.response, self.error):
            for path in (("url",), ("request", "url"), ("request_info", "url")):
                found: object = source
                for name in path:
                    found = read(found, name)
                if found is not None:
                    return _text(found)
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
        from urllib.parse import urlsplit  # a tenth of `import tidegate`, and few ask

        try:
            return urlsplit(self.url)
        except ValueError:
            return None


_UNREAD = object()


def status_of(source: object) -> int:
    """The HTTP status that an answer carries; 0 when it carries none."""
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
            found = headers.get(name)
            if found is None and len(headers) <= _MAX_HEADERS:
                # The mappings of the clients ignore case by themselves; a plain dict does not.
                found = next((v for k, v in headers.items() if type(k) is str and k.lower() == name), None)
        else:
            # Asking first, because a miss of `get` raises and catches inside most of them.
            found = headers.get(name) if name in headers else None  # type: ignore[attr-defined, operator]
        if is_a(found, bytes):
            return found[:_MAX_HEADER].decode("latin-1")
        return str(found[:_MAX_HEADER]) if is_a(found, str) else None
    except Exception:  # a stranger's mapping, with strangers in it
        return None


def _body(response: object) -> bytes:
    if response is None:
        return b""
    for name in _body_names(type(response)):
        found = read(response, name)
        if is_a(found, bytes) or is_a(found, bytearray):
            return bytes(found[:MAX_BODY])
        if is_a(found, str):
            return found[:MAX_BODY].encode("utf-8", "replace")
        if is_a(found, dict) or is_a(found, list):
            return _dumped(found)
    return b""


def _body_names(cls: type) -> tuple[str, ...]:
    for base in cls.__mro__:
        names = _BODY_OF.get(str(read(base, "__module__")).partition(".")[0])
        if names is not None:
            return names
    return _BODY


def _body_of_error(error: BaseException | None) -> bytes:
    found = read(error, "body")
    return _dumped(found) if is_a(found, dict) or is_a(found, list) else b""


def _dumped(found: object) -> bytes:
    """The beginning of *found* as JSON; piece by piece, because it may be large."""
    parts, length = [], 0
    try:
        for part in json.JSONEncoder().iterencode(found):
            parts.append(part)
            length += len(part)
            if length >= MAX_BODY:
                break
    except Exception:  # what cannot be written, what has no end, what raises when it is looked at
        return b""
    return "".join(parts).encode("utf-8", "replace")


def _text(found: object) -> str:
    try:
        return str(found)[:_MAX_URL]
    except Exception:
        return ""


# Picks the most telling evidence out of an answer, or out of an exception and everything that led to it.

# Exceptions of Python itself, as they are raised nearly always: nothing led to them and nobody added anything.
_PLAIN = frozenset({
    OSError, ConnectionError, ConnectionRefusedError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError,
    TimeoutError, EOFError,
})  # fmt: skip

_GAVE_UP = r"too many ([1-5][0-9]{2}) error responses"


def collect_evidence(what: object) -> Evidence:
    """The most telling evidence in an answer, an exception or a bare message; it never raises."""
    try:
        if is_a(what, BaseException):
            return _of_error(what)
        if is_a(what, Evidence):
            return what
        if is_a(what, str):
            return Evidence(error=RuntimeError(what[:MAX_TEXT]))
        return Evidence(response=what, status=status_of(what))
    except Exception:  # a type can be so odd that even looking at it raises
        return Evidence(error=what if is_a(what, BaseException) else None)


def _of_error(error: BaseException) -> Evidence:
    kind = kind_of(error)
    if kind in OURS or (type(error) in _PLAIN and kind is not None and _stands_alone(error)):
        return Evidence(error=error, kind=kind)
    if kind is None and (status := status_of(answer := read(error, "response"))) >= 300:
        # What raise_for_status() of most clients raises: nothing below it could say more.
        return Evidence(error=error, response=answer, status=status)
    best = _best(error, introspection.causes(error))
    if best is None or (best.kind in VAGUE and not best.status):
        # What was being handled when it was raised is weaker than what it was raised from: an answer that was being
        # handled counts only when nothing else is known.
        best = _best(error, introspection.contexts(error), answers=best is None) or best
    return best or _ours(error) or _untyped(error)


def _stands_alone(error: BaseException) -> bool:
    if error.__cause__ is not None or error.__context__ is not None or error.__dict__:
        return False
    return not any(is_a(arg, BaseException) for arg in error.args)


def _best(error: BaseException, nodes: Iterable[BaseException], *, answers: bool = True) -> Evidence | None:
    """An HTTP answer beats a kind, a stronger kind a weaker one, and the outermost the rest."""
    strongest: tuple[int, BaseException, ExceptionKind] | None = None
    good: Evidence | None = None
    for node in nodes:
        kind = kind_of(node)
        if kind in OURS:
            continue  # the siblings that a task group cancelled
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
    """The status on an exception itself."""
    if not fields:
        return 0
    # aiohttp makes up a 400 for an answer that was no HTTP.
    cause = read(node, "__cause__")
    if is_a(cause, BaseException) and kind_of(cause) is ExceptionKind.PROTOCOL:
        return 0
    for name in ("status_code", "status", "http_status"):
        if found := status_in_field(fields.get(name)):
            return found
    # `code` is an exit code on some and an errno on others: only with headers beside it. That of aiohttp warns whoever
    # asks, so it is asked last.
    return status_in_field(read(node, "code")) if fields.get("headers") is not None else 0


def _ours(error: BaseException) -> Evidence | None:
    """A group or a wrapper with nothing in it but what we stopped ourselves."""
    ends = list(introspection.ends(error))
    kinds = [kind_of(end) for end in ends]
    return Evidence(error=ends[0], kind=kinds[0], outer=error) if ends and all(k in OURS for k in kinds) else None


def _untyped(error: BaseException) -> Evidence:
    """The first message that says something, a status before words."""
    nodes = [node for node in introspection.contexts(error) if has_readable_text(node) and kind_of(node) not in OURS]
    texts = [(node, message_of(node)) for node in nodes]
    for says in (heuristics.lastfm_in, heuristics.status_in, heuristics.code_in):
        for node, text in texts:
            if text and says(text):
                return Evidence(error=node, outer=error)
    return Evidence(error=error)
