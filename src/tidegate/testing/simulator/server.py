"""The server of a simulator: its thread, the two listeners, and the outage that closes one of them."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

from tidegate.clock import Clock
from tidegate.testing.simulator.connection import ServerConnection
from tidegate.testing.simulator.control import PATH, controls
from tidegate.testing.simulator.requests import Read, RecordedRequest, UnreadableRequest
from tidegate.testing.simulator.routes import Script
from tidegate.testing.simulator.steps import Scripted, Sending, Step, sending_of, step_of

# -- listener ----------------------------------------------------------------------------------------------------------

HOST = "127.0.0.1"
_BACKLOG = 128
_SHARED = socket.SO_REUSEADDR if sys.platform in ("linux", "win32") else socket.SO_REUSEPORT
_RETRY_SECONDS = 0.1  # after the system ran out of sockets


class Listener:
    """One port. Create it in any thread, which raises if the port is taken. Use it in the loop's thread.

    Up to *limit* connections are open. Further ones wait, and each waits for *slow* seconds.
    """

    def __init__(self, port: int, limit: int, make: Callable[[], ServerConnection], slow: float = 0.0) -> None:
        self._keeps_port = _bound(port)  # reserves the port while the listener is closed
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
        """Stops listening and drops all connections."""
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
        if not self._watching and self._timer is None and self._listening is not None and self._has_capacity():
            asyncio.get_running_loop().add_reader(self._listening, self._accept_ready)
            self._watching = True

    def _unwatch(self) -> None:
        if self._watching and self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._watching = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _accept_ready(self) -> None:
        if self._slow:
            self._later(self._slow, self._accept)
        else:
            self._accept()

    def _accept(self) -> None:
        self._timer = None
        while self._listening is not None and self._has_capacity():
            try:
                client, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError:
                self._later(_RETRY_SECONDS, self._accept)
                return
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start_connection(client)
            if self._slow:
                break
        self._unwatch()
        self._watch()

    def _start_connection(self, client: socket.socket) -> None:
        loop, connection = asyncio.get_running_loop(), self._make()
        connection.left = self.left
        self.inside.add(connection)
        task = loop.create_task(_attach(loop, connection, client))
        self._entering.add(task)

        def entered(task: asyncio.Task[None]) -> None:
            self._entering.discard(task)
            if task.cancelled() or task.exception() is not None:  # the listener was closed, or the client is gone
                client.close()
                self.left(connection)

        task.add_done_callback(entered)

    def _later(self, wait: float, what: Callable[[], None]) -> None:
        self._unwatch()
        self._timer = asyncio.get_running_loop().call_later(wait, what)

    def _has_capacity(self) -> bool:
        return len(self.inside) < self._limit


async def _attach(loop: asyncio.AbstractEventLoop, connection: ServerConnection, client: socket.socket) -> None:
    await loop.connect_accepted_socket(lambda: connection, client)


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


# -- event loop --------------------------------------------------------------------------------------------------------

T = TypeVar("T")


class LoopThread:
    def __init__(self, name: str) -> None:
        # Always the selector loop: a listener watches its socket.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def here(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.current_thread() is self._thread

    def do(self, what: Callable[[], T]) -> T:
        """Calls *what* in the loop's thread and returns its result."""
        if self.here:
            return what()
        done: Future[T] = Future()

        async def call() -> None:
            try:
                done.set_result(what())
            except BaseException as error:
                done.set_exception(error)

        asyncio.run_coroutine_threadsafe(call(), self._loop)
        return done.result()

    def stop(self) -> None:
        """Cancels and awaits all tasks, then ends the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._last())
            self._loop.close()

    async def _last(self) -> None:
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # dropped connections close their sockets in the next iteration


_MAX_CONTROL = 16  # connections to the control endpoint
_log = logging.getLogger("tidegate.testing")

Control = Callable[[Read], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a simulator. *slow* is how long each connection waits to be accepted, in seconds."""

    connections: int
    body: int
    slow: float = 0.0


