"""A server on a free port of this machine, in a thread of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import uvicorn

from tidegate.web.app import build
from tidegate.web.site import Site


@contextlib.contextmanager
def running(site: Site) -> Iterator[str]:
    """The address of *site*, as long as the block runs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        port = listening.getsockname()[1]
        app = build(site)
        config = uvicorn.Config(app, log_level="critical", lifespan="off", access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), name="server", daemon=True)
        thread.start()
        try:
            _wait(server, thread)
            yield f"http://127.0.0.1:{port}{site.base}"
        finally:
            app.state.closing.set()
            server.should_exit = True
            thread.join(60)


def _wait(server: uvicorn.Server, thread: threading.Thread) -> None:
    end = time.monotonic() + 60
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise RuntimeError("the server did not start")
        time.sleep(0.01)
