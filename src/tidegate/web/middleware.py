"""Middleware for every request and response: Host, Origin and body checks, security headers, error handling.

Host: only the server's own names, so that DNS rebinding gets nothing. Origin: a write must come from the server's own
page, or under /api from a program that is not a browser. Body: limited, and counted while it is read. The client never
sees the message of an unexpected exception, and the log does not contain it either.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
import uuid
from collections.abc import Callable, Iterable
from pathlib import PurePath
from urllib.parse import urlsplit

from fastapi import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.web.problems import REQUEST_ID, Problem
from tidegate.web.proxies import apply_forwarding, host_name, parse_networks
from tidegate.web.site import Site

# -- request body ------------------------------------------------------------------------------------------------------

_MAX_BYTES = 512_000_000
_LONGEST, _SILENT = 60.0, 2.0  # seconds: in total, and without a byte


class BodyReader:
    """Reads the body of a request and knows whether it has ended.

    A client that is still sending when the connection closes sees a connection error and never the response. So after
    an early response the rest of the body is drained, within limits.
    """

    __slots__ = ("_receive", "_awaits_continue", "ended")

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive = receive
        # A client that waits for 100 Continue sends nothing yet. Reading would trigger the Continue.
        self._awaits_continue = Headers(scope=scope).get("expect", "").lower() == "100-continue"
        self.ended = False

    async def __call__(self) -> Message:
        self._awaits_continue = False
        message = await self._receive()
        self.ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def out(self) -> None:
        """Drain the rest of the body, up to the size and time limits."""
        received = 0
        try:
            async with asyncio.timeout(_LONGEST):
                while not (self.ended or self._awaits_continue) and received < _MAX_BYTES:
                    message = await asyncio.wait_for(self(), _SILENT)
                    received += len(message.get("body", b""))
        except TimeoutError:
            self.ended = True


_log = logging.getLogger("tidegate.web")

CSP = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_OURS = frozenset({"same-origin", "none"})
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

_NO_NUL = "A text with the character NUL is not allowed."

HEAD = "tidegate.head"  # in the scope of a GET whose response has no body
NEWEST = "tidegate.newest"  # in the scope: id of the newest live message when the request came
COOKIES = "tidegate.cookies"  # in the scope: Set-Cookie values that every kind of response carries
CONNECTION = "tidegate.connection"  # in the scope: the asyncio transport if the server exposes it, else None

Fail = Callable[[Problem, Scope], Response]
Large = Callable[[Scope], int | None]  # body limit of the matching route in bytes; None for the default


class SecurityMiddleware:
    """The outermost ASGI middleware."""

    def __init__(
        self, app: ASGIApp, *, site: Site, fail: Fail, large: Large, newest: Callable[[], int] = lambda: 0
    ) -> None:
        self._newest = newest
        self._app, self._site, self._fail, self._large = app, site, fail, large
        self._names, self._trusted = site.names, parse_networks(site.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        apply_forwarding(scope, self._trusted)
        if self._site.base:
            scope["root_path"] = self._site.base
        scope[REQUEST_ID] = uuid.uuid4().hex[:12]
        scope[NEWEST] = self._newest()
        scope[COOKIES] = []
        # ASGI cannot abort a connection, and closing one waits for a client that does not read.
        scope[CONNECTION] = getattr(getattr(receive, "__self__", None), "transport", None)
        body_reader = BodyReader(receive, scope)
        answer, receive = _ResponseSender(send, scope, body_reader), body_reader
        headers = Headers(scope=scope)
        refusal = refused_host(headers, self._names) or refused_origin(scope["method"], path_of(scope), headers)
        refusal = refusal or refused_text(scope)
        if refusal is None:
            refusal, bounded = self._bounded(scope, headers, receive)
            receive = bounded
        if refusal is not None:
            _log.warning("request_refused code=%s id=%s", refusal.code, scope[REQUEST_ID])
            await self._fail(refusal, scope)(scope, receive, answer)
            return
        if scope["method"] == "HEAD":  # respond like GET, without the body
            scope = {**scope, "method": "GET", HEAD: True}
        try:
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            # it disconnected while sending, so no response is possible
            _log.info("client_left id=%s", scope[REQUEST_ID])
        except Exception as error:
            _log.error("request_failed id=%s error=%s where=%s", scope[REQUEST_ID], type(error).__name__, places(error))
            if answer.begun:
                # Break the connection, so that the client does not take a partial response for a complete one.
                raise ResponseAborted from None
            await self._fail(Problem("internal"), scope)(scope, receive, answer)

    def _bounded(self, scope: Scope, headers: Headers, receive: Receive) -> tuple[Problem | None, Receive]:
        limit = self._site.max_body
        stated = headers.get("content-length", "")
        if stated and not (stated.isascii() and stated.isdigit() and len(stated) < 20):
            return Problem("malformed", "content-length: it is not a number."), receive
        if int(stated or 0) > limit or "transfer-encoding" in headers:
            limit = max(limit, self._large(scope) or 0)
        if int(stated or 0) > limit:
            return too_large(limit), receive
        read = 0
        is_form = headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded")

        async def bounded() -> Message:
            nonlocal read
            message = await receive()
            if message["type"] == "http.request":
                body = message.get("body", b"")
                read += len(body)
                if read > limit:
                    raise too_large(limit)
                if is_form and _has_nul(body):
                    raise Problem("malformed", _NO_NUL)
            return message

        return None, bounded


class ResponseAborted(RuntimeError):
    """A response failed after it had started. The log has the cause."""


class _ResponseSender:
    """Sends a response with the common headers."""

    __slots__ = ("_cookies", "_head", "_body_reader", "_id", "_drains_body", "_path", "_send", "begun")

    def __init__(self, send: Send, scope: Scope, body_reader: BodyReader) -> None:
        self._send = send
        self._body_reader = body_reader
        self._drains_body = False
        self._id: str = scope[REQUEST_ID]
        self._path = path_of(scope)
        self._cookies: list[str] = scope[COOKIES]
        self._head = scope["method"] == "HEAD"
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self._drains_body = message["status"] == 413
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-cache" if self._path.startswith("/static/") else "no-store")
            headers.setdefault("x-request-id", self._id)
            for cookie in self._cookies:
                headers.append("set-cookie", cookie)
            del headers["server"]
        elif self._head and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        if self._drains_body and message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._body_reader.out()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)


def path_of(scope: Scope) -> str:
    """Return the path below the server's base path."""
    path, base = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(base) if base and path.startswith(f"{base}/") else path


