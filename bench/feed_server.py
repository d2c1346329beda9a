"""Many feeds on many addresses of this machine, in a process of their own; it costs as little as it can.

`python -P bench/feed_server.py 200 50`: hosts, and entries in each feed; every path is one. It prints its port, and
ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from functools import lru_cache

from tidegate_demo.simulators.feeds import Written, rss


def address(host: int) -> str:
    """Of a host by its number: all of 127.0.0.0/8 is this machine."""
    return f"127.1.{host // 250}.{host % 250 + 1}"


@lru_cache(maxsize=100_000)
def answers(number: str, items: int) -> tuple[bytes, bytes, bytes]:
    """The validator of a feed, its whole answer, and the one for who has it."""
    written = Written(number, items, items)
    body = rss(number, items, items)
    tag = f"ETag: {written.etag}\r\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\n{tag}Content-Length: {len(body)}\r\n\r\n"
    return written.etag.encode(), head.encode() + body, f"HTTP/1.1 304 Not Modified\r\n{tag}\r\n".encode()


class Serves(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, items: int) -> None:
        self._items = items
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._here = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        self._read += data
        while b"\r\n\r\n" in self._read:
            request, _, self._read = self._read.partition(b"\r\n\r\n")
            path = request.split(b" ", 2)[1].decode("ascii", "replace")
            tag, whole, unchanged = answers(f"{self._here}{path}", self._items)
            self._transport.write(unchanged if tag in request else whole)


async def serve(hosts: int, items: int) -> None:
    loop = asyncio.get_running_loop()
    sockets: list[socket.socket] = []
    port = 0
    for host in range(hosts):
        sockets.append(socket.create_server((address(host), port), backlog=512))
        port = sockets[0].getsockname()[1]
    servers = [await loop.create_server(lambda: Serves(items), sock=each) for each in sockets]
    print(port, flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await loop.run_in_executor(None, sys.stdin.read)
    for server in servers:
        server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
