"""One server connection of a simulator: reads requests, sends responses, and ends or breaks the connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from tidegate.testing.simulator.requests import Read, RecordedRequest, RequestReader, UnreadableRequest
from tidegate.testing.simulator.steps import ConnectionEnd, Sending

# Bytes of pipelined requests that are read during a response.
_MAX_AHEAD = 262_144
# Seconds to read and discard the rest of a rejected request, so that the client gets the response.
_LINGER = 2.0
_RST_AT_CLOSE = struct.pack("ii", 1, 0)


class Host(Protocol):
    """The handler of a connection. All methods run in the simulator's thread."""

    def meet(self, read: Read) -> tuple[RecordedRequest | None, Sending]: ...

    def refuse(self, error: UnreadableRequest) -> Sending: ...

    def over(self, request: RecordedRequest, *, gone: bool) -> None: ...


class ServerConnection(asyncio.Protocol):
    def __init__(self, host: Host, max_body: int) -> None:
        self._host = host
        self._reader = RequestReader(max_body)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked: RecordedRequest | None = None
        self._flushed: asyncio.Future[None] | None = None
        self._full = self._held = self._ended = False
        self._linger: asyncio.TimerHandle | None = None
        self.left: Callable[[ServerConnection], None] = lambda _: None  # called when the connection has ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=0)  # drained data has reached the operating system
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._ended:
            self._reader.feed(data)
            self._process_buffer()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        for pending in (self._task, self._linger):
            if pending is not None:
                pending.cancel()
        self._settle(gone=True)
        self.left(self)

    def drop(self) -> None:
        """Closes the connection now, with a reset during a response."""
        self._ended = True
        busy = self._asked is not None
        self._settle(gone=False)
        self._abort(reset=busy)

    def _process_buffer(self) -> None:
        while self._task is None and not self._ended:
            try:
                read = self._reader.next()
            except UnreadableRequest as error:
                self._refuse(error)
                return
            if read is None:
                break
            self._answer(read)
        if self._reader.owes_continue and self._task is None and not self._ended:
            self._reader.owes_continue = False
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._hold(self._task is not None and self._reader.waiting > _MAX_AHEAD)

    def _answer(self, read: Read) -> None:
        self._asked, sending = self._host.meet(read)
        if self._ended:  # closed by a handler or the control endpoint
            return
        if sending.prompt:
            self._write(b"".join(sending.pieces))
            if not self._full:
                self._end(sending.ending)
                return
            sending = replace(sending, pieces=())
        self._task = asyncio.get_running_loop().create_task(self._send(sending))

    async def _send(self, sending: Sending) -> None:
        if sending.delay:
            await asyncio.sleep(sending.delay)
        await self._drained()
        for piece in sending.pieces:
            self._write(piece)
            await self._drained()
            await asyncio.sleep(sending.pause)
        if sending.ending is ConnectionEnd.HANG:
            await asyncio.sleep(sending.hang)
        self._task = None
        self._end(sending.ending)
        self._process_buffer()

    async def _drained(self) -> None:
        if self._full:
            self._flushed = asyncio.get_running_loop().create_future()
            await self._flushed

    def _end(self, ending: ConnectionEnd) -> None:
        if self._transport is None or self._transport.is_closing():
            self._ended = True
            return  # the client is gone, which connection_lost records
        self._settle(gone=False)
        match ending:
            case ConnectionEnd.KEEP:
                return
            case ConnectionEnd.RESET:
                self._ended = True
                self._abort(reset=True)
            case ConnectionEnd.CLOSE | ConnectionEnd.HANG:
                self._ended = True
                self._transport.close()

    def _refuse(self, error: UnreadableRequest) -> None:
        self._ended = True
        self._write(b"".join(self._host.refuse(error).pieces))
        # Closing while the client still sends would reset the connection and lose the response.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
            self._linger = asyncio.get_running_loop().call_later(_LINGER, self._transport.abort)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and data and not self._transport.is_closing():
            self._transport.write(data)

    def _abort(self, *, reset: bool) -> None:
        if self._transport is None:
            return
        if reset:
            with suppress(OSError):  # it may be closed already
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_AT_CLOSE)
        self._transport.abort()

    def _hold(self, wanted: bool) -> None:
        if wanted == self._held or self._transport is None or self._transport.is_closing():
            return
        self._held = wanted
        (self._transport.pause_reading if wanted else self._transport.resume_reading)()

    def _settle(self, *, gone: bool) -> None:
        request, self._asked = self._asked, None
        if request is not None:
            self._host.over(request, gone=gone)