def refused_host(headers: Headers, names: Iterable[str]) -> Problem | None:
    """Return a problem if the Host header is not one of the server's names."""
    name = host_name(headers)
    if name is None:
        return Problem("malformed", "host: there must be one Host header with a name.")
    return None if name in names else Problem("misdirected")


def refused_text(scope: Scope) -> Problem | None:
    """Return a problem if the URL of a page contains NUL: no name has one, and PostgreSQL cannot search for it.

    The API reports the field that contains it.
    """
    address = scope.get("raw_path", scope["path"].encode()) + b"?" + scope.get("query_string", b"")
    return Problem("malformed", _NO_NUL) if _has_nul(address) and not path_of(scope).startswith("/api/") else None


def _has_nul(text: bytes) -> bool:
    return b"%00" in text or b"\0" in text


def refused_origin(method: str, path: str, headers: Headers) -> Problem | None:
    """Return a problem if another site made a browser send this request.

    A browser states the origin of a request. A program does not, and may use the API.
    """
    sites = headers.getlist("sec-fetch-site")
    if method in _SAFE:
        # Following a link from another site is fine. Fetching data into another site's page is not.
        foreign = any(site not in _OURS for site in sites) and headers.get("sec-fetch-mode") != "navigate"
        return Problem("cross_site") if foreign else None
    origins = headers.getlist("origin")
    if len(origins) > 1 or len(sites) > 1:
        return Problem("cross_site")
    if sites and sites[0] not in _OURS:
        return Problem("cross_site")
    if origins and not same_origin(origins[0], headers["host"]):
        return Problem("cross_site")
    if not origins and not sites and not path.startswith("/api/"):
        return Problem("cross_site", "The request does not say where it comes from; use a newer browser, or /api.")
    return None


def same_origin(origin: str, host: str) -> bool:
    """Whether an Origin header names the host of the request."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in _DEFAULT_PORTS or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return False
    port = _DEFAULT_PORTS[parts.scheme]
    return parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)


def too_large(limit: int) -> Problem:
    # The rest of the body may exceed what is drained, so the connection cannot be reused.
    headers = {"Connection": "close"}
    return Problem("too_large", f"At most {limit} bytes are taken here.", headers=headers, most_bytes=limit)


def places(error: BaseException, limit: int = 5) -> str:
    """Return the innermost frames as file:line:function, innermost last.

    The message may be a secret and is left out.
    """
    frames = traceback.extract_tb(error.__traceback__)[-limit:]
    return " > ".join(f"{PurePath(frame.filename).name}:{frame.lineno}:{frame.name}" for frame in frames)
