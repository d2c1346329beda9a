"""The tutorial of the page, followed to the letter: a server, a program that is guarded, a service that comes back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import HTTPServer, SimpleHTTPRequestHandler
from importlib.metadata import entry_points
from pathlib import Path
from threading import Thread

import httpx2
import pytest

from tidegate.faults.codes import CORE

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-page.md"
COMMAND = Path(sys.executable).with_name("tidegate")
PORT = "9999"
SOONER = {
    '"20s"': '"4s"',
    "sleep(2)": "sleep(0.2)",
}  # a reader has more patience than a test


@contextmanager
def running(folder: Path, *command: str | Path) -> Iterator[subprocess.Popen[str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    process = subprocess.Popen(
        command, cwd=folder, env={**kept, "PYTHONUNBUFFERED": "1"}, text=True, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=120)
        finally:
            process.kill()


def line_with(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if word in line)


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


@pytest.mark.full
def test_a_guarded_call_shows_on_the_page_as_the_tutorial_says(tmp_path: Path) -> None:
    # A port of our own: 9999 may be somebody's.
    service = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    port = str(service.server_port)
    service.server_close()
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for said, sooner in {PORT: port, **SOONER}.items():
        assert said in code
        code = code.replace(said, sooner)
    (tmp_path / "hello.py").write_text(code)
    # Here are all applications; a reader has those that the extra of the page brings.
    theirs = sorted(each.name for each in entry_points(group="tidegate.apps") if each.extras == ["server"])
    (tmp_path / "tidegate.toml").write_text(f"apps = {json.dumps(theirs)}\n")

    with running(tmp_path, COMMAND, "serve", "--port", "0") as server:
        address = re.search(r"http\S+", line_with(server, "is running at"))
        assert address is not None
        assert line_with(server, "applications") in PAGE.read_text()
        with httpx2.Client(base_url=address[0], timeout=60) as client:
            assert "weather" not in client.get("/targets").text
            with running(tmp_path, sys.executable, "hello.py") as hello:
                assert CORE["network"].message in line_with(hello, "failed")
                assert "is held (breaker open)" in line_with(hello, "not called")
                assert "weather" in client.get("/targets").text
                until(lambda: "Paused by breaker" in client.get("/targets/weather").text)

                service = HTTPServer(("127.0.0.1", int(port)), SimpleHTTPRequestHandler)
                Thread(target=service.serve_forever, daemon=True).start()
                try:
                    until(lambda: "Working" in client.get("/targets/weather").text)
                finally:
                    service.shutdown()
                    service.server_close()
