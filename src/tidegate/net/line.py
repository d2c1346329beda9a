"""One connection: bytes that come in, counted and never more of them at a time than fit, and bytes that go out."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import cast

from tidegate.net.failures import TooBig

_HIGH = 262_144  # bytes that nobody has taken yet; beyond it the other side has to wait


class SocketStream(asyncio.Protocol):
    """The stream of one connection. One task reads from it at a time."""

    def __init__(self, connected: socket.socket | None = None) -> None:
        self._socket = connected
        self._transport: asyncio.Transport | None = None
        self._came = bytearray()
        self._waits: asyncio.Future[None] | None = None
        self._over = self._paused = self._rests = False
        self._error: Exception | None = None
        self._left = 0

    @property
    def quiet(self) -> bool:
        """Whether it can be used again: it is open, and nothing came that nobody asked for."""
        return not self._over and not self._came and not self._unseen()

    def expect(self, limit: int) -> None:
        """So many bytes may come from now on."""
        self._left, self._rests = limit, False

    def rest(self) -> None:
        """Nothing may come from now on, until something is expected: it ends when something does."""
        self._rests = True

    async def read(self) -> bytes:
        """What has come, none at the end; TooBig when that is more than is expected, OSError when it broke."""
        if not self._came and not self._over:
            self._waits = asyncio.get_running_loop().create_future()
            try:
                await self._waits
            finally:
                self._waits = None
        if not self._came and self._error is not None:
            raise self._error
        found = bytes(self._came)
        self._came.clear()
        if self._paused and self._transport is not None and not self._over:
            self._paused = False
            self._transport.resume_reading()
        self._left -= len(found)
        if self._left < 0:
            raise TooBig("the answer has more bytes on the wire than are read")
        return found

    def write(self, data: bytes) -> None:
        """Sends it, unless the connection has ended: whoever reads next finds that out."""
        if self._transport is not None and not self._over:
            self._transport.write(data)

    def close(self) -> None:
        """Ends it at once; there is nothing left to be said."""
        self._over = True
        if self._transport is not None:
            self._transport.abort()

    # -- what asyncio tells ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._rests:
            self.close()
            return
        self._came += data
        if len(self._came) > _HIGH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._over = True
        sealed = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        if sealed is not None and not _is_said(sealed):
            self._error = ConnectionAbortedError("it was cut before its end was said")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over, self._error = True, self._error or exc
        self._wake()

    def _unseen(self) -> bool:
        """Whether the system has bytes, or the end, that the loop has not come round to."""
        if self._socket is None:
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def _wake(self) -> None:
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)


def _is_said(sealed: ssl.SSLObject) -> bool:
    """Whether the other side has said under TLS that this is the end; asyncio makes no difference."""
    try:
        return not sealed.read(1)
    except ssl.SSLZeroReturnError:
        return True
    except ssl.SSLError:  # more should have come
        return False
