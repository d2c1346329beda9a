"""Real processes: a server, a worker, a gateway; and waiting for what they do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx2

COMMAND = str(Path(sys.executable).with_name("tidegate"))

# A worker whose leases end soon, so that nobody waits half a minute for one that was killed.
WORKER = """
import sys
from tidegate import Queue
from tidegate.apps import install
from tidegate_apps.convert.app import app
from tidegate_apps.convert.settings import ConvertSettings

url, gateway = sys.argv[1:]
with Queue(url) as queue:
    there = install(app, queue, ConvertSettings(gateway_url=gateway, gateway_timeout=120, retry_after=0.1))
    print("working", flush=True)
    queue.run_worker(4, queues={"convert"}, lease=8.0, renew_every=1.0, margin=1.0, grace=1.0)
"""


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    """What it says as soon as that is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


class Running:
    """A process in a folder, which says in its first line that it is there."""

    def __init__(self, folder: Path, *args: str, **variables: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        self.log = (folder / f"log-{time.monotonic_ns()}.txt").open("w+")
        self.process = subprocess.Popen(
            args, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=self.log,
            env={**kept, "PYTHONUNBUFFERED": "1", **variables},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.log.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)

    def logged(self) -> str:
        self.log.flush()
        return Path(self.log.name).read_text()


class Server(Running):
    """`tidegate serve`, with convert alone. Settings of convert are given by name."""

    def __init__(self, folder: Path, *args: str, **settings: object) -> None:
        variables = {f"TIDEGATE_CONVERT_{name.upper()}": str(value) for name, value in settings.items()}
        super().__init__(
            folder, COMMAND, "serve", "--port", "0", "--json", *args, TIDEGATE_APPS='["convert"]',
            **{"TIDEGATE_CONVERT_LEAST_FREE": "0", **variables},
        )  # fmt: skip
        address = re.search(r"http://[^\"]+", self.said)
        assert address is not None, self.logged()
        self.url = address[0]
        self.client = httpx2.Client(base_url=self.url, timeout=60)
        self.client.get("/convert")  # a browser has its cookie by the time it uploads

    def __exit__(self, *_: object) -> None:
        self.client.close()
        super().__exit__()

    def upload(self, content: bytes, mapping: str = "text", name: str = "a.pdf") -> httpx2.Response:
        files = {"file": (name, content, "application/pdf")}
        return self.client.post("/api/upload", data={"mapping": mapping}, files=files)

    def new(self, content: bytes, mapping: str = "text") -> str:
        answer = self.upload(content, mapping)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def get(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/api/jobs/{job}").json()
        return found

    def ended(self, job: str, seconds: float = 60) -> dict[str, Any]:
        found: dict[str, Any] = until(
            lambda: (found := self.get(job))["status"] in ("complete", "failed") and found, seconds
        )
        return found


def worker(folder: Path, gateway: str) -> Running:
    return Running(folder, sys.executable, "-c", WORKER, "sqlite:///tidegate.db", gateway)


def gateway(folder: Path) -> tuple[Running, str]:
    """`tidegate convert gateway`, and its address."""
    found = Running(folder, COMMAND, "convert", "gateway", "--port", "0", "--json")
    return found, str(json.loads(found.said)["address"])
