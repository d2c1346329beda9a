"""A server that may open few files, and more connections than that."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.processes import COMMAND, wait

FILES = 96


def _few() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


@pytest.mark.full
def test_a_server_without_a_file_left_says_so_and_answers_again_when_the_crowd_has_gone(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("apps = []\n")
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [COMMAND, "serve", "--port", "0", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True,
            preexec_fn=_few,  # noqa: PLW1509 - nothing else runs in this process that could hold a lock
        )  # fmt: skip
    assert server.stdout is not None
    with server, server.stdout:
        try:
            address = json.loads(server.stdout.readline())["address"]
            parts = urlsplit(address)
            crowd = [socket.create_connection((str(parts.hostname), parts.port or 0), 60) for _ in range(2 * FILES)]
            try:
                wait(
                    lambda: "no_file_left" in (tmp_path / "log").read_text() or _refused(crowd), "nobody is turned away"
                )
                assert server.poll() is None
            finally:
                for line in crowd:
                    line.close()
            wait(lambda: httpx2.get(f"{address}/health/ready", timeout=60).status_code == 200, "it answers again")
        finally:
            server.terminate()
        assert server.wait(60) == 0
    # Python's own server writes hundreds of lines in each second that no file is left.
    assert len((tmp_path / "log").read_text().splitlines()) < 100


def _refused(crowd: list[socket.socket]) -> bool:
    for line in crowd:
        line.settimeout(0.01)
        try:
            if b"503" in line.recv(100):
                return True
        except TimeoutError:
            continue
    return False
