"""What is known, for all who follow: messages with growing ids, the last of them kept to be told again.

Everything happens on the loop of the server, and nothing there waits: a message is put beside each client, and whoever
does not take it is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from tidegate.web.connections import abort_connection
from tidegate.web.live.watcher import Message, Snapshot, StoreWatcher, changes, describe_line
from tidegate.web.site import LivePolicy, Site

# One browser that follows: what waits to be sent to it, and the connection that is cut when it does not read.

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


_log = logging.getLogger("tidegate.web")
_CHECK_EVERY = 0.25
_PAGE_MILLISECONDS = 10  # milliseconds that a server takes to make a page, more or less
_RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser that lost us comes back

_RECONNECT = b"event: again\ndata: {}\n\n"  # nothing is wrong; a browser that follows on is checked like one that comes


class LiveHub:
    """Begins to look when the first client comes, and ends some time after the last has left."""

    def __init__(self, site: Site, closing: threading.Event) -> None:
        self._site = site
        self._closing = closing  # the server ends
        self.numbers: LivePolicy = site.live
        self.subscribers: set[Subscriber] = set()
        # Larger than all that a server before this one has given out.
        self.newest = int(time.time() * 1000)
        self._kept: deque[tuple[int, bytes, str | None]] = deque(maxlen=self.numbers.kept)
        self._seen: Snapshot | None = None
        self._looked = 0.0  # when the last look ended well
        self._away = True  # the store could not be read
        self._first = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking: StoreWatcher | None = None
        self._running: asyncio.Task[None] | None = None
        self._left = 0.0  # when the last client did

    # -- those who follow ----------------------------------------------------------------------------------------------

    def subscribe(
        self, after: int | None, connection: Any = None, user: str | None = None, *, page: bool = False
    ) -> Subscriber:
        """A client that gets how things are, then what it missed *after* that id, then what happens."""
        numbers = self.numbers
        # Not all of them should come back in the same moment.
        ends = time.monotonic() + numbers.longest * random.uniform(0.8, 1.0)
        client = Subscriber(numbers.queued, ends, connection, user, page=page)
        self.subscribers.add(client)
        missed = [] if after is None else self._missed(after, client)
        client.push(_RETRY + b"".join([chunk("here", self.current_state(user)), *missed]))
        return client

    def unsubscribe(self, client: Subscriber) -> None:
        client.leave()
        self.subscribers.discard(client)
        self._left = time.monotonic()

    async def known(self, limit: float = 5.0) -> None:
        """Waits until something is known, but not for ever: the store may be away."""
        self._begin()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._first.wait()

    def current_state(self, user: str | None = None) -> dict[str, Any]:
        """How things are now, and the notices that nobody has read, of those that are for *user*."""
        seen = self._seen
        lines = (
            []
            if seen is None
            else [line for line in seen.waiting if user is None or seen.audience(line) in (None, user)]
        )
        whole = {} if seen is None else seen.whole()
        waiting = [describe_line(line, self._site) for line in lines]
        return {**whole, **self._beat(), "id": self.newest, "notices": waiting}

    def _missed(self, after: int, client: Subscriber) -> list[bytes]:
        oldest = self._kept[0][0] if self._kept else self.newest + 1
        if not oldest - 1 <= after <= self.newest:
            return [chunk("reset", {"id": self.newest}, self.newest)]
        return [each for id_, each, audience in self._kept if id_ > after and client.hears(audience)]

    # -- what is told --------------------------------------------------------------------------------------------------

    def publish(self, messages: Iterable[Message]) -> None:
        """Tells everybody whom it is for; encoded once, and kept to be told again.

        In one piece: however much one look has found, nobody is too slow for it.
        """
        made: list[tuple[bytes, str | None]] = []
        for kind, about, audience in messages:
            self.newest += 1
            made.append((chunk(kind, about, self.newest), audience))
            self._kept.append((self.newest, *made[-1]))
        if all(audience is None for _, audience in made):
            self._push(b"".join(each for each, _ in made))
            return
        for client in self.subscribers:
            heard = b"".join(each for each, audience in made if client.hears(audience))
            if heard:
                client.push(heard)

    def _push(self, made: bytes) -> None:
        for client in self.subscribers if made else ():
            client.push(made)

    def _beat(self) -> dict[str, Any]:
        """A sign of life, with the age of what is known."""
        alive = {} if self._seen is None else self._seen.alive()
        away = self._away or time.monotonic() - self._looked > 3 * self.numbers.poll_interval + 2
        # Not all browsers should ask for their page in the same moment; programs that follow ask for none.
        pages = sum(client.page for client in self.subscribers)
        return {**alive, "away": away, "spread": min(5000, _PAGE_MILLISECONDS * max(0, pages - 1))}

    def _took(self, seen: Snapshot | None) -> None:
        """What a look has found; None when the store is away."""
        self._first.set()
        self._away = seen is None
        if seen is None:
            return
        before, self._seen, self._looked = self._seen, seen, time.monotonic()
        self.publish(changes(before, seen, self._site))
        if before is not None and before.engine != seen.engine:
            self._push(chunk("beat", self._beat()))

    # -- running -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._running is not None and not self._running.done() and self._loop is loop:
            return

        def tell(seen: Snapshot | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed a moment ago
                loop.call_soon_threadsafe(took, seen)

        def took(seen: Snapshot | None) -> None:
            if self._looking is mine:
                self._took(seen)

        self._loop, self._first = loop, asyncio.Event()
        self._left = time.monotonic()
        last = None if self._seen is None else self._seen.last_event
        self._looking = mine = StoreWatcher(self._site, self.numbers, last, tell)
        mine.start()
        self._running = loop.create_task(self._run(), name="live")

    async def _run(self) -> None:
        numbers, beaten, away = self.numbers, time.monotonic(), False
        try:
            while True:
                await asyncio.sleep(min(_CHECK_EVERY, numbers.beat))
                now = time.monotonic()
                self._look_after(now)
                beat = self._beat()
                if now - beaten >= numbers.beat or beat["away"] != away:
                    beaten, away = now, beat["away"]
                    self._push(chunk("beat", beat))
                if not self.subscribers and now - self._left > numbers.linger:
                    return
        finally:
            if self._looking is not None:
                self._looking.stop()
                self._looking = None

    def _look_after(self, now: float) -> None:
        """Ends those whose time is over, and drops those that do not take what they are sent."""
        for client in list(self.subscribers):
            if client.sending_since is not None and now - client.sending_since > self.numbers.behind:
                _log.info("live_client_dropped")
                client.drop()
            elif self._closing.is_set():
                client.leave()
            elif now > client.ends and not client.gone:
                client.finish(_RECONNECT)

    async def stop(self) -> None:
        """Ends every stream."""
        for client in list(self.subscribers):
            client.leave()
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running


def chunk(kind: str, about: dict[str, Any], id_: int | None = None) -> bytes:
    """One message as a browser reads it."""
    head = "" if id_ is None else f"id: {id_}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(about, separators=(',', ':'))}\n\n".encode()
