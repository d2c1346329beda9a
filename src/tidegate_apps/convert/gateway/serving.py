"""Runs the gateway: alone until a signal, or beside other things in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from tidegate_apps.convert.gateway.http import app
from tidegate_apps.convert.gateway.limits import GatewayLimits
from tidegate_apps.convert.gateway.mappings import Mappings

HOST = "127.0.0.1"
_GRACE = 5  # seconds that requests under way have after a stop


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are for whoever started it


def config(limits: GatewayLimits | None, mappings: Mappings | None) -> uvicorn.Config:
    return uvicorn.Config(
        app(limits, mappings), log_config=None, access_log=False, server_header=False, lifespan="on", http="httptools",
        loop="asyncio", ws="none", timeout_graceful_shutdown=_GRACE, backlog=512,
    )  # fmt: skip


class CannotListen(Exception):
    """Somebody else has the address, or there is none like it."""


def listening_at(host: str, port: int) -> socket.socket:
    """A socket on that address; OSError when it is not free."""
    found = socket.create_server((host, port), family=_family(host), backlog=512)
    # Each connection inherits it: else the body of an answer waits 40 ms for a client that keeps its connection.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def serve(
    host: str, port: int, limits: GatewayLimits | None, mappings: Mappings | None, *, ready: Callable[[str], None]
) -> None:
    """Serves until SIGTERM or SIGINT, then lets requests under way end; CannotListen when the address is not free."""
    try:
        listening = listening_at(host, port)
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else "there is no such address"
        raise CannotListen(f"{host}, port {port}, cannot be used ({why}); choose another with --port") from error

    async def main() -> None:
        server = _Server(config(limits, mappings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.handle_exit, number, None)  # the second one ends it at once
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not serving.done():  # noqa: ASYNC110 - it has only a flag
            await asyncio.sleep(0.01)
        if server.started:
            ready(_url(listening))
        await serving

    with listening:
        asyncio.run(main())


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Embedded:
    """A gateway on a loopback port that the system chooses, in a thread with its own loop.

    with Embedded() as url:
        httpx.post(f"{url}/process", ...)
    """

    def __init__(self, limits: GatewayLimits | None = None, mappings: Mappings | None = None) -> None:
        self._limits, self._mappings = limits, mappings
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._url = ""

    def start(self) -> str:
        """Its address; when this returns, it answers."""
        if self._thread is not None:
            raise RuntimeError(f"the gateway runs already, at {self._url}")
        listening = listening_at(HOST, 0)
        url, server = _url(listening), _Server(config(self._limits, self._mappings))
        ended = threading.Event()

        def run() -> None:
            try:
                # A start that fails ends the whole program, or so it is meant; whoever waits below is told instead.
                with contextlib.suppress(SystemExit):
                    asyncio.run(server.serve(sockets=[listening]))
            finally:
                listening.close()
                ended.set()

        thread = threading.Thread(target=run, name="convert-gateway", daemon=True)
        thread.start()
        while not server.started and not ended.wait(0.01):
            pass
        if not server.started:
            thread.join()
            raise RuntimeError("the gateway could not be started; its log says why")
        self._server, self._thread = server, thread
        self._url = url
        return url

    def stop(self) -> None:
        """Ends it, with its children and its files; stopping twice is no mistake."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join()
        self._server = self._thread = None

    @property
    def url(self) -> str:
        if self._thread is None:
            raise RuntimeError("the gateway is not running; start it first")
        return self._url

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
