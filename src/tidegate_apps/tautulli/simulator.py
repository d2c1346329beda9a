"""A Tautulli that fails as it is told: for tests, and for `tidegate serve --simulators`.

    with TautulliSimulator(rows=1000) as sim:
        client = Tautulli(sim.url, sim.key)
        sim.play(3)                          # three more rows
        sim.next("internal", "hangs")        # its next two calls; then it is well again
        sim.now("database")                  # from now on: every query fails, and it answers with no rows
        sim.outage("5m down")                # nobody is there; sim.outage(None) ends it
        assert sim.calls("get_history") == 2

STATES names all that it can do. While it runs, `curl -d database http://127.0.0.1:12345/state` does as `now`, and
`curl -d 3 http://127.0.0.1:12345/play` as `play`. `/_sim` is there as of every simulator.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from typing import Any

from tidegate.apps import Simulated
from tidegate.testing import Hang, RecordedRequest, Simulator, Step
from tidegate_apps.tautulli.simulated_history import HistoryShape, MadeHistory
from tidegate_apps.tautulli.simulated_rows import Rows

KEY = "0123456789abcdef0123456789abcdef"
_API = "GET /api/v2"
_HTML = {"Content-Type": "text/html;charset=utf-8"}
_LOGIN = "<!DOCTYPE html>\n<html><head><title>Tautulli - Login</title></head><body><form>Sign in</form></body></html>"
_NO_ROWS = {
    "recordsFiltered": 0, "recordsTotal": 0, "draw": 0, "data": [], "filter_duration": "0", "total_duration": "0",
}  # fmt: skip
_QUOTE = "It's not a tumor!"
_SECONDS_OF_PLAY = 3750  # a row, on average


def _said(result: str, message: str | None, data: Any, status: int = 200, **more: Any) -> Step:
    document = {"response": {"result": result, "message": message, "data": data}}
    body = json.dumps(document, separators=(",", ":")).encode()
    return Step(status, body, {"Content-Type": "application/json;charset=utf-8"}, **more)


def _error(status: int, message: str | None, **more: Any) -> Step:
    return _said("error", message, {}, status, **more)


# What it answers to any call, while it is in a state.
_ANSWERS: Mapping[str, Step | Hang] = {
    "bad_key": _error(400, "Invalid apikey"),
    "api_off": _error(400, "API not enabled"),
    "nothing": _error(400, None),  # the command produced nothing: Plex is away
    "old_error": _error(200, "Invalid apikey"),  # as versions before 2018 said it
    "internal": _error(500, "Check the logs for errors"),
    "bad_gateway": Step(502, "<html><body>Bad Gateway</body></html>", _HTML),
    "throttled": _error(429, None, retry_after=30),
    "throttled_for_days": _error(429, None, retry_after="3d"),
    "login": Step(200, _LOGIN, _HTML),
    "to_login": Step(303, b"", {"Location": "/auth/login"}),
    "hangs": Hang(),
    "resets": Step(reset=True),
    "no_envelope": Step(200, {"ok": True}),
}
# How it sends a good answer otherwise.
_SENT: Mapping[str, Mapping[str, Any]] = {
    "well": {},
    "slow": {"delay": "1s"},
    "drips": {"drip": "50ms", "piece": 200},
    "cut": {"cut": 300},
    "cut_whole": {"cut": 300, "framing": "close"},  # it looks whole to HTTP
}
STATES: tuple[str, ...] = (*_SENT, *_ANSWERS, "database")


class TautulliSimulator(Simulator):
    """A history of *rows* rows up to *until* (now, unless it is given), about *per_day* on each day.

    With *every*, a row is added each time that so many seconds have passed. An *old* one has fewer commands. Rows that
    are *half* there are counted and not sent: they have no metadata.
    """

    def __init__(
        self, *, rows: int = 2000, per_day: int = 50, until: float | None = None, zone: tzinfo = UTC,
        titles: int = 2000, every: float = 0, key: str = KEY, now: Callable[[], float] = time.time, old: bool = False,
        half: int = 0, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__("tautulli", on_reset=self._begin, **more)
        self.key, self._wall, self._every, self._old, self._half = key, now, every, old, half
        self._shape = HistoryShape(
            rows=rows, until=now() - 60 if until is None else until, per_day=per_day, zone=zone, titles=titles
        )
        self._begin()
        self.on(_API, self._asked)
        self.on("GET /api", _error(200, "Please use the /api/v2 endpoint."))
        self.on("GET /auth/login", Step(200, _LOGIN, _HTML))
        self.on("GET /", Step(303, b"", {"Location": "/auth/login"}))
        self.on("POST /state", self._told)
        self.on("POST /play", self._more)

    def now(self, state: str) -> None:
        """What it does from now on; "well" ends it."""
        self._now = _known(state)

    @property
    def state(self) -> str:
        """What it does now."""
        return self._now

    def next(self, *states: str) -> None:
        """What its next calls meet, one after the other, before what it does anyway."""
        self._next.extend(_known(state) for state in states)

    def play(self, rows: int = 1, **fields: Any) -> None:
        """So many rows more, which began a minute ago; *fields* change what they say."""
        for _ in range(rows):
            self._rows.add(int(self._wall()) - 60, fields)

    def change(self, **fields: Any) -> None:
        """The newest of the rows that were added says something else from now on."""
        self._rows.change(fields)

    def remove(self, *places: int) -> None:
        """Somebody deleted these rows; 0 is the oldest of those of the beginning."""
        self._rows.delete(places)

    def remove_all(self) -> None:
        """As if somebody had deleted the history."""
        self._shape = HistoryShape(rows=0, until=self._shape.until, per_day=self._shape.per_day, zone=self._shape.zone)
        self._begin()

    def calls(self, command: str = "") -> int:
        """How often a command was asked for, or any."""
        return sum(not command or each.query.get("cmd") == command for each in self.asked(_API))

    def _begin(self) -> None:
        self.history = MadeHistory(self._shape)
        self._rows = Rows(self.history)
        self._now, self._next = "well", deque[str]()
        self._began = self._wall()

    def _asked(self, request: RecordedRequest) -> object:
        state = self._next.popleft() if self._next else self._now
        if state in _ANSWERS:
            return _ANSWERS[state]
        query = request.query
        if query.get("apikey") != self.key:
            return _error(400, "Invalid apikey" if query.get("apikey") else "Parameter apikey is required")
        command = query.get("cmd", "")
        if command not in _COMMANDS or (self._old and command in _NEWER):
            known = ", ".join(sorted(_COMMANDS))
            said = f"Unknown command: {command}" if command else "Parameter cmd is required"
            return _error(400, f"{said}. Possible commands are: {known}")
        if state == "database":
            if command == "get_history":
                return _said("success", None, _NO_ROWS)
            if query.get("check"):
                return _error(400, "Database is malformed")
        return _COMMANDS[command](self, query, _SENT.get(state, {}))

    def _history(self, query: Mapping[str, str], sent: Mapping[str, Any]) -> Step:
        self._passes_time()
        found = self._rows.found(query)
        start, length = _number(query.get("start"), 0), _number(query.get("length"), 25)
        places = found if query.get("order_dir") == "asc" else found[::-1]
        chosen = places[start : start + length] if length >= 0 else places[start:]
        rows = [self._rows.row(place) for place in chosen]
        seconds, total = sum(row["play_duration"] for row in rows), len(self._rows) + self._half
        return _said("success", None, {
            "recordsFiltered": len(found) + self._half, "recordsTotal": total, "data": rows, "draw": 1,
            "filter_duration": _spoken(seconds), "total_duration": _spoken(total * _SECONDS_OF_PLAY),
        }, **sent)  # fmt: skip

    def _passes_time(self) -> None:
        due = int((self._wall() - self._began) / self._every) if self._every else 0
        if due > 0:
            self._began += due * self._every
            self.play(min(due, 100))

    def _told(self, request: RecordedRequest) -> Step:
        try:
            self.now(request.text.strip())
        except ValueError as error:
            return Step(400, {"error": str(error)})
        return Step(200, {"state": request.text.strip()})

    def _more(self, request: RecordedRequest) -> Step:
        self.play(min(_number(request.text.strip(), 1), 1000))
        return Step(200, {"rows": len(self._rows)})


Command = Callable[[TautulliSimulator, Mapping[str, str], Mapping[str, Any]], Step]


def _status(_: TautulliSimulator, query: Mapping[str, str], sent: Mapping[str, Any]) -> Step:
    if query.get("check") == "database":
        return _said("success", "Database ok", {"result": "success", "integrity_check": "ok"}, **sent)
    return _said("success", "Ok", {}, **sent)


def _activity(sim: TautulliSimulator, query: Mapping[str, str], sent: Mapping[str, Any]) -> Step:
    row = sim.history.row(0)
    session = {
        "session_key": query.get("session_key", "27"), "state": "playing", "user": row["user"],
        "friendly_name": row["friendly_name"], "full_title": row["full_title"], "duration": "2998272",
        "view_offset": "1000", "progress_percent": "0",
    }  # fmt: skip
    return _said("success", None, {"stream_count": "1", "sessions": [session]}, **sent)


def _geoip(_: TautulliSimulator, query: Mapping[str, str], sent: Mapping[str, Any]) -> Step:
    if not query.get("ip_address", "").startswith("192.0.2."):
        return _said("success", None, {"error": "The address was not found."}, **sent)
    place = {
        "continent": "Europe", "country": "Norway", "code": "NO", "region": "Oslo", "city": "Oslo",
        "postal_code": "0150", "timezone": "Europe/Oslo", "latitude": 59.9, "longitude": "10.7", "accuracy": None,
    }  # fmt: skip
    return _said("success", None, place, **sent)


_COMMANDS: Mapping[str, Command] = {
    "status": _status,
    "server_status": lambda sim, query, sent: _said("success", None, {"result": "success", "connected": True}, **sent),
    "arnold": lambda sim, query, sent: _said("success", None, _QUOTE, **sent),
    "get_history": TautulliSimulator._history,
    "get_activity": _activity,
    "get_geoip_lookup": _geoip,
}

_NEWER = ("status", "server_status")


def simulated() -> Simulated:
    """For the application: a household of a year and a half, and a play a minute while somebody looks."""
    simulator = TautulliSimulator(rows=30_000, per_day=55, every=60)
    return Simulated(simulator, lambda url: {"url": url, "api_key": KEY}, f"has the key {KEY}, and a new play a minute")


def _number(given: str | None, otherwise: int) -> int:
    return int(given) if given and given.lstrip("-").isascii() and given.lstrip("-").isdigit() else otherwise


def _spoken(seconds: int) -> str:
    return f"{seconds // 3600} hrs {seconds % 3600 // 60} mins"


def _known(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"state: {state!r:.40} is not known; give one of {', '.join(STATES)}")
    return state
