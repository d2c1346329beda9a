"""One browser that follows: what waits to be sent to it, and the connection that is cut when it does not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import Any

from tidegate.web.connections import abort_connection

_BUFFER = 32_768  # bytes that a connection may hold for a client which does not read, here and in the kernel


class Subscriber:
    """Everything but `chunk` is called by the board, on its loop. Nothing here waits for the network."""

    __slots__ = ("_chunks", "_connection", "_event", "_limit", "ends", "gone", "page", "sending_since", "user")

    def __init__(
        self, limit: int, ends: float, connection: Any, user: str | None = None, *, page: bool = False
    ) -> None:
        self._chunks: deque[bytes] = deque()
        self._event = asyncio.Event()
        self._limit = limit
        self._connection = connection  # a transport of asyncio, where the server lets us have it
        self.ends = ends
        self.user = user  # who reads there; None: whoever is at this machine, while nobody has a name
        self.page = page  # it fetches its page anew when there is news
        self.gone = False
        self.sending_since: float | None = None
        if connection is not None:
            connection.set_write_buffer_limits(high=_BUFFER)
            with contextlib.suppress(OSError):
                found = connection.get_extra_info("socket")
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)

    def hears(self, audience: str | None) -> bool:
        """Whether a message for one user only is for the one who reads here."""
        return audience is None or self.user is None or self.user == audience

    def push(self, chunk: bytes) -> None:
        """Lets it have a message; one that has too many of them unsent is dropped."""
        if self.gone:
            return
        if len(self._chunks) >= self._limit:
            self.drop()
            return
        self._chunks.append(chunk)
        self._event.set()

    def finish(self, last: bytes) -> None:
        """Its time is over: it gets what is still unsent, and this."""
        self.push(last)
        self.gone = True

    def leave(self) -> None:
        """It gets no more: it has gone, or the server ends."""
        self.gone = True
        self._chunks.clear()
        self._event.set()

    def drop(self) -> None:
        """Cuts the connection: closing it would wait for a reader that does not read."""
        self.leave()
        if self._connection is not None:
            abort_connection(self._connection)

    async def chunk(self) -> bytes | None:
        """What is to be sent next; None when that was all."""
        while not self._chunks:
            if self.gone:
                return None
            self._event.clear()
            await self._event.wait()
        found = b"".join(self._chunks)
        self._chunks.clear()
        return found
