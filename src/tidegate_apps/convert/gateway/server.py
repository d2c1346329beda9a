"""Runs the gateway: standalone until a signal, or embedded in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

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


# -- command: `tidegate convert gateway` -------------------------------------------------------------------------------


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8322, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 takes a free one."
)
@click.option("--at-a-time", type=click.IntRange(1, 256), help="Conversions at a time.  [default: one for each core]")
@click.option(
    "--most-bytes",
    default=50 * 1024 * 1024,
    show_default="50 MB",
    type=click.IntRange(1024),
    help="How large a file may be; as convert.most_bytes of whoever asks.",
)
@click.option(
    "--timeout",
    default="3m",
    show_default=True,
    metavar="DURATION",
    help="How long whoever asks waits for one conversion; as convert.gateway_timeout there.",
)
@click.option(
    "--mappings", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder with more mappings."
)
@click.option("--json", "as_json", is_flag=True, help="Print where it is as one line of JSON.")
def gateway(
    host: str, port: int, at_a_time: int | None, most_bytes: int, timeout: str, mappings: Path | None, as_json: bool
) -> int:
    """Turns PDF files into XML over HTTP, until SIGTERM or SIGINT.

    It asks nobody for a password: keep it where only Tidegate reaches it, and set convert.gateway_url there.
    """
    from tidegate.web import PortTaken

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)

    try:
        known = Mappings(mappings)
    except ValueError as error:
        raise click.UsageError(f"--mappings: {error}") from error

    def ready(address: str) -> None:
        about = {"address": address, "mappings": known.names}
        lines = f"The gateway is at {address}\n  mappings  {', '.join(known.names)}\n  stop with Ctrl-C"
        click.echo(json.dumps(about) if as_json else lines)

    limits = GatewayLimits.for_one_who_waits(_seconds(timeout), most_bytes)
    if at_a_time is not None:
        limits = replace(limits, conversions=at_a_time)
    try:
        serve(host, port, limits, known, ready=ready)
    except PortTaken as error:
        raise _Unusable(str(error)) from error
    return 0


def _seconds(lasts: str) -> float:
    from tidegate.guard import Seconds

    try:
        return float(Seconds(lasts))
    except ValueError as error:
        raise click.UsageError(f"--timeout: {error}") from error


class _Unusable(click.ClickException):
    exit_code = 3
