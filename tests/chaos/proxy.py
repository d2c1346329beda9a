"""A wire between workers and a PostgreSQL that can be cut, silenced and taken away. It runs in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_PIECE = 65536


class _Link:
    """One connection through the wire."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near, self.far = near, far
        self.mute = False  # what the server says is thrown away

    def reset(self) -> None:
        """As when a firewall has forgotten it: RST to both, whatever was under way."""
        for writer in (self.near, self.far):
            found = writer.get_extra_info("socket")
            if found is not None and found.family == socket.AF_INET:
                with contextlib.suppress(OSError):
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class Wire:
    """Everything below runs on its loop; `do` is for other threads."""

    def __init__(self, server: Path) -> None:
        self._server = server  # the socket file
        self._links: set[_Link] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._refusing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def serve(self, ready: Callable[[], None], stop: asyncio.Event) -> None:
        listener = await asyncio.start_server(self._met, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        ready()
        await stop.wait()
        listener.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _met(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            if self._refusing:
                raise ConnectionRefusedError
            answers, far = await asyncio.open_unix_connection(str(self._server))
        except OSError:
            near.transport.abort()
            return
        link = _Link(near, far)
        self._links.add(link)
        pumps = [
            asyncio.ensure_future(self._pump(reader, far, lambda: False)),
            asyncio.ensure_future(self._pump(answers, near, lambda: link.mute)),
        ]
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the wire is taken down
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._links.discard(link)
            for writer in (near, far):
                writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, swallows: Callable[[], bool]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._open.wait()
                if not swallows():
                    writer.write(data)
                    await writer.drain()

    def cut(self) -> int:
        """Resets every connection."""
        for link in list(self._links):
            link.reset()
        return len(self._links)

    def cut_some(self, dice: random.Random) -> int:
        """Resets about a third of them."""
        some = [link for link in self._links if dice.random() < 1 / 3]
        for link in some:
            link.reset()
        return len(some)

    def silence(self) -> None:
        """Nothing passes either way, and nobody is told."""
        self._open.clear()

    def deafen(self) -> None:
        """What is sent arrives, such as a commit; no answer comes back."""
        for link in self._links:
            link.mute = True

    def refuse(self) -> None:
        """New connections are refused, and those there are cut."""
        self._refusing = True
        self.cut()

    def heal(self, *, cut: bool) -> None:
        """All passes again; *cut*: over new connections. One that has missed answers is always cut."""
        for link in list(self._links):
            if cut or link.mute:
                link.reset()
        self._refusing = False
        self._open.set()


class WireThread:
    """A wire and the thread that it runs in."""

    def __init__(self, server: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.wire = Wire(server)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(30), "the wire does not listen"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self.wire.serve(self._ready.set, self._stop))
        self._loop.close()

    def do(self, what: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(30)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)


@contextlib.contextmanager
def wire_to(server: Path) -> Iterator[WireThread]:
    found = WireThread(server)
    try:
        yield found
    finally:
        found.close()
