"""A server on a real SQLite file, with a few jobs and targets in every state."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.testclient import TestClient

from tests.web.local import LocalClient
from tidegate import Breaker, Fail, Queue, Target
from tidegate.apps import App, Installed, install
from tidegate.errors import StoreBusy
from tidegate.jobs.function import JobFunction
from tidegate.store.base import Store
from tidegate.web.app import build
from tidegate.web.connections import ConnectionTimeouts, patient
from tidegate.web.site import Site

HERE = "http://127.0.0.1:8321"
SECRET = "hunter2-is-the-password-of-ada"


class Away:
    """A database that cannot be reached, and says more than anybody should read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, work: Any) -> Any:
        raise StoreBusy(f"connection to db:{SECRET} refused")

    write = read

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Leaving(Queue):
    """A queue whose database goes away when it is told to."""

    away = False

    @property
    def store(self) -> Store:
        return Away(super().store) if self.away else super().store


class Shop:
    """A queue with three kinds of jobs: one that succeeds, one that fails, and one that may not be cancelled."""

    def __init__(self, folder: Path, url: str = "", queue: Any = None) -> None:
        self.queue: Leaving = queue or Leaving(url or f"sqlite:///{folder / 'jobs.db'}")
        self.mailer = Target("mailer", breaker=Breaker("mailer"))
        self.send: JobFunction[[str], str] = self.queue.job(queue="mail", name="send", target=self.mailer)(_send)
        self.broken: JobFunction[[str], None] = self.queue.job(queue="mail", name="broken", attempts=1)(_broken)
        self.pinned: JobFunction[[str], None] = self.queue.job(queue="files", name="pinned", cancellable=False)(_pinned)

    def fill(self) -> None:
        """Some done, some failed, some that wait."""
        for n in range(3):
            self.send.enqueue(f"done-{n}@example.org")
            self.broken.enqueue(f"bad-{n}")
        self.queue.drain("mail")
        for n in range(3):
            self.send.options(due=3600 * n or None).enqueue(f"later-{n}@example.org")
        self.pinned.enqueue("a.txt")

    def site(self, **more: Any) -> Site:
        return Site(queue=self.queue, config=settings, **more)


def settings() -> list[dict[str, Any]]:
    return [
        {"key": "store.url", "value": "postgresql://ada:hunter2@db/jobs", "origin": "tidegate.toml"},
        {"key": "server.port", "value": "8321", "origin": "default", "about": "Where it listens.", "secret": False},
    ]


def _send(to: str) -> str:
    return f"sent to {to}"


def _broken(what: str) -> None:
    raise Fail("bad_request")


def _pinned(path: str) -> None: ...


@cache
def filled() -> bytes:
    """The file of a shop that was filled: working through jobs takes a while, and every test needs the same."""
    with tempfile.TemporaryDirectory() as folder:
        with shop(Path(folder)) as found:
            found.fill()
        return (Path(folder) / "jobs.db").read_bytes()


@contextmanager
def client_of(app: FastAPI, base: str = HERE) -> Iterator[TestClient]:
    with LocalClient(app, client=("127.0.0.1", 50000), base_url=base) as client:
        yield client


@contextmanager
def shop(folder: Path, url: str = "") -> Iterator[Shop]:
    found = Shop(folder, url)
    with found.queue:
        yield found


def served(found: Shop, *apps: App[Any], **more: Any) -> FastAPI:
    return build(found.site(apps=[install(app, found.queue) for app in apps], **more))


def app_with(**endpoints: Callable[..., Any]) -> App[Any]:
    """An application with these routes: each once for programs, once for people."""

    def routes(_: Installed[Any]) -> APIRouter:
        made = APIRouter()
        for name, endpoint in endpoints.items():
            for path in (f"/api/{name}", f"/{name}"):
                made.add_api_route(path, endpoint, methods=["GET", "POST"], response_model=None)
        return made

    return App(name="odd", routes=routes)


@contextmanager
def listening(app: FastAPI, port: int = 0, patience: ConnectionTimeouts | None = None) -> Iterator[str]:
    """The server on a port of this machine, any free one unless it is given, in a thread; its address."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_config=None, access_log=False, server_header=False, http=patient(patience)
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
        assert thread.is_alive()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        app.state.closing.set()
        server.should_exit = True
        thread.join(60)
