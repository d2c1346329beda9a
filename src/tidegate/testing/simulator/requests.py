"""Parses requests from the bytes of a connection, within limits, and keeps a journal of them."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Condition
from typing import Any
from urllib.parse import parse_qsl

from tidegate.faults.redaction import redact

MAX_HEAD = 65_536
_MAX_LINE = 1024  # bytes of a chunk header
_MAX_HEADERS = 200
_REQUEST = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([^\x00-\x20\x7f]+) HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*)")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,12}")
_DIGITS = re.compile(r"[0-9]{1,15}", re.ASCII)


class Headers(dict[str, str]):
    """Case-insensitive headers. The values of a repeated header are joined by commas."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]  # a missing header is empty
        return super().get(name.lower(), default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One parsed request. *keep*: the client wants to keep the connection."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes = b""
    keep: bool = True


class UnreadableRequest(Exception):
    """The request is not valid or too large. The connection cannot continue."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class _Begun:
    """A request with a complete head and a possibly incomplete body."""

    head: Read
    left: int  # remaining bytes of the body or the chunk
    chunked: bool
    at_size: bool  # a chunk size is next
    ending: bool = False  # after the last chunk; trailers may follow
    parts: bytearray = field(default_factory=bytearray)


class RequestReader:
    """Feed it received bytes with `feed`, and call `next` until it returns None."""

    def __init__(self, max_body: int) -> None:
        self._limit = max_body
        self._buffer = bytearray()
        self._begun: _Begun | None = None
        self._looked = 0
        self.owes_continue = False

    def feed(self, data: bytes) -> None:
        self._buffer += data

    @property
    def waiting(self) -> int:
        """Bytes that are not parsed yet."""
        return len(self._buffer)

    def next(self) -> Read | None:
        """Returns the next complete request, or None. Raises UnreadableRequest if the bytes are not valid."""
        if self._begun is None and not self._begin():
            return None
        begun = self._begun
        assert begun is not None
        if not (self._chunks(begun) if begun.chunked else self._rest(begun)):
            return None
        self._begun, self.owes_continue = None, False
        head = begun.head
        return Read(
            method=head.method,
            path=head.path,
            query=head.query,
            headers=head.headers,
            body=bytes(begun.parts),
            keep=head.keep,
        )

    def _begin(self) -> bool:
        if self._buffer[:2] == b"\r\n":  # some clients send one after a body
            del self._buffer[:2]
            self._looked = 0
        end = self._buffer.find(b"\r\n\r\n", max(0, self._looked - 3))
        if max(end, len(self._buffer) if end < 0 else 0) > MAX_HEAD:
            raise UnreadableRequest(431, f"the head of the request is longer than {MAX_HEAD} bytes")
        self._looked = len(self._buffer)
        if end < 0:
            return False
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        self._looked = 0
        self._begun = _begun(lines, self._limit)
        self.owes_continue = self._begun.head.headers.get("expect").lower() == "100-continue"
        return True

    def _rest(self, begun: _Begun) -> bool:
        if len(self._buffer) < begun.left:
            return False
        begun.parts += self._buffer[: begun.left]
        del self._buffer[: begun.left]
        return True

    def _chunks(self, begun: _Begun) -> bool:
        while True:
            if not begun.at_size:
                if len(self._buffer) < begun.left + 2:
                    return False
                begun.parts += self._buffer[: begun.left]
                if self._buffer[begun.left : begun.left + 2] != b"\r\n":
                    raise UnreadableRequest(400, "a chunk of the body is longer than it says")
                del self._buffer[: begun.left + 2]
                begun.at_size = True
            line = self._line()
            if line is None:
                return False
            if begun.ending:
                if not line:
                    return True
                continue
            begun.left = _size(line)
            if len(begun.parts) + begun.left > self._limit:
                raise UnreadableRequest(413, f"the body is longer than {self._limit} bytes")
            begun.ending = not begun.left
            begun.at_size = begun.ending

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", 0, _MAX_LINE)
        if end < 0:
            if len(self._buffer) >= _MAX_LINE:
                raise UnreadableRequest(400, "a line between the chunks of the body is too long")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line


def _begun(lines: list[bytes], limit: int) -> _Begun:
    match = _REQUEST.fullmatch(lines[0])
    if match is None:
        raise UnreadableRequest(400, "the first line is not an HTTP/1.1 request")
    headers = _headers(lines[1:])
    target = match[2].decode("latin-1")
    if "://" in target.partition("?")[0]:  # the form for a proxy
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    path, _, query = target.partition("#")[0].partition("?")
    wish = headers.get("connection").lower()
    keep = "close" not in wish if match[3] == b"1" else "keep-alive" in wish
    head = Read(method=match[1].decode("ascii").upper(), path=path, query=query, headers=headers, keep=keep)
    coding, length = headers.get("transfer-encoding").lower(), headers.get("content-length")
    if coding and length:
        raise UnreadableRequest(400, "the request has both a Content-Length and a Transfer-Encoding")
    if coding not in ("", "chunked"):
        raise UnreadableRequest(501, "the body is encoded for the transfer in a way that is not known; send it chunked")
    size = _length(length) if length else 0
    if size > limit:
        raise UnreadableRequest(413, f"the body is longer than {limit} bytes")
    return _Begun(head, size, chunked=bool(coding), at_size=True)


def _headers(lines: list[bytes]) -> Headers:
    if len(lines) > _MAX_HEADERS:
        raise UnreadableRequest(431, f"the request has more than {_MAX_HEADERS} headers")
    headers = Headers()
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise UnreadableRequest(400, "a line of the headers is not a header")
        name, value = match[1].decode("ascii").lower(), match[2].decode("latin-1").rstrip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _length(text: str) -> int:
    values = {item.strip() for item in text.split(",")}
    if len(values) != 1 or not _DIGITS.fullmatch(value := values.pop()):
        raise UnreadableRequest(400, "the Content-Length of the request is not a valid length")
    return int(value)


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not _HEX.fullmatch(digits):
        raise UnreadableRequest(400, "the size of a chunk of the body is not a valid size")
    return int(digits, 16)


# -- journal -----------------------------------------------------------------------------------------------------------

# Maximum bytes of bodies in the journal.
MAX_BYTES = 16 * 1024 * 1024
_SHOWN = 2000  # characters of a body in the journal of the control endpoint


class RecordedRequest:
    """One request that reached the simulator.

    *number* counts from 1, *at* is UNIX time, *params* are the named parts of the path. *met* is what answered it
    ("step 1: 503", "answer: 200", "outage: reset"). It is *over* when the response was sent or aborted. *gone*: the
    client disconnected before that.
    """

    __slots__ = ("at", "body", "gone", "headers", "met", "method", "number", "over", "params", "path", "raw_query")

    def __init__(self, read: Read, *, number: int, at: float) -> None:
        self.number = number
        self.at = at
        self.method = read.method
        self.path = read.path
        self.raw_query = read.query
        self.headers: Headers = read.headers
        self.body = read.body
        self.params: Mapping[str, str] = {}
        self.met = ""
        self.over = False
        self.gone = False

    @property
    def query(self) -> dict[str, str]:
        """The query by name. The last value of a repeated name counts."""
        return dict(self.pairs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query in order, with repeated names."""
        return parse_qsl(self.raw_query, keep_blank_values=True)

    @property
    def form(self) -> dict[str, str]:
        """The fields of a URL-encoded form."""
        return dict(parse_qsl(self.text, keep_blank_values=True))

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ValueError if it is not JSON."""
        return json.loads(self.body)

    def as_json(self) -> dict[str, Any]:
        """Returns the request with secrets removed and a truncated body."""
        return {
            "number": self.number,
            "at": self.at,
            "method": self.method,
            "path": self.path,
            "query": redact(self.raw_query, _SHOWN),
            "headers": {name: redact(f"{name}: {value}")[len(name) + 2 :] for name, value in self.headers.items()},
            "body": redact(self.text, _SHOWN),
            "length": len(self.body),
            "met": self.met,
            "over": self.over,
            "gone": self.gone,
        }

    def __repr__(self) -> str:
        query = f"?{self.raw_query}" if self.raw_query else ""
        return f"<Asked {self.number}: {self.method} {self.path}{query} -> {self.met}{', gone' if self.gone else ''}>"


class Journal:
    """The last requests, oldest first. Any thread may read it. Only the simulator's thread writes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: deque[RecordedRequest] = deque()
        self._bytes = 0
        self.total = 0
        self._changed = Condition()

    def add(self, request: RecordedRequest) -> None:
        with self._changed:
            self.total += 1
            self._kept.append(request)
            self._bytes += len(request.body)
            while len(self._kept) > self._limit or (self._bytes > MAX_BYTES and len(self._kept) > 1):
                self._bytes -= len(self._kept.popleft().body)
            self._changed.notify_all()

    def over(self, request: RecordedRequest, *, gone: bool) -> None:
        with self._changed:
            request.over, request.gone = True, gone
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self._kept.clear()
            self._bytes = self.total = 0

    def matching(self, wanted: Callable[[RecordedRequest], bool]) -> list[RecordedRequest]:
        with self._changed:
            return [request for request in self._kept if wanted(request)]

    def wait(self, enough: Callable[[], bool], timeout: float) -> bool:
        """Waits until *enough* returns True. It is called after each change. Returns False on timeout."""
        with self._changed:
            return self._changed.wait_for(enough, timeout)
