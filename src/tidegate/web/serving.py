"""How our servers listen, the page's and the gateway's: the same limits, the same stop, the same silence.

async def main() -> None:
    await Server(app).serve(sockets=[listening_at("127.0.0.1", 8321)])
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from tidegate.errors import TidegateError
from tidegate.web.connections import ConnectionTimeouts, patient, quiet_when_full, room

LAST_ANSWERS = 5  # seconds that requests under way have after a stop
UNREAD_SECONDS = 60.0  # seconds that the kernel keeps what a client does not take
_BACKLOG = 512  # connections that may wait until they are accepted


class PortTaken(TidegateError):
    """Somebody else listens there, or there is no such address."""


def listening_at(host: str, port: int) -> socket.socket:
    """A socket on that address; PortTaken when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Its own text says the address once more, in the words of Python.
        why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "no address"
        raise PortTaken(f"{_shown(host, port)} cannot be used ({why}); choose another with --port") from error
    # Each connection inherits these. Head and body of an answer are two writes: the second would wait 40 ms for a
    # client that keeps its connection to acknowledge the first.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        # What the kernel has taken from us for a client that never reads, it would keep for a quarter of an hour.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))
    return made


def url_of(at: socket.socket) -> str:
    """Where a browser finds what listens there."""
    return f"http://{_shown(*at.getsockname()[:2])}"


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HttpServer(uvicorn.Server):
    """Serves an ASGI application. Signals are for whoever started it.

    There are at most *most* connections at once, and never more than half of the files that may be open.
    """

    def __init__(self, app: ASGIApp, *, limit: int | None = None) -> None:
        fitting = room()
        patience = ConnectionTimeouts(max_connections=fitting if limit is None else min(limit, fitting))
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, proxy_headers=False, lifespan="on",
                http=patient(patience),
                loop="asyncio", ws="none", timeout_graceful_shutdown=LAST_ANSWERS, backlog=_BACKLOG,
            )
        )  # fmt: skip

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        quiet_when_full(asyncio.get_running_loop())
        await super().serve(sockets)
