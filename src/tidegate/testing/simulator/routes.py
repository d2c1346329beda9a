"""Which requests a simulator knows, and what the next one of each meets."""

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
_SEEN_AS = {"HEAD": "GET"}  # where nothing else answers it


class Pattern:
    """A method and a path, as `GET /album/{id}`: `{name}` is one part of a path, `{name:path}` all that follows.

    Without a method, or with `*`, any will do.
    """

    __slots__ = ("_path", "literal", "method", "text", "vague")

    def __init__(self, text: str) -> None:
        found = _ROUTE.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"route: {text!r} is no route; give a method and a path, such as 'GET /album/{{id}}'")
        self.method = found["method"] or "*"
        path = found["path"]
        names = [name for name, _ in _PARAM.findall(path)]
        if len(set(names)) < len(names):
            raise ValueError(f"route: {text!r} has the same name twice")
        if re.search(r"[{}]", _PARAM.sub("", path)):
            raise ValueError(f"route: {text!r} has a brace that names nothing; give '{{name}}' or '{{name:path}}'")
        self.text = f"{self.method} {path}"
        self.literal = None if names else path
        self._path = re.compile(_expression(path))
        # The most exact pattern is asked first.
        self.vague = (path.count(":path}"), len(names), self.method == "*")

    def match(self, method: str, path: str) -> Mapping[str, str] | None:
        """The named parts of *path*; None when it is another one."""
        if self.method not in ("*", method, _SEEN_AS.get(method)):
            return None
        return self.match_path(path)

    def match_path(self, path: str) -> Mapping[str, str] | None:
        if self.literal is not None:
            return {} if path == self.literal else None
        found = self._path.fullmatch(path)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


def _expression(path: str) -> str:
    parts, at = [], 0
    for found in _PARAM.finditer(path):
        parts += [re.escape(path[at : found.start()]), f"(?P<{found[1]}>{'.*' if found[2] else '[^/]+'})"]
        at = found.end()
    return "".join((*parts, re.escape(path[at:])))


@dataclass(slots=True)
class Route:
    """Steps that are taken one by one, then an answer that stays."""

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
    """What a request meets; *who* says which part of the script that is."""

    who: str
    told: Scripted
    params: Mapping[str, str]


class Routes:
    """All routes, the most exact first. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._routes: list[Route] = []

    def on(self, text: str, script: Sequence[object]) -> None:
        """Declares a route, or declares it anew."""
        if not script:
            raise ValueError(f"route: {text!r} has no answer; give at least one")
        route = Route(Pattern(text), tuple(steps_of(each) for each in script))
        route.restart()
        self._routes = [each for each in self._routes if each.pattern.text != route.pattern.text]
        self._add(route)

    def then(self, text: str, steps: Sequence[object]) -> None:
        """Adds steps; of a route that was not declared, they are taken before any answer that stays."""
        added = [steps_of(step) for step in steps]
        self._of(text).steps.extend(added)

    def stay(self, text: str, answer: object) -> None:
        """Another answer that stays, until the reset."""
        found = steps_of(answer)
        self._of(text).answer = found

    def reset(self) -> None:
        """Everything as it was declared."""
        self._routes = [each for each in self._routes if each.declared]
        for route in self._routes:
            route.restart()

    def seen(self, method: str, path: str) -> None:
        """Counts a request."""
        for route in self._routes:
            if route.pattern.match(method, path) is not None:
                route.asked += 1

    def count(self, text: str) -> int | None:
        """Requests of a route since the reset; None when there is no such route."""
        return next((route.asked for route in self._routes if route.pattern.text == text), None)

    def meet(self, method: str, path: str) -> Met | None:
        """What the next request meets; the step is taken."""
        standing: Met | None = None
        for route in self._routes:
            params = route.pattern.match(method, path)
            if params is None:
                continue
            if route.steps:
                route.taken += 1
                return Met(f"step {route.taken}", route.steps.popleft(), params)
            if standing is None and route.answer is not None:
                standing = Met("answer", route.answer, params)
        return standing

    def methods(self, path: str) -> list[str]:
        """The methods that *path* is known with."""
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
        self._routes = sorted((*self._routes, route), key=lambda each: each.pattern.vague)


def _label(value: Scripted) -> str:
    return getattr(value, "label", None) or f"a function ({getattr(value, '__name__', type(value).__name__)})"


# What a simulator has been told, and what it was asked: everything but the sockets. Any thread may use it.


class Script:
    """Routes, outages and a journal; an outage comes before the routes. Chance comes from *seed*."""

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
        """Of the whole service."""
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
        """Of *route* alone, or of the whole service; no outage of the whole ends those of the routes, too."""
        weather = OutageState(outage, now)
        with self._lock:
            if route is not None:
                pattern = Pattern(route)
                self._local[pattern.text] = (pattern, weather)
            else:
                self._weather = weather
                self._local = self._local if outage.troubles else {}

    def reset(self, now: float) -> None:
        """As declared, without an outage, with the dice of the beginning."""
        with self._lock:
            self._routes.reset()
            self._weather = OutageState(Outage(), now)
            self._local.clear()
            self._rng = random.Random(self._seed)
            self._asked = 0
            self.journal.clear()

    def meet(self, read: Read, *, at: float, now: float) -> tuple[RecordedRequest, str, Scripted]:
        """The request as it will be known, which part of the script it meets, and what that says."""
        with self._lock:
            self._asked += 1
            asked = RecordedRequest(read, number=self._asked, at=at)
            self._routes.seen(read.method, read.path)
            trouble = self._trouble(read, now, self._rng.random())
            if trouble is not None:
                return asked, "outage", trouble
            met = self._routes.meet(read.method, read.path)
            if met is None:
                return asked, "no route", self._unknown(read)
        asked.params = met.params
        return asked, met.who, met.told

    def asked(self, route: str | None) -> list[RecordedRequest]:
        if route is None:
            return self.journal.matching(lambda each: True)
        pattern = Pattern(route)
        return self.journal.matching(lambda each: pattern.match(each.method, each.path) is not None)

    def count(self, route: str | None) -> int:
        if route is None:
            return self.journal.total
        with self._lock:
            known = self._routes.count(Pattern(route).text)
        return len(self.asked(route)) if known is None else known

    def as_json(self, now: float) -> dict[str, Any]:
        with self._lock:
            local = [(text, weather.as_json(now)) for text, (_, weather) in self._local.items()]
            return {
                "asked": self._asked,
                "outage": self._weather.as_json(now),
                "outages": [{"route": text, **found} for text, found in local if found is not None],
                "routes": self._routes.as_json(),
            }

    def _trouble(self, read: Read, now: float, roll: float) -> Step | None:
        here = [
            weather for pattern, weather in self._local.values() if pattern.match(read.method, read.path) is not None
        ]
        found = (weather.step(now, roll) for weather in (self._weather, *here))
        return next((step for step in found if step is not None), None)

    def _unknown(self, read: Read) -> Step:
        methods = self._routes.methods(read.path)
        if not methods:
            return Step(404, {"error": f"the simulator has no route for {read.method} {read.path}"})
        allowed = ", ".join(methods)
        return Step(405, {"error": f"the simulator knows {read.path} with {allowed} only"}, {"Allow": allowed})
