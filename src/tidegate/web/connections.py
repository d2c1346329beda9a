"""Listening sockets and connection limits: timeouts, sizes and counts for slow, silent or endless clients.

uvicorn waits for a request without a timeout, buffers a head of any length, and keeps responses that a client does not
read. An attacker needs no password for any of these. So a monitor checks every connection periodically and cuts those
that are too slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tidegate.errors import TidegateError
from tidegate.web.proxies import PEER_FACTS

_log = logging.getLogger("tidegate.web")

_MAX_FILES = 65_536
_LOG_INTERVAL = 10.0  # seconds between two log lines about the same problem
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # value for SO_LINGER
_STALL = 1.0  # seconds a check may be late; beyond that the event loop was blocked, not the client
FRAMING_PER_BYTE = 16  # framing bytes allowed per body byte; a one-byte chunk costs five


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimeouts:
    """How long a client may take, in seconds, and how many bytes it may send before the body."""

    head: float = 10.0  # for the head of a request, from its first byte; for the first request, from the connection
    grace: float = 10.0  # before the rates of body and response are checked
    rate: float = 10_000.0  # minimum bytes per second of a request body
    hear_out: float = 60.0  # for the rest of a body after the response was sent
    read_rate: float = 1_000.0  # minimum bytes per second at which a response is read
    max_head_bytes: int = 65_536  # of head and trailers, and of framing beyond what the body allows
    max_connections: int = 1_000_000  # concurrent connections
    poll_interval: float = 1.0


def room() -> int:
    """Return how many connections fit: half of the file limit. Raises the soft limit first if possible."""
    try:
        import resource
    except ImportError:  # a platform without such limits
        return _MAX_FILES // 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return (_MAX_FILES if soft == resource.RLIM_INFINITY else soft) // 2


def patient(patience: ConnectionTimeouts | None = None) -> type[asyncio.Protocol]:
    """Return the protocol class for `uvicorn.Config(http=...)`. Each server needs its own."""
    watch = ConnectionMonitor(patience or ConnectionTimeouts(max_connections=room()))

    class Watched(TrackedConnection):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self.watch = watch

    return Watched


def quiet_when_full(loop: asyncio.AbstractEventLoop) -> None:
    """Log once that no file descriptor is left. asyncio would log it hundreds of times per second."""
    said = -math.inf

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal said
        if "out of system resource" not in context["message"]:
            loop.default_exception_handler(context)
        elif loop.time() - said > _LOG_INTERVAL:
            said = loop.time()
            _log.error("no_file_left_for_connections")

    loop.set_exception_handler(handle)


def abort_connection(transport: Any) -> None:
    """Abort a connection and discard unsent data, which the kernel would otherwise keep for minutes."""
    with contextlib.suppress(OSError):  # already closed
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


class HeadTooLong(Exception):
    """Stops the parser, which reports it as a malformed request."""


class ConnectionMonitor:
    """Checks all connections of a server periodically while there are any."""

    def __init__(self, patience: ConnectionTimeouts) -> None:
        self.patience = patience
        self.lines: set[TrackedConnection] = set()
        self.ended: Counter[str] = Counter()
        self._is_scheduled = False

    def come(self, line: TrackedConnection) -> bool:
        """Register a connection. Return False if the server is full."""
        if len(self.lines) >= self.patience.max_connections:
            self.ended["full"] += 1
            return False
        self.lines.add(line)
        if not self._is_scheduled:
            self._is_scheduled = True
            line.loop.call_later(self.patience.poll_interval, self._check_connections, line.loop)
        return True

    def _check_connections(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for line in list(self.lines):
            reason = line.late(now)
            if reason:
                line.cut(reason)
        if self.ended:
            # One line for all, so that cutting a thousand connections does not write a thousand lines.
            _log.warning(
                "connections_cut head=%s body=%s unread=%s long=%s full=%s",
                *(self.ended[reason] for reason in ("head", "body", "unread", "long", "full")),
            )
            self.ended.clear()
        self._is_scheduled = bool(self.lines)
        if self._is_scheduled:
            loop.call_later(self.patience.poll_interval, self._check_connections, loop)


class TrackedConnection(HttpToolsProtocol):
    """One connection, what it waits for, and since when."""

    watch: ConnectionMonitor

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._since: float | None = None  # start of the awaited part: a head or a body
        self._in_body = False
        self._body_received = 0  # body bytes received
        self._checked_at = 0.0
        self._responded_at: float | None = None  # when the response was complete while the body was still coming
        self._unread, self._unread_since = 0, 0.0  # bytes the client has not read
        self._slack = 0  # bytes of head, trailers and framing that this request may still send
        self._head = 0  # bytes of URL, headers and trailers of this request
        self._known: dict[str, bool] = {}  # what was found out about this connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._since = self._checked_at = self.loop.time()
        self._slack = self.watch.patience.max_head_bytes
        if self.watch.come(self):
            super().connection_made(transport)
        else:
            self._send_status(b"503 Service Unavailable", b"retry-after: 5\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self.watch.lines.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._since is None:
            self._since = self.loop.time()
        # Parse in portions of the framing limit. If a request ended within one large read, its excess would go
        # unnoticed.
        while data and not self.transport.is_closing():
            size = max(1, min(self._slack, self.watch.patience.max_head_bytes))
            part, data = data[:size], data[size:]
            self._slack -= len(part)
            super().data_received(part)
            if self._slack < 0 and not self.transport.is_closing():
                self.cut("long")

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()
        self.scope[PEER_FACTS] = self._known  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        self._add_to_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._add_to_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def _add_to_head(self, size: int) -> None:
        """Stop parsing a head that is too long. `_slack` does not notice one that arrives in a single read."""
        self._head += size
        if self._head > self.watch.patience.max_head_bytes:
            raise HeadTooLong

    def send_400_response(self, msg: str) -> None:
        if self._head > self.watch.patience.max_head_bytes:
            self.cut("long")
        else:
            super().send_400_response(msg)

    def on_headers_complete(self) -> None:
        self._since, self._in_body, self._body_received, self._responded_at = self.loop.time(), True, 0, None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_received += len(body)
        self._slack += (1 + FRAMING_PER_BYTE) * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._since, self._in_body = None, False
        self._slack = self.watch.patience.max_head_bytes
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: HTTP allows a server to ignore an upgrade request."""

    def resume_writing(self) -> None:
        self._unread = 0  # the buffer is nearly empty and more follows, so measure from there
        super().resume_writing()

    def late(self, now: float) -> str:
        """Return what took too long, or an empty text."""
        patience, passed, self._checked_at = self.watch.patience, now - self._checked_at, now
        unread = self.transport.get_write_buffer_size()
        if unread > self._unread or not unread:  # more was written, or the client has read everything
            self._unread, self._unread_since = unread, now
        elif now - self._unread_since > patience.grace:
            if self._unread - unread < patience.grace * patience.read_rate:
                return "unread"
            self._unread, self._unread_since = unread, now
        if self._since is None or self.transport.is_closing():
            return ""
        if passed > patience.poll_interval + _STALL:
            self._since += passed
        if not self._in_body:
            if self._has_pending_response():
                # the previous response is not finished, so the timeout for the next head has not started
                self._since = now
            return "head" if now - self._since > patience.head else ""
        if self.cycle.response_complete:
            # A client may read the response only after it has sent everything. Cut earlier, it would not learn the
            # reason.
            self._responded_at = now if self._responded_at is None else self._responded_at
            if now - self._responded_at > patience.hear_out:
                return "body"
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue:
            self._since += passed  # the server is the slow side
        return "body" if now - self._since > patience.grace + self._body_received / patience.rate else ""

    def cut(self, reason: str) -> None:
        """Close the connection, with an error response if the client can still receive one."""
        self.watch.ended[reason] += 1
        answering = self.cycle.response_started if self._in_body else self._has_pending_response()
        if reason == "unread" or answering:
            abort_connection(self.transport)
            return
        if self._in_body:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._send_status(b"431 Request Header Fields Too Large" if reason == "long" else b"408 Request Timeout")

    def _has_pending_response(self) -> bool:
        # Before the first request `cycle` is None, despite its type.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _send_status(self, status: bytes, more: bytes = b"") -> None:
        self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + more + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()


