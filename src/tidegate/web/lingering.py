"""Answers that come before the request has been heard to its end.

A client that is still sending when the connection closes is told of a broken connection, and never sees why it was
refused. So the rest is heard out, for a while, and thrown away.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

_MAX_BYTES = 512_000_000  # bytes
_LONGEST, _SILENT = 60.0, 2.0  # seconds in all, and without a word


class BodyReader:
    """The body of a request, and how far it was read."""

    __slots__ = ("_receive", "_waits", "ended")

    def __init__(self, receive: Receive, scope: Scope) -> None:
        self._receive = receive
        # Who waits for a sign sends nothing, and reading would be the sign.
        self._waits = Headers(scope=scope).get("expect", "").lower() == "100-continue"
        self.ended = False

    async def __call__(self) -> Message:
        self._waits = False
        message = await self._receive()
        self.ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def out(self) -> None:
        """Hears the rest, unless it is too much, takes too long, or nobody is sending."""
        heard = 0
        try:
            async with asyncio.timeout(_LONGEST):
                while not (self.ended or self._waits) and heard < _MAX_BYTES:
                    message = await asyncio.wait_for(self(), _SILENT)
                    heard += len(message.get("body", b""))
        except TimeoutError:
            self.ended = True
