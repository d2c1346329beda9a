"""What can be read off an answer or an exception of any HTTP library, without importing one and without raising."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from tidegate.core.kinds import Kind

MOST_BODY = 4096

# Where the body lies once it has been read. Asking for anything else could read from the network.
_BODY_OF = {"requests": ("_content",), "aiohttp": ("_body",), "urllib3": ("_body",), "http": (), "urllib": ()}
_BODY = ("content", "body", "text")


class Evidence:
    """One answer, one exception, or both; everything is read when it is asked for, and bounded."""

    __slots__ = ("_body", "_json", "_url", "error", "kind", "response", "status")

    def __init__(
        self,
        error: BaseException | None = None,
        response: object = None,
        kind: Kind | None = None,
        status: int = 0,
        body: bytes | None = None,
        url: str = "",
    ) -> None:
        self.error = error
        self.response = response
        self.kind = kind
        self.status = status
        self._body = body
        self._url = url
        self._json: object = _UNREAD

    def header(self, name: str) -> str | None:
        """The value of a header, whatever the case of its name; None when there is none."""
        for source in (self.response, self.error):
            found = _header(read(source, "headers"), name)
            if found is not None:
                return found
        return None

    @property
    def body(self) -> bytes:
        """The first 4 kB of the body if it is already in memory, else the message of the exception."""
        if self._body is None:
            self._body = _body(self.response) or _body_of_error(self.error) or self.text.encode("utf-8", "replace")
        return self._body[:MOST_BODY]

    @property
    def text(self) -> str:
        """The message of the exception, at most 4 kB of it; empty when its `str` raises."""
        return message_of(self.error)

    @property
    def json(self) -> object:
        """The body as JSON; None when it is none."""
        if self._json is _UNREAD:
            try:
                self._json = json.loads(self.body)
            except (ValueError, RecursionError):
                self._json = None
        return self._json

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
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""

    @property
    def path(self) -> str:
        try:
            return urlsplit(self.url).path
        except ValueError:
            return ""


_UNREAD = object()


def read(source: object, name: str) -> object:
    """An attribute, or None: a property of a stranger's class may raise anything."""
    if source is None:
        return None
    try:
        return getattr(source, name, None)
    except Exception:
        return None


def status_of(source: object) -> int:
    """The HTTP status that an answer or an exception carries; 0 when it carries none."""
    for name in ("status_code", "status", "code"):
        found = read(source, name)
        if isinstance(found, int) and not isinstance(found, bool) and 100 <= found <= 599:
            return int(found)
    return 0


def message_of(error: BaseException | None, most: int = MOST_BODY) -> str:
    if error is None:
        return ""
    try:
        text = str(error)
    except Exception:
        return ""  # total: an exception that cannot say what it is still gets a verdict
    return text[:most]


def _header(headers: object, name: str) -> str | None:
    if headers is None:
        return None
    try:
        found = headers.get(name)  # type: ignore[attr-defined]
        if found is None and isinstance(headers, Mapping) and len(headers) <= 256:
            found = next((v for k, v in headers.items() if isinstance(k, str) and k.lower() == name.lower()), None)
    except Exception:
        return None
    if isinstance(found, bytes):
        found = found.decode("latin-1")
    return found[:1024] if isinstance(found, str) else None


def _body(response: object) -> bytes:
    if response is None:
        return b""
    root = type(response).__module__.partition(".")[0]
    for name in _BODY_OF.get(root, _BODY):
        found = read(response, name)
        if isinstance(found, (bytes, bytearray)):
            return bytes(found[:MOST_BODY])
        if isinstance(found, str):
            return found[:MOST_BODY].encode("utf-8", "replace")
        if isinstance(found, (dict, list)):
            return _dumped(found)
    return b""


def _body_of_error(error: BaseException | None) -> bytes:
    """Some clients keep the parsed body on the exception."""
    found = read(error, "body")
    return _dumped(found) if isinstance(found, (dict, list)) else b""


def _dumped(found: object) -> bytes:
    try:
        return json.dumps(found).encode()
    except (TypeError, ValueError, RecursionError):
        return b""


def _text(found: object) -> str:
    try:
        return str(found)[:2048]
    except Exception:
        return ""
