"""The routes of a simulator and their scripts."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import unquote

from tidegate.simulation.outage import Outage
from tidegate.testing.simulator.requests import Journal, Read, RecordedRequest
from tidegate.testing.simulator.steps import OutageState, Scripted, Step, steps_of

_ROUTE = re.compile(r"(?:(?P<method>[A-Z]+|\*)\s+)?(?P<path>/[^\s?#]*)")
_PARAM = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(:path)?\}")
_SEEN_AS = {"HEAD": "GET"}  # if no other route matches


class Pattern:
    """A method and a path, as `GET /album/{id}`: `{name}` is one segment, `{name:path}` the rest of the path.

    Without a method, or with `*`, it matches any.
    """

    __slots__ = ("_path", "literal", "method", "text", "vague")

    def __init__(self, text: str) -> None:
        match = _ROUTE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"route: {text!r} is not a route; give a method and a path, such as 'GET /album/{{id}}'")
        self.method = match["method"] or "*"
        path = match["path"]
        names = [name for name, _ in _PARAM.findall(path)]
        if len(set(names)) < len(names):
            raise ValueError(f"route: {text!r} has the same name twice; rename one")
        if re.search(r"[{}]", _PARAM.sub("", path)):
            raise ValueError(f"route: {text!r} has a brace that names nothing; give '{{name}}' or '{{name:path}}'")
        self.text = f"{self.method} {path}"
        self.literal = None if names else path
        self._path = re.compile(_expression(path))
        # The most specific pattern is tried first.
        self.vague = (path.count(":path}"), len(names), self.method == "*")

    def match(self, method: str, path: str) -> Mapping[str, str] | None:
        """Returns the named parts of *path*, or None if it does not match."""
        if self.method not in ("*", method, _SEEN_AS.get(method)):
            return None
        return self.match_path(path)

    def match_path(self, path: str) -> Mapping[str, str] | None:
        if self.literal is not None:
            return {} if path == self.literal else None
        match = self._path.fullmatch(path)
        return None if match is None else {name: unquote(value) for name, value in match.groupdict().items()}


def _expression(path: str) -> str:
    parts, at = [], 0
    for match in _PARAM.finditer(path):
        parts += [re.escape(path[at : match.start()]), f"(?P<{match[1]}>{'.*' if match[2] else '[^/]+'})"]
        at = match.end()
    return "".join((*parts, re.escape(path[at:])))


@dataclass(slots=True)
class Route:
    """Steps that are taken one by one, then a permanent answer."""

    pattern: Pattern
    declared: tuple[Scripted, ...] = ()
    answer: Scripted | None = None
    steps: deque[Scripted] = field(default_factory=deque)
    taken: int = 0
    asked: int = 0

    def restart(self) -> None:
        self.steps = deque(self.declared[:-1])
        self.answer = self.declared[-1] if self.declared else None
        self.taken = self.asked = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "route": self.pattern.text,
            "asked": self.asked,
            "steps": [_label(step) for step in self.steps],
            "answer": None if self.answer is None else _label(self.answer),
        }


@dataclass(frozen=True, slots=True)
class Met:
    """What a request gets. *who* names the part of the script."""

    who: str
    told: Scripted
    params: Mapping[str, str]


class Routes:
    """All routes, the most specific first. Not thread-safe."""

    def __init__(self) -> None:
        self._routes: list[Route] = []

    def on(self, text: str, script: Sequence[object]) -> None:
        """Declares a route, or replaces it."""
        if not script:
            raise ValueError(f"route: {text!r} has no response; give at least one")
        route = Route(Pattern(text), tuple(steps_of(step) for step in script))
        route.restart()
        self._routes = [other for other in self._routes if other.pattern.text != route.pattern.text]
        self._add(route)

    def then(self, text: str, steps: Sequence[object]) -> None:
        """Appends steps. Those of an undeclared route are taken before any permanent answer."""
        added = [steps_of(step) for step in steps]
        self._of(text).steps.extend(added)

    def stay(self, text: str, answer: object) -> None:
        """Replaces the permanent answer until the reset."""
        scripted = steps_of(answer)
        self._of(text).answer = scripted

    def reset(self) -> None:
        """Restores the declared routes."""
        self._routes = [route for route in self._routes if route.declared]
        for route in self._routes:
            route.restart()

    def seen(self, method: str, path: str) -> None:
        """Counts a request."""
        for route in self._routes:
            if route.pattern.match(method, path) is not None:
                route.asked += 1

    def count(self, text: str) -> int | None:
        """Returns the requests of a route since the reset, or None for an unknown route."""
        return next((route.asked for route in self._routes if route.pattern.text == text), None)

    def meet(self, method: str, path: str) -> Met | None:
        """Takes the next step and returns it."""
        permanent: Met | None = None
        for route in self._routes:
            params = route.pattern.match(method, path)
            if params is None:
                continue
            if route.steps:
                route.taken += 1
                return Met(f"step {route.taken}", route.steps.popleft(), params)
            if permanent is None and route.answer is not None:
                permanent = Met("answer", route.answer, params)
        return permanent

    def methods(self, path: str) -> list[str]:
        """Returns the methods of the routes that match *path*."""
        return sorted({route.pattern.method for route in self._routes if route.pattern.match_path(path) is not None})

    def as_json(self) -> list[dict[str, Any]]:
        return [route.as_json() for route in self._routes]

    def _of(self, text: str) -> Route:
        pattern = Pattern(text)
        for route in self._routes:
            if route.pattern.text == pattern.text:
                return route
        route = Route(pattern)
        self._add(route)
        return route

    def _add(self, route: Route) -> None:
        self._routes = sorted((*self._routes, route), key=lambda item: item.pattern.vague)


def _label(value: Scripted) -> str:
    return getattr(value, "label", None) or f"a function ({getattr(value, '__name__', type(value).__name__)})"


# -- script ------------------------------------------------------------------------------------------------------------


class Script:
    """Routes, outages and the journal, thread-safe. An outage overrides the routes. *seed* makes it reproducible."""

    def __init__(self, seed: int, max_kept: int) -> None:
        self.journal = Journal(max_kept)
        self._seed = seed
        self._rng = random.Random(seed)
        self._routes = Routes()
        self._weather = OutageState(Outage(), 0.0)
        self._local: dict[str, tuple[Pattern, OutageState]] = {}
        self._asked = 0
        self._lock = Lock()

    @property
    def weather(self) -> OutageState:
        """The outage of the whole service."""
        return self._weather

    def on(self, route: str, *script: object) -> None:
        with self._lock:
            self._routes.on(route, script)

    def then(self, route: str, *steps: object) -> None:
        with self._lock:
            self._routes.then(route, steps)

    def stay(self, route: str, answer: object) -> None:
        with self._lock:
            self._routes.stay(route, answer)

    def outage(self, outage: Outage, now: float, route: str | None = None) -> None:
        """Sets the outage of *route* or of the whole service. Ending the latter also ends those of routes."""
        weather = OutageState(outage, now)
        with self._lock:
            if route is not None:
                pattern = Pattern(route)
                self._local[pattern.text] = (pattern, weather)
            else:
                self._weather = weather
                self._local = self._local if outage.troubles else {}

    def reset(self, now: float) -> None:
        """Restores the declared state, without an outage, and restarts the random sequence."""
        with self._lock:
            self._routes.reset()
            self._weather = OutageState(Outage(), now)
            self._local.clear()
            self._rng = random.Random(self._seed)
            self._asked = 0
            self.journal.clear()

    def meet(self, read: Read, *, at: float, now: float) -> tuple[RecordedRequest, str, Scripted]:
        """Returns the recorded request, the part of the script that answers it, and the answer."""
        with self._lock:
            self._asked += 1
            request = RecordedRequest(read, number=self._asked, at=at)
            self._routes.seen(read.method, read.path)
            trouble = self._trouble(read, now, self._rng.random())
            if trouble is not None:
                return request, "outage", trouble
            met = self._routes.meet(read.method, read.path)
            if met is None:
                return request, "no route", self._unknown(read)
        request.params = met.params
        return request, met.who, met.told

    def asked(self, route: str | None) -> list[RecordedRequest]:
        if route is None:
            return self.journal.matching(lambda request: True)
        pattern = Pattern(route)
        return self.journal.matching(lambda request: pattern.match(request.method, request.path) is not None)

    def count(self, route: str | None) -> int:
        if route is None:
            return self.journal.total
        with self._lock:
            total = self._routes.count(Pattern(route).text)
        return len(self.asked(route)) if total is None else total

    def as_json(self, now: float) -> dict[str, Any]:
        with self._lock:
            local = [(text, weather.as_json(now)) for text, (_, weather) in self._local.items()]
            return {
                "asked": self._asked,
                "outage": self._weather.as_json(now),
                "outages": [{"route": text, **state} for text, state in local if state is not None],
                "routes": self._routes.as_json(),
            }

    def _trouble(self, read: Read, now: float, roll: float) -> Step | None:
        local = [
            weather for pattern, weather in self._local.values() if pattern.match(read.method, read.path) is not None
        ]
        steps = (weather.step(now, roll) for weather in (self._weather, *local))
        return next((step for step in steps if step is not None), None)

    def _unknown(self, read: Read) -> Step:
        methods = self._routes.methods(read.path)
        if not methods:
            return Step(404, {"error": f"the simulator has no route for {read.method} {read.path}"})
        allowed = ", ".join(methods)
        return Step(405, {"error": f"the simulator knows {read.path} with {allowed} only"}, {"Allow": allowed})
