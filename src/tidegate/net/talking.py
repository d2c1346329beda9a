"""HTTP/1.1 on one connection: a request, its answer, and the next one."""

from __future__ import annotations

from typing import Any

import h11

from tidegate.net.line import SocketStream

_HEADERS = 256_000  # bytes before the body, what was read of it at the same time included
_ONE_PART = 102_400  # bytes of a status line with its headers, or of what stands before a chunk
_LENGTHS = (b"content-length", b"transfer-encoding")


class Http1Connection:
    """One connection, and how far its talk has come. OSError and `h11.ProtocolError` when it breaks."""

    def __init__(self, line: SocketStream) -> None:
        self._line = line
        self._talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ONE_PART)
        self.served = 0  # answers; after the first one the other side may have ended it
        self.idle_since = 0.0
        self._ends = False

    @property
    def usable(self) -> bool:
        return self._line.quiet

    async def ask(self, target: bytes, headers: list[tuple[bytes, bytes]], body: int) -> h11.Response:
        """The head of the answer; with its body at most *body* bytes may come."""
        request = self._talk.send(h11.Request(method=b"GET", target=target, headers=headers))
        end = self._talk.send(h11.EndOfMessage())
        self._line.expect(_HEADERS)
        self._line.write((request or b"") + (end or b""))
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                self._line.expect(body)
                # Who says in two ways where the answer ends may mean another end than we do.
                self._ends = sum(name in _LENGTHS for name, _ in event.headers) > 1
                return event
            if event is h11.PAUSED:  # it speaks something else from here on, which nobody asked for
                raise h11.RemoteProtocolError("the other side has changed the protocol")

    async def piece(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def next_cycle(self) -> bool:
        """Whether another request can be sent; not when anything is left of this one, or came beyond its answer."""
        over = self._talk.our_state is h11.DONE and self._talk.their_state is h11.DONE
        if not over or self._ends or self._talk.trailing_data[0] or not self._line.quiet:
            return False
        self._talk.start_next_cycle()
        self._line.rest()
        self.served += 1
        return True

    def close(self) -> None:
        self._line.close()

    async def _event(self) -> Any:
        while (event := self._talk.next_event()) is h11.NEED_DATA:
            data = await self._line.read()
            if not data and self._talk.their_state is h11.SEND_RESPONSE:
                raise h11.RemoteProtocolError("it ended without an answer")
            self._talk.receive_data(data)
        return event
