"""A real server under a flood of wrong passwords from many addresses: it goes on answering everything else."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

import httpx2
import pytest

from tests.processes import Place, wait

CLIENTS = 120  # more than the server has threads
PASSWORD = "correct horse battery"
# The threads of the server would be busy with at least so many password checks before anything else had its turn.
QUEUED = 40


class Flood:
    """Clients that try wrong passwords, each from an address of its own, until it ends; counts the statuses."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.answers: Counter[int] = Counter()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._try, args=(n,), daemon=True) for n in range(CLIENTS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)

    def _try(self, n: int) -> None:
        tries = 0
        while not self._ended.is_set():
            tries += 1
            body = urlencode({"name": f"user{n}", "password": "wrong"}).encode()
            head = (
                f"POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\norigin: http://127.0.0.1:{self._port}\r\n"
                f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\n\r\n"
            )
            source = (f"127.{1 + tries // 200 % 200}.{1 + tries % 200}.{1 + n}", 0)
            try:
                with socket.create_connection(("127.0.0.1", self._port), 120, source_address=source) as line:
                    line.sendall(head.encode() + body)
                    self.answers[int(line.recv(1000).split()[1])] += 1
            except (OSError, IndexError):
                self.answers[0] += 1


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place", "convert", {})


def test_health_answers_while_strangers_try_passwords(place: Place) -> None:
    place.run("user", "add", "ada", "--role", "admin", "--password-stdin", stdin=f"{PASSWORD}\n")
    place.start()
    try:
        wait(lambda: httpx2.get(f"{place.url}/health/ready", timeout=60).status_code == 200, "the server is ready")
        with Flood(place.port) as flood:
            wait(lambda: flood.answers.total() > CLIENTS, "the flood is there")
            checked = []
            for path in ["/health/live", "/health/ready"] * 4:
                before = flood.answers[403]
                assert httpx2.get(f"{place.url}{path}", timeout=120).status_code == 200
                checked.append(flood.answers[403] - before)
            refused = flood.answers[429]
        # In between, the flood had few of its passwords checked: nobody waited in line behind them.
        assert sorted(checked)[len(checked) // 2] < QUEUED / 2, (checked, flood.answers)
        assert refused > 0
        assert flood.answers[500] == 0
    finally:
        place.kill()
