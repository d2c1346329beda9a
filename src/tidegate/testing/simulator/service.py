"""A simulated HTTP service on a local port: it responds, fails and misbehaves as its script says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from tidegate.clock import SYSTEM, Clock
from tidegate.durations import Duration, brief, seconds
from tidegate.simulation.outage import Outage
from tidegate.testing.simulator.control import answer
from tidegate.testing.simulator.requests import Read, RecordedRequest
from tidegate.testing.simulator.routes import Script
from tidegate.testing.simulator.server import Running, ScriptHandler, ServerLimits
from tidegate.testing.simulator.steps import Step, outage_of
from tidegate.testing.simulator.transport import SimulatorTransport
from tidegate.validation import valid_name, whole

_LISTED = 20


class Simulator:
    """An HTTP service on real sockets, in its own thread.

        with Simulator() as sim:
            sim.on("GET /queue", Status(503), Hang(), {"totalRecords": 0})    # the last one stays
            sim.on("POST /album", lambda asked: {"id": 7, **asked.json})
            client.get(f"{sim.url}/queue")
            assert sim.count("GET /queue") == 1

    Each request takes the next step of its route: a `Step`, a `Status`, a `Hang`, ConnectionResetError, bytes, text, a
    dict or a list (JSON), or a function of the `RecordedRequest` that returns one of them. Functions run one at a time.
    A function that blocks stops the simulator, so use a `Step` with a delay instead. During an *outage* requests fail
    and the script waits. Its times count from the start.

    *slow_accept*: how long each connection waits to be accepted. *on_reset* is called by `reset()`, for the state of
    functions. *clock* is the time of outages and of the journal, see `transport`. The others are limits: concurrent
    connections, bytes of a request body, requests in the journal.
    """

    def __init__(
        self,
        name: str = "simulator",
        *,
        port: int = 0,
        outage: Outage | str | None = None,
        seed: int = 0,
        slow_accept: Duration = 0,
        on_reset: Callable[[], object] | None = None,
        max_connections: int = 256,
        max_body: int = 8 * 1024 * 1024,
        max_kept: int = 10_000,
        clock: Clock = SYSTEM,
    ) -> None:
        self.name = valid_name(name, field="name")
        self._port = whole(port, field="port", minimum=0, maximum=65535)
        self._limits = ServerLimits(
            connections=whole(max_connections, field="max_connections"),
            body=whole(max_body, field="max_body", minimum=0),
            slow=seconds(slow_accept, field="slow_accept"),
        )
        self._script = Script(seed, whole(max_kept, field="max_kept"))
        self._outage = outage_of(outage)
        self._on_reset = on_reset
        self._clock = clock
        self._script.outage(self._outage, clock.monotonic())
        self._answering = ScriptHandler(self._script, self._control, clock)
        self._running: Running | None = None

    # -- running -----------------------------------------------------------------------------------------------------

    def start(self) -> str:
        """Starts it and returns its URL. Raises OSError if the port is taken."""
        if self._running is not None:
            raise RuntimeError(f"the simulator {self.name!r} runs already, at {self.url}")
        self._script.outage(self._outage, self._clock.monotonic())
        self._running = Running(self.name, self._port, self._script, self._answering, self._limits)
        return self.url

    def stop(self) -> None:
        """Drops every client and ends its thread. May be called twice."""
        running = self._running
        if running is None:
            return
        if running.here:
            raise RuntimeError(f"the simulator {self.name!r} cannot be stopped by one of its own functions")
        self._running = None
        running.stop()

    def transport(self) -> Any:
        """Returns an async transport for httpx or httpx2 without sockets. The simulator need not run.

        Delays and hangs use its *clock*, so that a `VirtualClock` simulates a day in no time.
        """
        return SimulatorTransport(
            self._answering.inside, lambda: self._script.weather.down(self._clock.monotonic()), self._clock
        )

    @property
    def url(self) -> str:
        return self._now_running().url

    @property
    def control_url(self) -> str:
        """The URL of the control endpoint, on its own port: it answers while the service is down."""
        return self._now_running().control_url

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    # -- script ------------------------------------------------------------------------------------------------------

    def on(self, route: str, *script: object) -> None:
        """Declares what requests of *route* get, one after the other. The last answer is permanent. Replaces the route.

        A route is a method and a path, `GET /album/{id}`. Without a method it matches any. `{rest:path}` is the rest of
        the path.
        """
        self._script.on(route, *script)

    def then(self, route: str, *steps: object) -> None:
        """Adds steps for the next requests of *route*, before its answer. `/{rest:path}` matches any request."""
        self._script.then(route, *steps)

    def stay(self, route: str, answer: object) -> None:
        """Replaces the permanent answer until the next `reset()`."""
        self._script.stay(route, answer)

    def outage(self, what: Outage | str | None, route: str | None = None) -> None:
        """Starts an outage, such as "5m down" or "1h 30% errors", of all routes or of one. None ends it.

        It is effective on return. For one route, `down` resets connections, because other routes still respond.
        """
        outage = outage_of(what)
        self._script.outage(outage, self._clock.monotonic(), route)
        if route is not None:
            return
        if self._running is None:
            self._outage = outage
        else:
            self._running.weather_changed()

    def reset(self) -> None:
        """Restores the declared script, ends outages and empties the journal."""
        self._script.reset(self._clock.monotonic())
        if self._on_reset is not None:
            self._on_reset()
        if self._running is not None:
            self._running.weather_changed()

    # -- journal -----------------------------------------------------------------------------------------------------

    def asked(self, route: str | None = None) -> list[RecordedRequest]:
        """Returns the last requests of *route*, or all of them, oldest first."""
        return self._script.asked(route)

    def count(self, route: str | None = None) -> int:
        """Counts the requests since the last reset. For an undeclared route it counts those in the journal."""
        return self._script.count(route)

    def wait_for(
        self, route: str | None = None, n: int = 1, timeout: Duration = 5, *, over: bool = False
    ) -> list[RecordedRequest]:
        """Waits until there are *n* requests of *route*, and returns them. *over*: only completed ones.

        Raises TimeoutError with the requests that arrived.
        """
        wait = seconds(timeout, field="timeout")

        def matching() -> list[RecordedRequest]:
            return [request for request in self.asked(route) if request.over or not over]

        if not self._script.journal.wait(lambda: len(matching()) >= n, wait):
            listing = "\n".join(f"  {request!r}" for request in self.asked()[-_LISTED:]) or "  nothing at all"
            wanted = f"expected {n} of {route or 'any request'} within {brief(wait)}, found {len(matching())}"
            raise TimeoutError(f"{wanted}. It was asked:\n{listing}")
        return matching()

    def as_json(self) -> dict[str, Any]:
        """Returns the state that the control endpoint shows."""
        running = self._now_running()
        return {
            "name": self.name,
            "url": running.url,
            "control": running.control_url,
            "connections": running.connections,
            **self._script.as_json(self._clock.monotonic()),
        }

    def _control(self, read: Read) -> Step:
        return answer(self, read)

    def _now_running(self) -> Running:
        if self._running is None:
            raise RuntimeError(f"the simulator {self.name!r} is not running; start it, or use it in a with statement")
        return self._running
