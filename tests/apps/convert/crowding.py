"""Many who upload at once, over real sockets, and how much memory a process has taken for them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.apps.convert.waiting import until

MB = 1024 * 1024
PEAKS = Path("/proc/self/clear_refs")
_HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
_END = b"\r\n--b--\r\n"
_BLOCK = b"x" * 65_536


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(slots=True)
class Upload:
    """One file of *size* bytes that is like no other, on a connection of its own."""

    address: str
    number: int
    size: int
    line: socket.socket = field(init=False)
    sent: int = 0

    def __post_init__(self) -> None:
        where = urlsplit(self.address)
        self.line = socket.create_connection((where.hostname or "", where.port or 0), timeout=120)

    def begin(self) -> None:
        """The head of the request, and the first bytes of the file."""
        start = b"%%PDF-1.7\n%% number %d\n" % self.number
        length = len(_HEAD) + self.size + len(_END)
        head = f"POST /api/upload HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n"
        self.line.sendall(head.encode() + b"content-type: multipart/form-data; boundary=b\r\n\r\n" + _HEAD + start)
        self.sent = len(start)

    def end(self) -> Answer:
        """The rest, and what is said to it."""
        while self.sent < self.size:
            self.line.sendall(_BLOCK[: self.size - self.sent])
            self.sent += min(len(_BLOCK), self.size - self.sent)
        self.line.sendall(_END)
        return self.answer()

    def answer(self) -> Answer:
        with self.line, self.line.makefile("rb") as said:
            status = int(said.readline().split()[1])
            headers = dict(_fields(said))
            return Answer(status, headers, json.loads(said.read(int(headers["content-length"]))))


def _fields(said: Any) -> Iterator[tuple[str, str]]:
    while line := said.readline().strip():
        name, _, value = line.decode().partition(":")
        yield name.lower(), value.strip()


@dataclass(slots=True)
class Told:
    """What each was told: those who came while there was room, those who came after them, and one with too much."""

    taken: list[Answer]
    late: list[Answer]
    large: Answer


def crowd(address: str, drafts: Path, at_once: int, size: int, late: int) -> Told:
    """*at_once* uploads that are all under way before any ends; *late* more, whole, and a large one, meanwhile."""
    uploads = [Upload(address, number, size) for number in range(at_once)]
    for each in uploads:
        each.begin()
    until(lambda: drafts.is_dir() and len(list(drafts.iterdir())) == at_once)
    large = Upload(address, at_once, 51 * MB)
    large.begin()
    with ThreadPoolExecutor(at_once) as pool:
        told = list(pool.map(_whole, [Upload(address, at_once + 1 + n, size) for n in range(late)]))
        return Told(list(pool.map(Upload.end, uploads)), told, large.answer())


def _whole(upload: Upload) -> Answer:
    upload.begin()
    return upload.end()


def forget_peak(pid: int | str = "self") -> float:
    """The memory that a process has now, in MB; from now on its peak is counted anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _of(pid, "VmRSS:")


def peak(pid: int | str = "self") -> float:
    """The most memory that a process had, in MB."""
    return _of(pid, "VmHWM:")


def _of(pid: int | str, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024
