"""A simulator at work: its thread, its two doors, and the weather that opens and shuts one of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from tidegate.runtime.clock import Clock
from tidegate.testing.simulator.asked import RecordedRequest
from tidegate.testing.simulator.control import PATH, controls
from tidegate.testing.simulator.door import Listener
from tidegate.testing.simulator.http import Read, UnreadableRequest
from tidegate.testing.simulator.script import Script
from tidegate.testing.simulator.sending import Sending, sending_of
from tidegate.testing.simulator.steps import Scripted, Step, step_of
from tidegate.testing.simulator.thread import LoopThread
from tidegate.testing.simulator.wire import ServerConnection

_MAX_CONTROL = 16  # connections to the control endpoint
_log = logging.getLogger("tidegate.testing")

Control = Callable[[Read], Step]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What a simulator takes; *slow* is how long each connection waits at the door, in seconds."""

    connections: int
    body: int
    slow: float = 0.0


class ScriptHandler:
    """Answers requests by the script, and those for the control endpoint whatever the weather."""

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
        """The same for a client without a socket, for which every request is over at once; it has the object itself."""
        asked, step = self._met(read, lambda step: step)
        self.over(asked, gone=False)
        return step

    def _met(self, read: Read, sent: Callable[[Step], T]) -> tuple[RecordedRequest, T]:
        asked, who, told = self._script.meet(read, at=self.clock.now(), now=self.clock.monotonic())
        try:
            step = _resolved(told, asked)
            sending = sent(step)
        except Exception as error:  # of a function that a test handed in
            _log.exception("the answer to %s %s failed", asked.method, asked.path)
            who, step = "failed", Step(500, {"error": f"the simulator's own function failed: {error!r}"})
            sending = sent(step)
        asked.met = f"{who}: {step.label}"
        self._script.journal.add(asked)
        return asked, sending

    def refuse(self, error: UnreadableRequest) -> Sending:
        return sending_of(Step(error.status, {"error": str(error)}), keep=False, now=self.clock.now())

    def over(self, request: RecordedRequest, *, gone: bool) -> None:
        self._script.journal.over(request, gone=gone)


class ControlHandler(ScriptHandler):
    """Answers nothing but the control endpoint, and does so while the other door is shut."""

    def meet(self, read: Read) -> tuple[RecordedRequest | None, Sending]:
        if controls(read.path):
            return super().meet(read)
        step = Step(404, {"error": f"only the control endpoint is here: {PATH}"})
        return None, sending_of(step, method=read.method, keep=read.keep, now=self.clock.now())


class Running:
    """Opened when it is made; OSError when the port is taken."""

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
        """Whether this is the simulator's own thread, in which its functions are called."""
        return self._thread.here

    def weather_changed(self) -> None:
        """Opens or shuts the door as the outage says; it is so when this returns to another thread."""
        if self._thread.here and self._script.weather.down(self._clock.monotonic()):
            asyncio.get_running_loop().call_soon(self._look)  # whoever asked for it gets an answer first
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
            # A timer of the loop may come a little early; then the next look finds the same change again.
            self._timer = asyncio.get_running_loop().call_later(max(0.001, change - now), self._look)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._handler.close()
        self._control_handler.close()


def _resolved(told: Scripted, request: RecordedRequest) -> Step:
    step = told if isinstance(told, Step) else step_of(told(request))
    return replace(step, body=step.body(request)) if callable(step.body) else step
