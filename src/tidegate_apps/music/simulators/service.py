"""What the simulated services have in common: routes with names, and faults that are on for one or all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import ClassVar

from tidegate.testing import Hang, RecordedRequest, Simulator, Step
from tidegate_apps.music.simulators.listening import Listening, Time

PAGE = "<!DOCTYPE html><html><head><title>Please wait</title></head><body>Checking your browser.</body></html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}
_ROWS = [{"id": f"{number:06d}"} for number in range(500)]

Handler = Callable[[RecordedRequest], object]
Fault = Step | Hang | Handler

# What any of them may do.
ANY: Mapping[str, Fault] = {
    "broken": Step(500, "Internal Server Error"),
    "bad_gateway": Step(502, PAGE, HTML),
    "unavailable": Step(503, "Service Unavailable"),
    "gateway_timeout": Step(504, PAGE, HTML),
    "throttled": Step(429, {"error": "slow down"}, retry_after=30),
    "throttled_until": Step(429, {"error": "slow down"}, {"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}),
    "throttled_zero": Step(429, {"error": "slow down"}, {"Retry-After": "0"}),
    "throttled_for_a_day": Step(429, {"error": "slow down"}, retry_after="24h"),
    "hangs": Hang("1d"),
    "resets": Step(reset=True),
    "resets_in_the_middle": Step(200, _ROWS, cut=100, reset=True),
    "cut": Step(200, _ROWS, cut=100),
    "cut_unseen": Step(200, _ROWS, cut=100, framing="close"),
    "no_http": Step(raw=b"220 mail.example ESMTP\r\n\r\n"),
    "drips": Step(200, _ROWS, drip="1s", piece=1),
    "bad_gzip": Step(200, b"this is no gzip", {"Content-Encoding": "gzip", "Content-Type": "application/json"}),
    "empty": Step(200, b"", {"Content-Type": "application/json"}),
    "page": Step(200, PAGE, HTML),
    "wrong_shape": Step(200, ["not", "what", "was", "asked", "for"]),
    "huge": lambda _: Step(200, b'{"filler":"' + b"x" * 9_000_000 + b'"}', {"Content-Type": "application/json"}),
    "elsewhere": Step(302, b"", {"Location": "http://192.0.2.1/login"}),
}


class Service(ABC):
    """One service under a path of its name. `now` and `next` say what it does instead of answering well.

    *where* is the name of one of its `routes`; without it, the fault is that of all of them.
    """

    name: ClassVar[str]
    faults: ClassVar[Mapping[str, Fault]] = {}

    def __init__(self, clock: Time) -> None:
        self.clock = clock
        self.routes: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._next: dict[str, deque[str]] = {}
        self.by_itself: Callable[[str], str] = lambda where: "well"  # the fault of a route while nobody says otherwise
        self.begin()

    def begin(self) -> None:
        """Everything as at the start."""
        self._now.clear()
        self._next.clear()

    def now(self, fault: str, where: str = "") -> None:
        """What happens from now on; "well" ends it."""
        self._check(fault, where)
        if fault == "well":
            self._now.pop(where, None)
        else:
            self._now[where] = fault

    def next(self, *faults: str, where: str = "") -> None:
        """What the next requests meet, one after the other, before what happens anyway."""
        for fault in faults:
            self._check(fault, where)
        self._next.setdefault(where, deque()).extend(faults)

    @property
    def state(self) -> Mapping[str, str]:
        """The faults that are on, by the name of the route; the empty name is that of all."""
        return dict(self._now)

    @abstractmethod
    def mount(self, sim: Simulator) -> None:
        """Declares the routes of the service."""

    def known(self) -> tuple[str, ...]:
        return ("well", *self.faults, *ANY)

    def _route(self, sim: Simulator, where: str, route: str, handler: Handler) -> None:
        method, _, path = route.partition(" ")
        full = f"{method} /{self.name}{path}"
        self.routes[where] = full

        def answer(request: RecordedRequest) -> object:
            return self._met(where, request, handler)

        sim.on(full, answer)

    def _met(self, where: str, request: RecordedRequest, handler: Handler) -> object:
        waiting = next((found for each in (where, "") if (found := self._next.get(each))), None)
        name = waiting.popleft() if waiting else self._now.get(where) or self._now.get("") or self.by_itself(where)
        if name == "well":
            return handler(request)
        fault = self.faults.get(name) or ANY[name]
        return fault(request) if callable(fault) else fault

    def _check(self, fault: str, where: str) -> None:
        if fault not in self.known():
            raise ValueError(f"fault: {fault!r:.40} is not known to {self.name}; give one of {', '.join(self.known())}")
        if where and where not in self.routes:
            raise ValueError(
                f"where: {where!r:.40} is not a route of {self.name}; give one of {', '.join(self.routes)}"
            )


class Listened(Service):
    """A service that knows what its users hear; *every*: seconds between two songs of each."""

    def __init__(self, clock: Time, every: float | None = None) -> None:
        self._every = every
        super().__init__(clock)

    def begin(self) -> None:
        super().begin()
        self.listening = Listening(self.clock, self._every)