# -- listening ---------------------------------------------------------------------------------------------------------

LAST_ANSWERS = 5  # seconds for open requests to finish after a stop
UNREAD_SECONDS = 60.0  # seconds the kernel keeps data that a client does not read
_BACKLOG = 512  # connections that may wait to be accepted


class PortTaken(TidegateError):
    """The address is in use or does not exist."""


def listening_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # The text of OSError would repeat the address.
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "no address"
        raise PortTaken(f"{_shown(host, port)} cannot be used ({reason}); choose another with --port") from error
    # Connections inherit these options. A response is two writes, head and body. With Nagle's algorithm the second
    # waits 40 ms for a delayed acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        # By default the kernel keeps data for a client that never reads for about 15 minutes.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))
    return listener


def url_of(at: socket.socket) -> str:
    """Return the URL of a listening socket for browsers."""
    return f"http://{_shown(*at.getsockname()[:2])}"


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HttpServer(uvicorn.Server):
    """Serves an ASGI application. The caller handles signals.

    It accepts up to *limit* connections, and never more than half of the file limit.
    """

    def __init__(self, app: ASGIApp, *, limit: int | None = None) -> None:
        fitting = room()
        patience = ConnectionTimeouts(max_connections=fitting if limit is None else min(limit, fitting))
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="on",
                http=patient(patience),
                loop="asyncio",
                ws="none",
                timeout_graceful_shutdown=LAST_ANSWERS,
                backlog=_BACKLOG,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        quiet_when_full(asyncio.get_running_loop())
        await super().serve(sockets)
