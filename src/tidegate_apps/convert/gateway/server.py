"""Runs the gateway: standalone until a signal, or embedded in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable

from tidegate.web import HttpServer, listening_at, url_of
from tidegate_apps.convert.gateway.config import GatewayLimits
from tidegate_apps.convert.gateway.http import app
from tidegate_apps.convert.gateway.mappings import Mappings

HOST = "127.0.0.1"


def server(limits: GatewayLimits | None, mappings: Mappings | None) -> HttpServer:
    """Return the server.

    It accepts twice its capacity, so that further clients get a 503 and not a refused connection.
    """
    bounds = limits or GatewayLimits()
    return HttpServer(app(bounds, mappings), limit=2 * (bounds.uploads + bounds.waiting + bounds.conversions))


def serve(
    host: str, port: int, limits: GatewayLimits | None, mappings: Mappings | None, *, ready: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT, then finish running requests. Raises PortTaken."""
    listening = listening_at(host, port)

    async def main() -> None:
        http_server = server(limits, mappings)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(
                number, http_server.handle_exit, number, None
            )  # a second signal ends it immediately
        serving = asyncio.create_task(http_server.serve(sockets=[listening]))
        while not http_server.started and not serving.done():  # noqa: ASYNC110 - it has only a flag
            await asyncio.sleep(0.01)
        if http_server.started:
            ready(url_of(listening))
        await serving

    with listening:
        asyncio.run(main())


class Embedded:
    """A gateway on a free loopback port, in a thread with its own event loop.

    with Embedded() as url:
        httpx.post(f"{url}/process", ...)
    """

    def __init__(self, limits: GatewayLimits | None = None, mappings: Mappings | None = None) -> None:
        self._limits, self._mappings = limits, mappings
        self._server: HttpServer | None = None
        self._thread: threading.Thread | None = None
        self._url = ""

    def start(self) -> str:
        """Start the gateway and return its URL. It accepts requests when this returns."""
        if self._thread is not None:
            raise RuntimeError(f"the gateway runs already, at {self._url}")
        listening = listening_at(HOST, 0)
        url, running = url_of(listening), server(self._limits, self._mappings)
        ended = threading.Event()

        def run() -> None:
            try:
                # uvicorn exits the process if the start fails. Here the waiting thread gets the error.
                with contextlib.suppress(SystemExit):
                    asyncio.run(running.serve(sockets=[listening]))
            finally:
                listening.close()
                ended.set()

        thread = threading.Thread(target=run, name="convert-gateway", daemon=True)
        thread.start()
        while not running.started and not ended.wait(0.01):
            pass
        if not running.started:
            thread.join()
            raise RuntimeError("the gateway could not be started; its log says why")
        self._server, self._thread = running, thread
        self._url = url
        return url

    def stop(self) -> None:
        """Stop the gateway, its children, and remove its files. Idempotent."""
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
