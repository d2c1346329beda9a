"""Real processes of Tidegate: a folder with settings, what runs there, and how it is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2

COMMAND = str(Path(sys.executable).with_name("tidegate"))
PATIENCE = 120.0  # seconds


def wait(what: Callable[[], Any], why: str) -> Any:
    """What *what* finds, once it finds something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            found = what()
        except (httpx2.TransportError, OSError):
            found = None
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"in vain: {why}")


def toml(values: Mapping[str, Any]) -> str:
    """Values as TOML; tables in line."""

    def written(value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{json.dumps(k)} = {written(v)}" for k, v in value.items()) + "}"
        return json.dumps(value)

    return "\n".join(f"{name} = {written(value)}" for name, value in values.items())


class Place:
    """A folder with settings for one application, and the process that runs there."""

    def __init__(self, folder: Path, app: str, values: Mapping[str, Any]) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        head = f'db = "sqlite:///{folder / "t.db"}"\napps = ["{app}"]\n[server]\nport = {self.port}\n'
        (folder / "tidegate.toml").write_text(f"{head}[{app}]\n{toml(values)}\n")
        self._running: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, *args: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return subprocess.run(
            [COMMAND, *args], cwd=self.folder, env=_environment(), check=check, capture_output=True, text=True,
            input=stdin,
        )  # fmt: skip

    def start(self, verb: str = "serve") -> None:
        with (self.folder / f"{verb}.log").open("a") as log:
            self._running = subprocess.Popen(
                [COMMAND, verb], cwd=self.folder, env=_environment(), stderr=log, stdout=log, text=True
            )

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Its exit code."""
        assert self._running is not None
        self._running.send_signal(how)
        code = self._running.wait(60)
        self._running = None
        return code

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def up(self) -> bool:
        return httpx2.get(f"{self.url}/health/live", timeout=60).status_code == 200

    def close(self) -> None:
        if self._running is not None:
            self.kill()

    def log(self, verb: str = "serve") -> str:
        return (self.folder / f"{verb}.log").read_text()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