class ScriptHandler:
    """Answers requests by the script, and the control endpoint even during an outage."""

    def __init__(self, script: Script, control: Control, clock: Clock) -> None:
        self._script = script
        self._control = control
        self.clock = clock

    def side(self) -> ControlHandler:
        return ControlHandler(self._script, self._control, self.clock)

    def meet(self, read: Read) -> tuple[RecordedRequest | None, Sending]:
        at = self.clock.now()
        if controls(read.path):
            return None, sending_of(self._control(read), method=read.method, keep=read.keep, now=at)
        return self._met(read, lambda step: sending_of(step, method=read.method, keep=read.keep, now=at))

    def inside(self, read: Read) -> Step:
        """Answers a client without a socket, which gets the step itself. The request is over at once."""
        request, step = self._met(read, lambda step: step)
        self.over(request, gone=False)
        return step

    def _met(self, read: Read, sent: Callable[[Step], T]) -> tuple[RecordedRequest, T]:
        request, who, scripted = self._script.meet(read, at=self.clock.now(), now=self.clock.monotonic())
        try:
            step = _resolved(scripted, request)
            sending = sent(step)
        except Exception as error:  # raised by a function of a test
            _log.exception("the answer to %s %s failed", request.method, request.path)
            who, step = "failed", Step(500, {"error": f"the simulator's own function failed: {error!r}"})
            sending = sent(step)
        request.met = f"{who}: {step.label}"
        self._script.journal.add(request)
        return request, sending

    def refuse(self, error: UnreadableRequest) -> Sending:
        return sending_of(Step(error.status, {"error": str(error)}), keep=False, now=self.clock.now())

    def over(self, request: RecordedRequest, *, gone: bool) -> None:
        self._script.journal.over(request, gone=gone)


class ControlHandler(ScriptHandler):
    """Answers only the control endpoint, even while the other listener is closed."""

    def meet(self, read: Read) -> tuple[RecordedRequest | None, Sending]:
        if controls(read.path):
            return super().meet(read)
        step = Step(404, {"error": f"only the control endpoint is here: {PATH}"})
        return None, sending_of(step, method=read.method, keep=read.keep, now=self.clock.now())


class Running:
    """A running simulator. Construction opens it. Raises OSError if the port is taken."""

    def __init__(self, name: str, port: int, script: Script, handler: ScriptHandler, limits: ServerLimits) -> None:
        self._script, self._clock = script, handler.clock
        side = handler.side()
        self._handler = Listener(port, limits.connections, lambda: ServerConnection(handler, limits.body), limits.slow)
        try:
            self._control_handler = Listener(0, _MAX_CONTROL, lambda: ServerConnection(side, limits.body))
        except OSError:
            self._handler.close()
            raise
        self._timer: asyncio.TimerHandle | None = None
        self._thread = LoopThread(name)
        self._thread.do(self._begin)

    @property
    def url(self) -> str:
        return self._handler.url

    @property
    def control_url(self) -> str:
        return f"{self._control_handler.url}{PATH}"

    @property
    def connections(self) -> int:
        return len(self._handler.inside)

    @property
    def here(self) -> bool:
        """Whether this is the simulator's thread, which also calls the functions of scripts."""
        return self._thread.here

    def weather_changed(self) -> None:
        """Opens or closes the listener by the outage. For another thread it is effective on return."""
        if self._thread.here and self._script.weather.down(self._clock.monotonic()):
            asyncio.get_running_loop().call_soon(self._look)  # after the response to the request that caused it
        else:
            self._thread.do(self._look)

    def stop(self) -> None:
        self._thread.do(self._end)
        self._thread.stop()

    def _begin(self) -> None:
        self._control_handler.open()
        self._look()

    def _look(self) -> None:
        now = self._clock.monotonic()
        weather = self._script.weather
        if weather.down(now):
            self._handler.shut()
        else:
            self._handler.open()
        if self._timer is not None:
            self._timer.cancel()
        change = weather.change(now)
        self._timer = None
        if change is not None:
            # A timer may fire slightly early. The next call then finds the same change again.
            self._timer = asyncio.get_running_loop().call_later(max(0.001, change - now), self._look)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._handler.close()
        self._control_handler.close()


def _resolved(scripted: Scripted, request: RecordedRequest) -> Step:
    step = scripted if isinstance(scripted, Step) else step_of(scripted(request))
    return replace(step, body=step.body(request)) if callable(step.body) else step
