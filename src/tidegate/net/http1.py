"""One HTTP/1.1 connection with limits on the received bytes."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import h11
import httpx2

from tidegate.durations import brief
from tidegate.net.decoding import Body
from tidegate.net.errors import Broken, Busy, FetchError, TooBig, TooSlow
from tidegate.net.urls import ParsedUrl

_HIGH = 262_144  # unread bytes above which reading from the socket pauses


class SocketStream(asyncio.Protocol):
    """The byte stream of one connection. One task reads from it at a time."""

    def __init__(self, connected: socket.socket | None = None) -> None:
        self._socket = connected
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._over = self._paused = self._rests = False
        self._error: Exception | None = None
        self._left = 0

    @property
    def quiet(self) -> bool:
        """Whether it can be reused: it is open, and no unexpected bytes have arrived."""
        return not self._over and not self._received and not self._has_unread_bytes()

    def expect(self, limit: int) -> None:
        """Allows *limit* bytes from now on."""
        self._left, self._rests = limit, False

    def rest(self) -> None:
        """Allows no bytes until the next `expect`. The connection closes if some arrive."""
        self._rests = True

    async def read(self) -> bytes:
        """Returns the received bytes, empty at the end. Raises TooBig above the limit, OSError if it broke."""
        if not self._received and not self._over:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if not self._received and self._error is not None:
            raise self._error
        data = bytes(self._received)
        self._received.clear()
        if self._paused and self._transport is not None and not self._over:
            self._paused = False
            self._transport.resume_reading()
        self._left -= len(data)
        if self._left < 0:
            raise TooBig("the response has more bytes on the wire than the limit")
        return data

    def write(self, data: bytes) -> None:
        """Sends *data*, unless the connection has ended. The next read reports that."""
        if self._transport is not None and not self._over:
            self._transport.write(data)

    def close(self) -> None:
        """Closes the connection at once."""
        self._over = True
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio callbacks ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._rests:
            self.close()
            return
        self._received += data
        if len(self._received) > _HIGH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._over = True
        sealed = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        if sealed is not None and not _has_close_notify(sealed):
            self._error = ConnectionAbortedError("it was cut before its end was said")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over, self._error = True, self._error or exc
        self._wake()

    def _has_unread_bytes(self) -> bool:
        """Whether the socket has bytes or an end of stream that the event loop has not read yet."""
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
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _has_close_notify(sealed: ssl.SSLObject) -> bool:
    """Whether the peer has sent a TLS close notification. asyncio does not distinguish it from a broken connection."""
    try:
        return not sealed.read(1)
    except ssl.SSLZeroReturnError:
        return True
    except ssl.SSLError:  # truncated
        return False


# -- HTTP/1.1 ----------------------------------------------------------------------------------------------------------

_HEADERS = 256_000  # bytes before the body, including the part of the body that was read with them
_ONE_PART = 102_400  # bytes of a status line with headers, or of a chunk header
_LENGTHS = (b"content-length", b"transfer-encoding")


class Http1Connection:
    """One connection and its protocol state. Raises OSError and `h11.ProtocolError` if it breaks."""

    def __init__(self, line: SocketStream) -> None:
        self._line = line
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ONE_PART)
        self.served = 0  # responses; after the first one the server may have closed it
        self.idle_since = 0.0
        self._ends = False

    @property
    def usable(self) -> bool:
        return self._line.quiet

    async def ask(self, target: bytes, headers: list[tuple[bytes, bytes]], body: int) -> h11.Response:
        """Sends a request. Returns the head of the response. Its body may have up to *body* bytes."""
        request = self._h11.send(h11.Request(method=b"GET", target=target, headers=headers))
        end = self._h11.send(h11.EndOfMessage())
        self._line.expect(_HEADERS)
        self._line.write((request or b"") + (end or b""))
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                self._line.expect(body)
                # Two length headers: the server may mean another end of the response than we do.
                self._ends = sum(name in _LENGTHS for name, _ in event.headers) > 1
                return event
            if event is h11.PAUSED:  # a protocol switch that was not requested
                raise h11.RemoteProtocolError("the other side has changed the protocol")

    async def piece(self) -> bytes | None:
        """Returns the next piece of the body, or None at its end."""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def next_cycle(self) -> bool:
        """Whether another request can be sent: this response is complete, and no bytes followed it."""
        over = self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE
        if not over or self._ends or self._h11.trailing_data[0] or not self._line.quiet:
            return False
        self._h11.start_next_cycle()
        self._line.rest()
        self.served += 1
        return True

    def close(self) -> None:
        self._line.close()

    async def _event(self) -> Any:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            data = await self._line.read()
            if not data and self._h11.their_state is h11.SEND_RESPONSE:
                raise h11.RemoteProtocolError("the connection ended without a response")
            self._h11.receive_data(data)
        return event


# -- requests ----------------------------------------------------------------------------------------------------------

_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "te", "upgrade"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BROKEN = (OSError, h11.ProtocolError)
_HEADERS_TOO_LONG = 431
_WAITED_TOO_LONG = 408
_MAX_SMALL, _SMALL = 20_000, 64  # pieces of a body, and bytes: a piece costs us far more than the sender

Sent = dict[str, tuple[bytes, bytes]]  # headers by lower-case name


@dataclass(slots=True)
class FetchState:
    """The progress of a fetch."""

    place: ParsedUrl
    headers: Sent
    history: list[tuple[int, str]] = field(default_factory=list)
    waits: bool = False  # for a free connection

    def too_late(self, total: float) -> FetchError:
        if self.waits:
            text = f"all our connections to {self.place.host} were taken for {brief(total)}"
            return Busy(text, url=self.place.url)
        return TooSlow(f"{self.place.host} had not answered in full after {brief(total)}", url=self.place.url)


async def send_request(connection: Http1Connection, state: FetchState, body: int) -> h11.Response:
    """Returns the head of the response. Its body may have up to *body* bytes. Raises Broken if there is none."""
    place = state.place
    try:
        response = await connection.ask(place.target, [(b"Host", place.authority), *state.headers.values()], body)
    except _BROKEN as error:
        if getattr(error, "error_status_hint", 0) == _HEADERS_TOO_LONG:
            raise TooBig(f"the headers of {place.host} are too long") from error
        raise Broken(f"the connection to {place.host} broke: {_describe_break(error)}") from error
    if response.status_code == _WAITED_TOO_LONG and connection.served:
        # The timeout is about the time before this request, which crossed it on its way.
        raise Broken(f"the connection to {place.host} broke: it was kept for longer than {place.host} likes")
    return response


async def read_response(connection: Http1Connection, body: Body) -> None:
    """Reads the whole body. Raises Broken if it ends early."""
    pieces = came = 0
    try:
        while (piece := await connection.piece()) is not None:
            body.feed(piece)
            pieces += 1
            came += len(piece)
            if pieces > _MAX_SMALL and came < _SMALL * pieces:
                raise TooBig(f"the body comes in {pieces} pieces of less than {_SMALL} bytes")
    except _BROKEN as error:
        raise Broken(f"the response ended early: {_describe_break(error)}") from error


def _describe_break(error: Exception) -> str:
    """Describes the error without the received bytes, which may be long or secret."""
    return str(error).partition(": bytearray(")[0][:200]


def location_in(headers: httpx2.Headers) -> str:
    """Returns the target of a redirect. Servers that send non-ASCII mostly send UTF-8."""
    raw = headers["Location"].encode("latin-1")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def checked_headers(headers: Mapping[str, str]) -> Sent:
    """Returns *headers* as sent, by lower-case name. Raises ValueError for a header that cannot be sent."""
    checked = {}
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"headers: {name!r:.80} is not allowed as a header; remove it")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"headers: the value of {name} has a control character; remove it")
        checked[name.lower()] = (name.encode("ascii"), value.encode("latin-1"))
    return checked
