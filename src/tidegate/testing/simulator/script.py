"""What a simulator has been told, and what it was asked: everything but the sockets. Any thread may use it."""

from __future__ import annotations

import random
from threading import Lock
from typing import Any

from tidegate.ops.outage import Outage
from tidegate.testing.simulator.asked import Journal, RecordedRequest
from tidegate.testing.simulator.http import Read
from tidegate.testing.simulator.routes import Pattern, Routes
from tidegate.testing.simulator.steps import Scripted, Step
from tidegate.testing.simulator.weather import OutageState


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
