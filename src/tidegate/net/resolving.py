"""From a name to its addresses."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

from tidegate.runtime.threads import DaemonPool

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text, the best first; OSError when there are none."""


@lru_cache(maxsize=1)
def _threads_of(pid: int) -> DaemonPool:  # noqa: ARG001 - what it is cached by: threads do not survive a fork
    # Lookups hang for as long as the system likes, also after nobody waits for them. They have threads of their own, so
    # that they hold up nothing else, and so many that names without an answer do not hold up the others.
    return DaemonPool(256, "tidegate-dns")


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """What the operating system says."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_threads_of(os.getpid()), _look_up, host, port)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _look_up(
    host: str, port: int
) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP))
