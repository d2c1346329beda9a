"""Many who follow one server, half of them without ever reading: a real process, real sockets, its memory measured.

python -m tests.web.crowd 1000        one crowd
python -m tests.web.crowd 1000 3      three of them, one after the other, on the same server
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.web.api.building import Shop, listening, served, shop
from tidegate.web.site import LivePolicy

_EVERY, _AT_ONCE = 0.5, 24  # seconds, and events with each change
_MB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured. Times in seconds, memory in MB above that of the server before anybody came."""

    followers: int  # who read
    idlers: int  # who never did
    joined_in: float
    slowest: float  # from a change that is on disk to the last of those who read
    usual: float  # the median of it
    calm: float  # and the lower quartile, which a machine that stands still for a while leaves alone
    memory: float  # at most
    left_memory: float  # when all have gone
    still_there: int  # streams that the server has at the end, before anybody goes
    left_over: int  # and after


def serve(folder: str, port: int = 0) -> None:
    """The server: prints its address, then answers each line that it is sent with how many streams it has."""
    with shop(Path(folder)) as there:
        app = served(there, live=LivePolicy(behind=5.0))
        with listening(app, port) as address:
            _say(address)
            for _ in sys.stdin:
                _say(len(app.state.live.subscribers))


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def server_in(folder: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.web.crowd", "serve", folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def measured(n: int, changes: int = 24) -> Figures:
    """The figures of *n* clients."""
    return (await crowds(n, 1, changes))[0]


async def crowds(n: int, times: int, changes: int = 24) -> list[Figures]:
    """The figures of *n* clients, and of as many that come to the same server when those have gone, and so on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * n)), hard))
    with tempfile.TemporaryDirectory() as folder:
        with shop(Path(folder)) as there:
            there.send.enqueue("ada@example.org")
        server = await asyncio.to_thread(server_in, folder)
        try:
            with shop(Path(folder)) as there:
                return await _with(server, there, n, times, changes)
        finally:
            server.kill()
            server.communicate()


async def _with(server: subprocess.Popen[str], there: Shop, n: int, times: int, changes: int) -> list[Figures]:
    assert server.stdout is not None
    assert server.stdin is not None
    port = int(server.stdout.readline().rsplit(":", 1)[1])

    def streams() -> int:
        assert server.stdout is not None
        assert server.stdin is not None
        server.stdin.write("\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    process = psutil.Process(server.pid)
    warm = await joined(port)
    await asyncio.sleep(1)
    warm[1].close()
    before = process.memory_info().rss
    return [
        await _one(Following(port, there, process, before, streams), n, range(at * changes, (at + 1) * changes))
        for at in range(times)
    ]


@dataclass(frozen=True, slots=True)
class Following:
    """One server that is followed."""

    port: int
    there: Shop
    process: psutil.Process
    before: int  # bytes of memory when nobody was there
    streams: Callable[[], int]


async def _one(at: Following, n: int, changes: range) -> Figures:
    port, process, most = at.port, at.process, at.process.memory_info().rss
    heard: dict[str, list[float]] = {}
    began = time.monotonic()
    readers, idlers = [], []
    for _ in range(0, n, 50):
        readers += await asyncio.gather(*(joined(port) for _ in range(25)))
        idlers += await asyncio.gather(*(joined(port, small=True) for _ in range(25)))
    joined_in = time.monotonic() - began
    reading = [asyncio.create_task(follow(reader, heard)) for reader, _ in readers]
    written = {}
    for change in changes:
        actor = f"change-{change}"
        await asyncio.to_thread(_change, at.there, actor)
        written[actor] = time.time()
        await asyncio.sleep(_EVERY)
        most = max(most, process.memory_info().rss)
    async with asyncio.timeout(60):
        while not all(len(heard.get(actor, ())) == len(readers) for actor in written):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    still_there = await asyncio.to_thread(at.streams)
    for task in reading:
        task.cancel()
    for _, writer in (*readers, *idlers):
        writer.transport.abort()
    end = time.monotonic() + 60
    while (left_over := await asyncio.to_thread(at.streams)) and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    late = sorted(max(heard[actor]) - when for actor, when in written.items())
    return Figures(
        followers=len(readers), idlers=len(idlers), joined_in=joined_in, slowest=max(late),
        usual=late[len(late) // 2], calm=late[len(late) // 4], memory=(most - at.before) / _MB,
        left_memory=(process.memory_info().rss - at.before) / _MB, still_there=still_there,
        left_over=left_over,
    )  # fmt: skip


def _change(there: Shop, actor: str) -> None:
    for n in range(_AT_ONCE):
        there.queue.target("mailer").pause(f"{60 + n}s", by=actor if n == _AT_ONCE - 1 else "somebody")


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def joined(port: int, *, small: bool = False) -> Connection:
    """A client that has its answer begun; a *small* one has no room for what it does not read."""
    made = socket.socket()
    if small:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=made, limit=2**16 if not small else 1024)
    writer.write(f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n".encode())
    line = await asyncio.wait_for(reader.readline(), 60)
    assert b" 200 " in line, line
    return reader, writer


async def follow(reader: asyncio.StreamReader, heard: dict[str, list[float]]) -> None:
    while line := await reader.readline():
        if line.startswith(b"data: ") and b'"actor":"change-' in line:
            heard.setdefault(json.loads(line[6:])["actor"], []).append(time.time())


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    else:
        for figures in asyncio.run(crowds(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)):
            _say(figures)
