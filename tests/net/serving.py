"""Small servers on addresses of this machine, where one stands for a public host and another for a private one."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from tidegate import net

PUBLIC, PRIVATE = "127.0.0.2", "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Answer = Callable[[bytes], bytes]


def client(**given: object) -> net.Client:
    """One that takes 127.0.0.2 for public, and every other address of this machine for private."""
    settings: dict[str, object] = {
        "user_agent": "Test/1", "allow": [f"{PUBLIC}/32"], "ports": None, "total": "60s", "keep_for": "10m",
    }  # fmt: skip
    return net.Client(**(settings | given))  # type: ignore[arg-type]


@dataclass
class Names:
    """A resolver that says what it is told, name by name, the last answer for ever."""

    answers: dict[str, list[Sequence[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        told = self.answers[host]
        return told.pop(0) if len(told) > 1 else told[0]


def names(**answers: Sequence[str] | Sequence[Sequence[str]]) -> Names:
    """`names(a=["127.0.0.2"])` for the host a.example; a list of lists is one answer after the other."""
    found: dict[str, list[Sequence[str]]] = {"localhost": [[PRIVATE]]}
    for name, told in answers.items():
        found[f"{name}.example"] = [told] if isinstance(told[0], str) else list(told)  # type: ignore[list-item]
    return Names(found)


@dataclass
class Served:
    """What a server saw."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def serving(
    answer: Answer | bytes, *, host: str = PUBLIC, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    """A server that answers each request with bytes, and ends the connection when they say so or are none."""
    served = Served(port)
    open_now: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        task = asyncio.current_task()
        assert task is not None
        open_now[writer] = task
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                served.requests.append(request)
                told = answer if isinstance(answer, bytes) else answer(request)
                writer.write(told)
                await writer.drain()
                if not told or b"connection: close" in told[:4096].lower():
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone, which is what some tests are about
        finally:
            del open_now[writer]
            writer.close()

    server = await asyncio.start_server(talk, host, port, ssl=tls)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        left = dict(open_now)
        for writer in left:
            writer.transport.abort()
        await asyncio.gather(*left.values())
        await server.wait_closed()


def free_port() -> int:
    """A port that nobody has at any address of this machine: a canary may sit beside a server."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


class Canary:
    """A listening socket at a private address: nobody may ever connect to it."""

    def __init__(self, port: int, host: str = PRIVATE) -> None:
        self._socket = socket.create_server((host, port))
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]

    def visited(self) -> bool:
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def redirect(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
