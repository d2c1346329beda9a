"""Where a simulator takes connections: a port of this machine that can be shut, so that connecting is refused."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable

from tidegate.testing.simulator.wire import ServerConnection

HOST = "127.0.0.1"
_BACKLOG = 128
_SHARED = socket.SO_REUSEADDR if sys.platform in ("linux", "win32") else socket.SO_REUSEPORT
_RETRY_SECONDS = 0.1  # after the system had no more sockets to give


class Listener:
    """One port. Made in any thread, where a port that is taken raises; all else in the thread of the loop.

    At most *most* connections are inside; those beyond wait outside, as does each for *slow* seconds.
    """

    def __init__(self, port: int, limit: int, make: Callable[[], ServerConnection], slow: float = 0.0) -> None:
        self._keeps_port = _bound(port)  # nobody else gets it while the door is shut
        self.port: int = self._keeps_port.getsockname()[1]
        self._limit, self._make, self._slow = limit, make, slow
        self._listening: socket.socket | None = None
        self._watching = False
        self._timer: asyncio.TimerHandle | None = None
        self._entering: set[asyncio.Task[None]] = set()
        self.inside: set[ServerConnection] = set()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def open(self) -> None:
        if self._listening is None:
            self._listening = _bound(self.port)
            self._listening.listen(_BACKLOG)
            self._watch()

    def shut(self) -> None:
        """Nothing listens any more, and everybody is thrown out."""
        if self._listening is not None:
            self._unwatch()
            self._listening.close()
            self._listening = None
        for task in self._entering:
            task.cancel()
        for connection in list(self.inside):
            connection.drop()

    def close(self) -> None:
        self.shut()
        self._keeps_port.close()

    def left(self, connection: ServerConnection) -> None:
        self.inside.discard(connection)
        if self._listening is not None:
            self._watch()

    def _watch(self) -> None:
        if not self._watching and self._timer is None and self._listening is not None and self._room():
            asyncio.get_running_loop().add_reader(self._listening, self._knock)
            self._watching = True

    def _unwatch(self) -> None:
        if self._watching and self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._watching = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _knock(self) -> None:
        if self._slow:
            self._later(self._slow, self._enter)
        else:
            self._enter()

    def _enter(self) -> None:
        self._timer = None
        while self._listening is not None and self._room():
            try:
                found, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:
                self._later(_RETRY_SECONDS, self._enter)
                return
            found.setblocking(False)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._welcome(found)
            if self._slow:
                break
        self._unwatch()
        self._watch()

    def _welcome(self, found: socket.socket) -> None:
        loop, connection = asyncio.get_running_loop(), self._make()
        connection.left = self.left
        self.inside.add(connection)
        task = loop.create_task(_greet(loop, connection, found))
        self._entering.add(task)

        def entered(task: asyncio.Task[None]) -> None:
            self._entering.discard(task)
            if task.cancelled() or task.exception() is not None:  # the door was shut, or the client is gone
                found.close()
                self.left(connection)

        task.add_done_callback(entered)

    def _later(self, wait: float, what: Callable[[], None]) -> None:
        self._unwatch()
        self._timer = asyncio.get_running_loop().call_later(wait, what)

    def _room(self) -> bool:
        return len(self.inside) < self._limit


async def _greet(loop: asyncio.AbstractEventLoop, connection: ServerConnection, found: socket.socket) -> None:
    await loop.connect_accepted_socket(lambda: connection, found)


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, _SHARED, 1)
        sock.bind((HOST, port))
    except OSError as error:
        sock.close()
        raise OSError(
            error.errno, f"port: {port} cannot be used ({error.strerror}); give another, or 0 for any"
        ) from error
    return sock
