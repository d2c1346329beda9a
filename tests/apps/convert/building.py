"""Convert on a database, a folder and virtual time, before a gateway that does as it is told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from starlette.testclient import TestClient

from tests.databases import Database
from tests.web.api.building import HERE
from tests.web.local import LocalClient
from tidegate import Queue
from tidegate.apps import Installed, install
from tidegate.clock import VirtualClock
from tidegate.guard import Tuning
from tidegate.secrets import Secrets
from tidegate.testing import Simulator
from tidegate.web.app import build
from tidegate.web.auth import Authenticator
from tidegate.web.site import Site
from tidegate_apps.convert.app import app
from tidegate_apps.convert.models import File, file_of, job_of
from tidegate_apps.convert.settings import ConvertSettings

XML = b"<?xml version='1.0'?><document><p>tide</p></document>"
_numbers = itertools.count()
KEY = Secrets("k" * 32)
# What came through a proxy is nobody from here: a visitor, whom a cookie tells apart.
ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}


def pdf(n: int | None = None, size: int = 0) -> bytes:
    """What begins like a PDF; another one at each call, unless a number is given."""
    head = b"%%PDF-1.7\n%% number %d\n" % (next(_numbers) if n is None else n)
    return head + b"x" * max(0, size - len(head))


@dataclass
class Place:
    """Everything that one test needs."""

    there: Installed[ConvertSettings]
    clock: VirtualClock
    gateway: Simulator
    folder: Path
    site: Site
    client: TestClient

    @property
    def queue(self) -> Queue:
        return self.there.queue

    def upload(self, content: bytes | None = None, mapping: str = "text", name: str = "a.pdf", **more: Any) -> Any:
        files = {"file": (name, pdf() if content is None else content, "application/pdf")}
        return self.client.post("/api/upload", data={"mapping": mapping}, files=files, **more)

    def new(self, content: bytes | None = None, **more: Any) -> str:
        """The id of a new job."""
        answer = self.upload(content, **more)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def work(self, seconds: float = 5.0, **numbers: Any) -> None:
        """So much of virtual time with a worker."""

        async def main() -> None:
            stop = asyncio.Event()
            task = asyncio.create_task(self.queue.arun_worker(stop=stop, **{"queues": {"convert"}, **numbers}))
            await asyncio.sleep(seconds)
            stop.set()
            await task

        self.clock.run(main())

    def number(self, job: str) -> int:
        """Of the job in the queue, by the id that its owner knows."""
        found = job_of(self.there.db, job)
        assert found is not None
        return found

    def get(self, job: str, **more: Any) -> dict[str, Any]:
        answer = self.client.get(f"/api/jobs/{job}", **more)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def file(self, job: str) -> File:
        found = file_of(self.there.db, self.number(job))
        assert found is not None
        return found

    def files(self, kind: str) -> list[Path]:
        return sorted((self.folder / kind).glob("*"))

    def calls(self) -> int:
        return self.gateway.count("POST /process")

    def another(self) -> TestClient:
        """Somebody else's browser."""
        return LocalClient(build(self.site), client=("127.0.0.1", 50000), base_url=HERE)


@contextmanager
def place(db: Database, folder: Path, **settings: Any) -> Iterator[Place]:
    clock = VirtualClock()
    files = folder / "files"
    with ExitStack() as stack:
        sim = stack.enter_context(Simulator("gateway"))
        sim.on("GET /health", {"status": "ok"})
        sim.on("POST /process", XML)
        queue = stack.enter_context(
            Queue(db.url, driver=db.driver, clock=clock, inline=True, tuning=Tuning(rng=lambda: 0.5))
        )
        given = {"gateway_url": sim.url, "storage": str(files), "least_free": 0.0, "anonymous": True, **settings}
        there = install(app, queue, ConvertSettings(**given))
        stack.push(there.closing)
        site = Site(queue=queue, apps=[there], access=Authenticator(secrets=KEY))
        client = stack.enter_context(LocalClient(build(site), client=("127.0.0.1", 50000), base_url=HERE))
        client.get("/convert")  # a browser has its cookie by the time it uploads
        yield Place(there, clock, sim, files, site, client)


def code_of(answer: httpx2.Response) -> tuple[int, str]:
    """The status and the code of a problem."""
    return answer.status_code, str(answer.json()["code"])


def type_of(answer: httpx2.Response) -> tuple[int, str]:
    """The status and the type of a problem that has none of the ten codes."""
    told = answer.json()
    assert told["code"] is None
    return answer.status_code, str(told["type"]).rpartition("/")[2]
