"""The live-update hub: numbered messages for all subscribers, with a replay buffer.

Everything runs on the server's event loop and never blocks. A message goes into each subscriber's queue. A subscriber
that does not read is dropped.
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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from tidegate.errors import StoreError
from tidegate.targets.table import TargetEvent
from tidegate.validation import JsonObject
from tidegate.web.connections import abort_connection
from tidegate.web.live.watcher import Message, Snapshot, StoreWatcher, changes, describe_line
from tidegate.web.site import LivePolicy, Site

_BUFFER = 32_768  # bytes buffered for a client that does not read, in the process and in the kernel


class Subscriber:
    """One connected browser: its unsent messages and its connection.

    The hub calls everything except `chunk`, on its event loop. No method waits for the network.
    """

    __slots__ = ("_chunks", "_connection", "_event", "_limit", "ends", "farewell", "gone", "page", "user")

    def __init__(
        self, limit: int, ends: float, connection: Any, user: str | None = None, *, page: bool = False
    ) -> None:
        self._chunks: deque[bytes] = deque()
        self._event = asyncio.Event()
        self._limit = limit
        self._connection = connection  # asyncio transport, if the server exposes it
        self.ends = ends
        self.user = user  # signed-in user; None: a local request while no user exists
        self.page = page  # it reloads its page after a change
        self.farewell = _RECONNECT
        self.gone = False
        if connection is not None:
            connection.set_write_buffer_limits(high=_BUFFER)
            with contextlib.suppress(OSError):
                sock = connection.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)

    def hears(self, audience: str | None) -> bool:
        """Whether a message for *audience* is for the user of this subscriber."""
        return audience is None or self.user is None or self.user == audience

    def push(self, chunk: bytes) -> None:
        """Queue a message. Drops the subscriber if too many are unsent."""
        if self.gone:
            return
        if len(self._chunks) >= self._limit:
            self.drop()
            return
        self._chunks.append(chunk)
        self._event.set()

    def finish(self) -> None:
        """Send the unsent messages and the farewell, then end."""
        self.push(self.farewell)
        self.gone = True

    def leave(self) -> None:
        """Send nothing more: the client has disconnected or the server stops."""
        self.gone = True
        self._chunks.clear()
        self._event.set()

    def drop(self) -> None:
        """Abort the connection. Closing it would wait for a client that does not read."""
        self.leave()
        if self._connection is not None:
            abort_connection(self._connection)

    async def chunk(self) -> bytes | None:
        """Return the bytes to send next. None at the end."""
        while not self._chunks:
            if self.gone:
                return None
            self._event.clear()
            await self._event.wait()
        body = b"".join(self._chunks)
        self._chunks.clear()
        return body


EVENT_BATCH = 100
_PING = b": ping\n\n"
Read = Callable[[int], Awaitable[list[TargetEvent]]]
Encode = Callable[[Sequence[TargetEvent]], bytes]


class EventSubscriber(Subscriber):
    """A program that follows target and queue events: first those after an id, from the store, then new ones.

    *read* returns up to EVENT_BATCH events after an id, *encode* the bytes of those that the program wants.
    """

    __slots__ = ("_encode", "_hub", "_last", "_read", "replays")

    def __init__(self, hub: LiveHub, ends: float, connection: Any, *, after: int, read: Read, encode: Encode) -> None:
        super().__init__(hub.numbers.queued, ends, connection)
        self.farewell = b""
        self.replays = True
        self._hub, self._last, self._read, self._encode = hub, after, read, encode

    def publish(self, events: Sequence[TargetEvent]) -> None:
        """Queue new events. A replay finds them in the store."""
        body = b"" if self.replays else self._encode([event for event in events if event.id > self._last])
        if body:
            self.push(body)

    def beat(self) -> None:
        if not self.replays:
            self.push(_PING)

    async def chunk(self) -> bytes | None:
        while self.replays and not (self.gone or self._chunks):
            if body := await self._replay():
                return body
        return await super().chunk()

    async def _replay(self) -> bytes:
        """Return the next missed events. The replay ends when the hub has published no event after its last one."""
        published = self._hub.last_event
        try:
            events = await self._read(self._last)
        except StoreError:
            await asyncio.sleep(self._hub.numbers.beat)
            return _PING
        self._last = max((self._last, *(event.id for event in events)))
        if published is None:
            await asyncio.sleep(self._hub.numbers.poll_interval)
        elif len(events) < EVENT_BATCH:
            self._last = max(self._last, published)
            self.replays = (self._hub.last_event or 0) > self._last
        return self._encode(events)


_log = logging.getLogger("tidegate.web")
_CHECK_EVERY = 0.25
_PAGE_MILLISECONDS = 10  # rough cost of rendering a page
_RETRY = b"retry: 2000\n\n"  # milliseconds before a disconnected browser reconnects

_RECONNECT = b"event: again\ndata: {}\n\n"  # not an error: a reconnect repeats the permission check


class LiveHub:
    """Starts the store watcher with the first subscriber and stops it some time after the last one left."""

    def __init__(self, site: Site, closing: threading.Event) -> None:
        self._site = site
        self._closing = closing  # set when the server stops
        self.numbers: LivePolicy = site.live
        self.subscribers: set[Subscriber] = set()
        self.followers: set[EventSubscriber] = set()
        # Higher than any id of an earlier server process.
        self.newest = int(time.time() * 1000)
        self._replay: deque[tuple[int, bytes, str | None]] = deque(maxlen=self.numbers.kept)
        self._snapshot: Snapshot | None = None
        self._read_at = 0.0  # time of the last successful snapshot
        self._away = True  # the store is unreachable
        self._first = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watcher: StoreWatcher | None = None
        self._running: asyncio.Task[None] | None = None
        self._last_left_at = 0.0  # when the last subscriber left

    # -- subscribers ---------------------------------------------------------------------------------------------------

    def subscribe(
        self, after: int | None, connection: Any = None, user: str | None = None, *, page: bool = False
    ) -> Subscriber:
        """Add a subscriber. It gets the current state, the messages missed *after* that id, then new ones."""
        policy = self.numbers
        # Spread the reconnects over time.
        ends = time.monotonic() + policy.longest * random.uniform(0.8, 1.0)
        client = Subscriber(policy.queued, ends, connection, user, page=page)
        self.subscribers.add(client)
        missed = [] if after is None else self._missed(after, client)
        client.push(_RETRY + b"".join([chunk("here", self.current_state(user)), *missed]))
        return client

    def follow(self, after: int, connection: Any, *, read: Read, encode: Encode) -> EventSubscriber:
        """Add a subscriber that gets the events *after* that id."""
        client = EventSubscriber(
            self, time.monotonic() + self.numbers.longest_follow, connection, after=after, read=read, encode=encode
        )
        client.push(b": following\nretry: 3000\nid: %d\n\n" % after)
        self.followers.add(client)
        return client

    def unsubscribe(self, client: Subscriber) -> None:
        client.leave()
        if isinstance(client, EventSubscriber):
            self.followers.discard(client)
        self.subscribers.discard(client)
        self._last_left_at = time.monotonic()

    async def known(self, limit: float = 5.0) -> None:
        """Wait for the first snapshot, up to *limit* seconds: the store may be unreachable."""
        self._begin()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._first.wait()

    def current_state(self, user: str | None = None) -> JsonObject:
        """Return the current state and the open unread notices for *user*."""
        snapshot = self._snapshot
        lines = (
            []
            if snapshot is None
            else [line for line in snapshot.waiting if user is None or snapshot.audience(line) in (None, user)]
        )
        whole = {} if snapshot is None else snapshot.whole()
        waiting = [describe_line(line, self._site) for line in lines]
        return {**whole, **self._beat(), "id": self.newest, "notices": waiting}

    @property
    def last_event(self) -> int | None:
        """The id of the last event that was published. None before the first snapshot."""
        return None if self._snapshot is None else self._snapshot.last_event

    def _missed(self, after: int, client: Subscriber) -> list[bytes]:
        oldest = next((id_ for id_, _, _ in self._replay), self.newest + 1)
        if not oldest - 1 <= after <= self.newest:
            return [chunk("reset", {"id": self.newest}, self.newest)]
        return [encoded for id_, encoded, audience in self._replay if id_ > after and client.hears(audience)]

    # -- messages ------------------------------------------------------------------------------------------------------

    def publish(self, messages: Iterable[Message]) -> None:
        """Send messages to their audience. Each is encoded once and kept for replay.

        Messages of one snapshot go out as one chunk, so that a large snapshot does not overflow a subscriber's queue.
        """
        encoded: list[tuple[bytes, str | None]] = []
        for kind, about, audience in messages:
            self.newest += 1
            encoded.append((chunk(kind, about, self.newest), audience))
            self._replay.append((self.newest, *encoded[-1]))
        if all(audience is None for _, audience in encoded):
            self._push(b"".join(message for message, _ in encoded))
            return
        for client in self.subscribers:
            own = b"".join(message for message, audience in encoded if client.hears(audience))
            if own:
                client.push(own)

    def _push(self, body: bytes) -> None:
        for client in self.subscribers if body else ():
            client.push(body)

    def _beat(self) -> JsonObject:
        """Return a heartbeat with the age of the snapshot."""
        alive = {} if self._snapshot is None else self._snapshot.alive()
        away = self._away or time.monotonic() - self._read_at > 3 * self.numbers.poll_interval + 2
        # Spread the page reloads over time. Programs that subscribe do not reload pages.
        pages = sum(client.page for client in self.subscribers)
        return {**alive, "away": away, "spread": min(5000, _PAGE_MILLISECONDS * max(0, pages - 1))}

    def _on_snapshot(self, snapshot: Snapshot | None) -> None:
        """Publish the changes of a snapshot. None: the store is unreachable."""
        self._first.set()
        self._away = snapshot is None
        if snapshot is None:
            return
        before, self._snapshot, self._read_at = self._snapshot, snapshot, time.monotonic()
        self.publish(changes(before, snapshot, self._site))
        for follower in self.followers:
            follower.publish(snapshot.events)
        if before is not None and before.engine != snapshot.engine:
            self._push(chunk("beat", self._beat()))

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        if self._running is not None and not self._running.done() and self._loop is loop:
            return

        def tell(snapshot: Snapshot | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(took, snapshot)

        def took(snapshot: Snapshot | None) -> None:
            if self._watcher is mine:
                self._on_snapshot(snapshot)

        self._loop, self._first = loop, asyncio.Event()
        self._last_left_at = time.monotonic()
        self._watcher = mine = StoreWatcher(self._site, self.numbers, self.last_event, tell)
        mine.start()
        self._running = loop.create_task(self._run(), name="live")

    async def _run(self) -> None:
        policy, beaten, away = self.numbers, time.monotonic(), False
        try:
            while True:
                await asyncio.sleep(min(_CHECK_EVERY, policy.beat))
                now = time.monotonic()
                self._enforce_limits(now)
                beat = self._beat()
                if now - beaten >= policy.beat or beat["away"] != away:
                    beaten, away = now, beat["away"]
                    self._push(chunk("beat", beat))
                    for follower in self.followers:
                        follower.beat()
                if not (self.subscribers or self.followers) and now - self._last_left_at > policy.linger:
                    return
        finally:
            if self._watcher is not None:
                self._watcher.stop()
                self._watcher = None

    def _enforce_limits(self, now: float) -> None:
        """End subscribers whose time is over, and all when the server stops."""
        for client in (*self.subscribers, *self.followers):
            if self._closing.is_set():
                client.leave()
            elif now > client.ends and not client.gone:
                client.finish()

    async def stop(self) -> None:
        """End every stream."""
        for client in (*self.subscribers, *self.followers):
            client.leave()
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running


def chunk(kind: str, about: JsonObject, id_: int | None = None) -> bytes:
    """Encode one server-sent event."""
    head = "" if id_ is None else f"id: {id_}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(about, separators=(',', ':'))}\n\n".encode()
