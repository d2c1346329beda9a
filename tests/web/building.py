"""A server on a real SQLite file, with a few jobs and targets in every state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from tidegate import Breaker, Fail, Queue, Target
from tidegate.face.job_function import JobFunction
from tidegate.web.frame import build
from tidegate.web.site import Site

HERE = "http://127.0.0.1:8321"


class Shop:
    """A queue with three kinds of jobs: one that succeeds, one that fails, and one that may not be cancelled."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.queue = Queue(f"sqlite:///{folder / 'jobs.db'}", **options)
        self.mailer = Target("mailer", breaker=Breaker("mailer"))
        self.send: JobFunction[str, str] = self.queue.job(queue="mail", name="send", target=self.mailer)(_send)
        self.broken: JobFunction[str, None] = self.queue.job(queue="mail", name="broken", attempts=1)(_broken)
        self.pinned: JobFunction[str, None] = self.queue.job(queue="files", name="pinned", cancellable=False)(_pinned)

    def fill(self) -> None:
        """Some done, some failed, some that wait."""
        for n in range(3):
            self.send.enqueue(f"done-{n}@example.org")
            self.broken.enqueue(f"bad-{n}")
        self.queue.drain("mail")
        for n in range(3):
            self.send.enqueue(f"later-{n}@example.org", due=self.queue.clock.now() + 3600 * n if n else None)
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


@contextmanager
def client_of(app: FastAPI, base: str = HERE) -> Iterator[TestClient]:
    with TestClient(app, base_url=base) as client:
        yield client


@contextmanager
def shop(folder: Path, **options: Any) -> Iterator[Shop]:
    found = Shop(folder, **options)
    with found.queue:
        yield found


def served(found: Shop, **more: Any) -> FastAPI:
    return build(found.site(**more))
