"""What every request passes before anything looks at it, and what every answer carries.

Host: only our own names, so that a foreign name that points at this machine (DNS rebinding) gets nothing. Origin: what
changes something comes from our own page, or under /api from a program that is no browser. Body: not more than allowed,
counted while it is read. Whatever breaks inside is told to nobody but the log, and there without what it said.
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

# Answers that come before the request has been heard to its end.
#
# A client that is still sending when the connection closes is told of a broken connection, and never sees why it was
# refused. So the rest is heard out, for a while, and thrown away.

_MAX_BYTES = 512_000_000  # bytes
_LONGEST, _SILENT = 60.0, 2.0  # seconds in all, and without a word


class BodyReader:
    """The body of a request, and how far it was read."""

    __slots__ = ("_receive", "_waits", "ended")

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive = receive
        # Who waits for a sign sends nothing, and reading would be the sign.
        self._waits = Headers(scope=scope).get("expect", "").lower() == "100-continue"
        self.ended = False

    async def __call__(self) -> Message:
        self._waits = False
        message = await self._receive()
        self.ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def out(self) -> None:
        """Hears the rest, unless it is too much, takes too long, or nobody is sending."""
        heard = 0
        try:
            async with asyncio.timeout(_LONGEST):
                while not (self.ended or self._waits) and heard < _MAX_BYTES:
                    message = await asyncio.wait_for(self(), _SILENT)
                    heard += len(message.get("body", b""))
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

HEAD = "tidegate.head"  # in the scope of a GET whose answer has no body
NEWEST = "tidegate.newest"  # in the scope: the last that open pages were told of when the request came
COOKIES = "tidegate.cookies"  # in the scope: a list of what the answer sets, whatever the answer is
CONNECTION = "tidegate.connection"  # in the scope: the transport, where the server lets us see it; else None

Fail = Callable[[Problem, Scope], Response]
Large = Callable[[Scope], int | None]  # how many bytes the route of a request may read, if not the usual number


class SecurityMiddleware:
    """ASGI middleware, outside everything else."""

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
        # ASGI has no word for cutting a connection, and closing one waits for a client that does not read.
        scope[CONNECTION] = getattr(getattr(receive, "__self__", None), "transport", None)
        heard = BodyReader(receive, scope)
        answer, receive = _Answer(send, scope, heard), heard
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
        if scope["method"] == "HEAD":  # what a GET would say, without the body
            scope = {**scope, "method": "GET", HEAD: True}
        try:
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            _log.info("client_left id=%s", scope[REQUEST_ID])  # in the middle of what it sent; nobody hears an answer
        except Exception as error:
            _log.error("request_failed id=%s error=%s where=%s", scope[REQUEST_ID], type(error).__name__, places(error))
            if answer.begun:
                # The connection must break, so that nobody takes half an answer for a whole one.
                raise ResponseAborted from None
            await self._fail(Problem("internal"), scope)(scope, receive, answer)

    def _bounded(self, scope: Scope, headers: Headers, receive: Receive) -> tuple[Problem | None, Receive]:
        limit = self._site.max_body
        stated = headers.get("content-length", "")
        if stated and not (stated.isascii() and stated.isdigit() and len(stated) < 20):
            return Problem("malformed", "content-length: it is no number."), receive
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
    """An answer that had begun could not be finished; the log says what happened."""


class _Answer:
    """Sends an answer with the headers that all of them have."""

    __slots__ = ("_cookies", "_head", "_heard", "_id", "_lingers", "_path", "_send", "begun")

    def __init__(self, send: Send, scope: Scope, heard: BodyReader) -> None:
        self._send = send
        self._heard = heard
        self._lingers = False
        self._id: str = scope[REQUEST_ID]
        self._path = path_of(scope)
        self._cookies: list[str] = scope[COOKIES]
        self._head = scope["method"] == "HEAD"
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self._lingers = message["status"] == 413
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
        if self._lingers and message["type"] == "http.response.body" and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._heard.out()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)


def path_of(scope: Scope) -> str:
    """The path below the server's base."""
    path, base = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(base) if base and path.startswith(f"{base}/") else path


def refused_host(headers: Headers, names: Iterable[str]) -> Problem | None:
    """A problem when the request is for another host than ours."""
    name = host_name(headers)
    if name is None:
        return Problem("malformed", "host: there must be one Host header with a name.")
    return None if name in names else Problem("misdirected")


def refused_text(scope: Scope) -> Problem | None:
    """A problem when the address of a page has a NUL in it: no name has one, and not every database can look for it.

    The API says of it in which field it is.
    """
    address = scope.get("raw_path", scope["path"].encode()) + b"?" + scope.get("query_string", b"")
    return Problem("malformed", _NO_NUL) if _has_nul(address) and not path_of(scope).startswith("/api/") else None


def _has_nul(text: bytes) -> bool:
    return b"%00" in text or b"\0" in text


def refused_origin(method: str, path: str, headers: Headers) -> Problem | None:
    """A problem when another site made a browser send this.

    A browser says where a request comes from; a program says nothing, and may use the API.
    """
    sites = headers.getlist("sec-fetch-site")
    if method in _SAFE:
        # Following a link from elsewhere is fine; fetching our data into a foreign page is not.
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
    """Whether an Origin header names the host that the request is for."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in _DEFAULT_PORTS or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return False
    port = _DEFAULT_PORTS[parts.scheme]
    return parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)


def too_large(limit: int) -> Problem:
    # What is still coming may be more than is heard out, so the connection cannot be used again.
    headers = {"Connection": "close"}
    return Problem("too_large", f"At most {limit} bytes are taken here.", headers=headers, most_bytes=limit)


def places(error: BaseException, limit: int = 5) -> str:
    """Where it was raised, innermost last: file:line:function. Never what it said: that may be a secret."""
    frames = traceback.extract_tb(error.__traceback__)[-limit:]
    return " > ".join(f"{PurePath(frame.filename).name}:{frame.lineno}:{frame.name}" for frame in frames)
