"""A simulated Tautulli with scripted failures, for tests, and for `tidegate serve --simulators`.

    with TautulliSimulator(rows=1000) as sim:
        client = Tautulli(sim.url, sim.key)
        sim.play(3)                          # three more rows
        sim.next("internal", "hangs")        # its next two calls; then it succeeds again
        sim.now("database")                  # from now on: every query fails, and it returns no rows
        sim.outage("5m down")                # connections are refused; sim.outage(None) ends it
        assert sim.calls("get_history") == 2

STATES lists its states. While it runs, `curl -d database http://127.0.0.1:12345/state` calls `now`, and
`curl -d 3 http://127.0.0.1:12345/play` calls `play`. `/_sim` controls it, as for every simulator.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import accumulate
from typing import Any

from tidegate.apps import Simulated
from tidegate.testing import Hang, RecordedRequest, Simulator, Step

# -- a computed history of any length: each row only depends on its position -------------------------------------------

DAY = 86400
_WEEK = (9, 8, 8, 9, 13, 16, 14)  # relative number of plays, from Monday on
_HOURS = (5, 3, 2, 1, 1, 1, 2, 4, 5, 5, 5, 6, 8, 8, 7, 8, 10, 14, 20, 27, 30, 27, 20, 11)
_UP_TO = tuple(accumulate(_HOURS, initial=0))
_DAYS_UP_TO = tuple(accumulate(_WEEK, initial=0))
_MONDAY = 4 * DAY  # the first Monday of UNIX time

_NAMES = (
    "Ada",
    "Ben",
    "Chris",
    "Dana",
    "Emil",
    "Fay",
    "Gus",
    "Hana",
    "Ivo",
    "Jo",
    "Kim",
    "Leo",
    "Mia",
    "Nils",
    "Ona",
    "Pia",
)
_PLATFORMS = ("Chrome", "Roku", "Android", "iOS", "tvOS", "Windows", "Samsung", "PlayStation")
_FIRST = ("Silent", "Golden", "Broken", "Distant", "Hidden", "Electric", "Paper", "Winter", "Crimson", "Lucky")
_SECOND = ("Harbour", "Kingdom", "Garden", "Signal", "Bridge", "Station", "Mirror", "Orchard", "Voyage", "Tower")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryShape:
    """The length and the end of a history; its days begin at midnight in *zone*."""

    rows: int
    until: float  # UNIX time of the newest row, or later
    per_day: int = 50
    titles: int = 2000
    zone: tzinfo = UTC


class MadeHistory:
    """Rows in the order of their start, 0 is the oldest. Their ids are almost in that order, as in Tautulli."""

    def __init__(self, shape: HistoryShape) -> None:
        self.shape = shape
        self._week = max(1, shape.per_day * 7)
        self._first = self._of_a_first()

    def __len__(self) -> int:
        return self.shape.rows

    def started(self, place: int) -> int:
        """Return the start of a row; never before that of the previous row."""
        week, inside = divmod(place, self._week)
        busy = inside * _DAYS_UP_TO[-1] / self._week
        day = min(6, bisect_right(_DAYS_UP_TO, busy) - 1)
        share = (busy - _DAYS_UP_TO[day]) / _WEEK[day] * _UP_TO[-1]
        hour = min(23, bisect_right(_UP_TO, share) - 1)
        seconds = (hour + (share - _UP_TO[hour]) / _HOURS[hour]) * 3600
        return self._first + (week * 7 + day) * DAY + int(seconds)

    def between(self, first: date | None, last: date | None) -> range:
        """Return the positions of the rows that started on these days, in the zone of the history."""
        began = 0 if first is None else self._place(self._midnight(first))
        return range(began, len(self) if last is None else max(began, self._place(self._midnight(last, 1))))

    def row(self, place: int) -> dict[str, Any]:
        """Return all fields that Tautulli sends."""
        mixed = (place * 2654435761 + 97) & 0xFFFFFFFF
        episode, started, duration = mixed % 10 < 6, self.started(place), 300 + mixed % 6900
        paused = mixed % 7 * 11
        title, kind = self.title(place), self.media_type(place)
        name = self.user(place)
        row_id = self.row_id(place)
        return {
            "reference_id": row_id,
            "row_id": row_id,
            "id": row_id,
            "date": started,
            "started": started,
            "stopped": started + duration + paused,
            "duration": duration,
            "play_duration": duration,
            "paused_counter": paused,
            "user_id": 1000 + _NAMES.index(name),
            "user": name.lower(),
            # Users removed from Plex have no friendly name, and old rows lack fields of later versions.
            "friendly_name": None if name == "Pia" else name,
            "platform": self.platform(place),
            "product": "Plex Web" if mixed % 3 else None,
            "player": f"{name}'s screen",
            "ip_address": "192.0.2.7",
            "live": 0,
            "machine_id": f"m{mixed % 40}",
            "location": "lan",
            "secure": 1,
            "relayed": 0,
            "media_type": kind,
            "rating_key": 10_000 + mixed % 5000,
            "parent_rating_key": 500 + mixed % 50 if episode else "",
            "grandparent_rating_key": 50 + mixed % 50 if episode else "",
            "full_title": f"{title} - Episode {mixed % 24 + 1}" if episode else title,
            "title": f"Episode {mixed % 24 + 1}" if episode else title,
            "parent_title": f"Season {mixed % 5 + 1}" if episode else "",
            "grandparent_title": title if episode else "",
            "original_title": "",
            "year": 1970 + mixed % 55 if mixed % 9 else "",
            "media_index": mixed % 24 + 1 if episode else "",
            "parent_media_index": mixed % 5 + 1 if episode else "",
            "thumb": f"/library/metadata/{10_000 + mixed % 5000}/thumb/1",
            "originally_available_at": "",
            "guid": f"plex://{kind}/{mixed % 5000:024x}",
            "transcode_decision": "direct play" if mixed % 4 else "transcode",
            "percent_complete": mixed % 101,
            "watched_status": (0, 0.25, 0.5, 0.75, 1)[mixed % 5],
            "group_count": 1,
            "group_ids": str(row_id),
            "state": None,
            "session_key": None,
        }

    def row_id(self, place: int) -> int:
        """Return the id. Rows are written when a stream ends: of two neighbours, the earlier start may end later."""
        other = place ^ 1
        return (other if place % 8 < 2 and other < len(self) else place) + 1

    def user(self, place: int) -> str:
        mixed = (place * 40503 + 11) & 0xFFFF
        return _NAMES[min(mixed % 16, (mixed >> 5) % 16)]

    def platform(self, place: int) -> str:
        mixed = (place * 30011 + 7) & 0xFFFF
        return _PLATFORMS[min(mixed % 8, (mixed >> 4) % 8)]

    def title(self, place: int) -> str:
        mixed = (place * 2246822519 + 3) & 0xFFFFFFFF
        n = min(mixed % self.shape.titles, (mixed >> 9) % self.shape.titles)
        return f"{_FIRST[n % 10]} {_SECOND[n // 10 % 10]}{'' if n < 100 else f' {n // 100 + 1}'}"

    def media_type(self, place: int) -> str:
        mixed = (place * 2654435761 + 97) & 0xFFFFFFFF
        return "episode" if mixed % 10 < 6 else "movie" if mixed % 10 < 9 else "track"

    def _of_a_first(self) -> int:
        """Return the first Monday, so that the last row is not after the end."""
        self._first = _MONDAY
        last = self.started(len(self) - 1) if len(self) else _MONDAY
        offset = int(datetime.fromtimestamp(self.shape.until, self.shape.zone).utcoffset().total_seconds())  # type: ignore[union-attr]
        weeks = (int(self.shape.until) - last) // (7 * DAY)
        # Move by whole days: the newest row is less than a day old.
        days = (int(self.shape.until) - last - weeks * 7 * DAY) // DAY
        return _MONDAY + (weeks * 7 + days) * DAY - offset

    def _midnight(self, day: date, later: int = 0) -> int:
        then = day + timedelta(days=later)
        return int(datetime(then.year, then.month, then.day, tzinfo=self.shape.zone).timestamp())

    def _place(self, moment: int) -> int:
        """Return the number of rows that started before a time."""
        return bisect_left(range(len(self)), moment, key=self.started)


# -- all rows: computed and added ones, without deleted ones -----------------------------------------------------------

_FILTERS = ("user", "user_id", "media_type", "rating_key", "search")


class Rows:
    """Each row has a position. Added rows follow the computed ones."""

    def __init__(self, made: MadeHistory) -> None:
        self._made = made
        self._later: list[dict[str, Any]] = []
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._made) + len(self._later) - len(self._gone)

    def row(self, place: int) -> dict[str, Any]:
        size = len(self._made)
        return self._made.row(place) if place < size else self._later[place - size]

    def add(self, began: int, fields: Mapping[str, object]) -> None:
        """Add a row with the next id."""
        row_id = len(self._made) + len(self._later) + 1
        ids = {"row_id": row_id, "id": row_id, "reference_id": row_id, "group_ids": str(row_id)}
        times = {"date": began, "started": began, "stopped": began + 60}
        self._later.append({**self._made.row(row_id - 1), **ids, **times, **fields})

    def change(self, fields: Mapping[str, object]) -> None:
        """Change the row that was added last."""
        self._later[-1] |= fields

    def delete(self, places: Sequence[int]) -> None:
        self._gone.update(places)

    def found(self, query: Mapping[str, str]) -> Sequence[int]:
        """Return the positions of the requested rows, in the order of their start."""
        exact = _day(query.get("start_date"))
        first, last = exact or _day(query.get("after")), exact or _day(query.get("before"))
        places: Sequence[int] = self._made.between(first, last)  # a range, not a list in memory
        later = [
            place
            for place in range(len(self._made), len(self._made) + len(self._later))
            if _within(self._started(place), first, last, self._made.shape.zone)
        ]
        if later:
            places = list(places)
            for place in later:
                insort(places, place, key=self._started)
        wanted = {name: query[name] for name in _FILTERS if query.get(name)}
        if not wanted and not self._gone:
            return places
        return [place for place in places if place not in self._gone and _fits(self.row(place), wanted)]

    def _started(self, place: int) -> int:
        size = len(self._made)
        return self._made.started(place) if place < size else int(self._later[place - size]["started"])


def _within(moment: int, first: date | None, last: date | None, zone: tzinfo) -> bool:
    try:
        day = datetime.fromtimestamp(moment, zone).date()
    except (ValueError, OverflowError):  # not a valid date, so it excludes no row
        return True
    return (first is None or day >= first) and (last is None or day <= last)


def _fits(row: Mapping[str, object], wanted: Mapping[str, str]) -> bool:
    return all(
        value.lower() in str(row["full_title"]).lower() if name == "search" else str(row[name]) in value.split(",")
        for name, value in wanted.items()
    )


def _day(given: str | None) -> date | None:
    try:
        return None if not given else date.fromisoformat(given)
    except ValueError:
        return None


KEY = "0123456789abcdef0123456789abcdef"
Delivery = Mapping[str, Any]  # options of a Step
_API = "GET /api/v2"
_HTML = {"Content-Type": "text/html;charset=utf-8"}
_LOGIN = "<!DOCTYPE html>\n<html><head><title>Tautulli - Login</title></head><body><form>Sign in</form></body></html>"
_NO_ROWS = {
    "recordsFiltered": 0,
    "recordsTotal": 0,
    "draw": 0,
    "data": [],
    "filter_duration": "0",
    "total_duration": "0",
}
_QUOTE = "It's not a tumor!"
_SECONDS_OF_PLAY = 3750  # mean of a row


def _said(result: str, message: str | None, data: object, status: int = 200, **more: Any) -> Step:
    document = {"response": {"result": result, "message": message, "data": data}}
    body = json.dumps(document, separators=(",", ":")).encode()
    return Step(status, body, {"Content-Type": "application/json;charset=utf-8"}, **more)


def _error(status: int, message: str | None, **more: Any) -> Step:
    return _said("error", message, {}, status, **more)


# Responses to every call in a state.
_ANSWERS: Mapping[str, Step | Hang] = {
    "bad_key": _error(400, "Invalid apikey"),
    "api_off": _error(400, "API not enabled"),
    "nothing": _error(400, None),  # the command returned nothing: Plex is unavailable
    "old_error": _error(200, "Invalid apikey"),  # the form of versions before 2018
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
# Transport faults of a successful response.
_SENT: Mapping[str, Delivery] = {
    "well": {},
    "slow": {"delay": "1s"},
    "drips": {"drip": "50ms", "piece": 200},
    "cut": {"cut": 300},
    "cut_whole": {"cut": 300, "framing": "close"},  # looks complete to HTTP
}
STATES: tuple[str, ...] = (*_SENT, *_ANSWERS, "database")


class TautulliSimulator(Simulator):
    """A history of *rows* rows up to *until* (default: now), about *per_day* per day.

    With *every*, a row is added each time this number of seconds passes. An *old* server has fewer commands. *half*
    rows are counted and not sent: they have no metadata.
    """

    def __init__(
        self,
        *,
        rows: int = 2000,
        per_day: int = 50,
        until: float | None = None,
        zone: tzinfo = UTC,
        titles: int = 2000,
        every: float = 0,
        key: str = KEY,
        now: Callable[[], float] = time.time,
        old: bool = False,
        half: int = 0,
        **more: Any,
    ) -> None:
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
        """Set the state; "well" resets it."""
        self._now = _known(state)

    @property
    def state(self) -> str:
        """Return the current state."""
        return self._now

    def next(self, *states: str) -> None:
        """Set the states of the next calls, in order. After them the current state applies."""
        self._next.extend(_known(state) for state in states)

    def play(self, rows: int = 1, **fields: object) -> None:
        """Add rows that started a minute ago; *fields* override their values."""
        for _ in range(rows):
            self._rows.add(int(self._wall()) - 60, fields)

    def change(self, **fields: object) -> None:
        """Change the row that was added last."""
        self._rows.change(fields)

    def remove(self, *places: int) -> None:
        """Delete rows by position; 0 is the oldest."""
        self._rows.delete(places)

    def remove_all(self) -> None:
        """Delete the whole history."""
        self._shape = HistoryShape(rows=0, until=self._shape.until, per_day=self._shape.per_day, zone=self._shape.zone)
        self._begin()

    def calls(self, command: str = "") -> int:
        """Return the number of calls of a command, or of all."""
        return sum(not command or request.query.get("cmd") == command for request in self.asked(_API))

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

    def _history(self, query: Mapping[str, str], sent: Delivery) -> Step:
        self._passes_time()
        matches = self._rows.found(query)
        start, length = _number(query.get("start"), 0), _number(query.get("length"), 25)
        places = matches if query.get("order_dir") == "asc" else matches[::-1]
        chosen = places[start : start + length] if length >= 0 else places[start:]
        rows = [self._rows.row(place) for place in chosen]
        seconds, total = sum(row["play_duration"] for row in rows), len(self._rows) + self._half
        return _said(
            "success",
            None,
            {
                "recordsFiltered": len(matches) + self._half,
                "recordsTotal": total,
                "data": rows,
                "draw": 1,
                "filter_duration": _spoken(seconds),
                "total_duration": _spoken(total * _SECONDS_OF_PLAY),
            },
            **sent,
        )

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


Command = Callable[[TautulliSimulator, Mapping[str, str], Delivery], Step]


def _status(_: TautulliSimulator, query: Mapping[str, str], sent: Delivery) -> Step:
    if query.get("check") == "database":
        return _said("success", "Database ok", {"result": "success", "integrity_check": "ok"}, **sent)
    return _said("success", "Ok", {}, **sent)


def _activity(sim: TautulliSimulator, query: Mapping[str, str], sent: Delivery) -> Step:
    row = sim.history.row(0)
    session = {
        "session_key": query.get("session_key", "27"),
        "state": "playing",
        "user": row["user"],
        "friendly_name": row["friendly_name"],
        "full_title": row["full_title"],
        "duration": "2998272",
        "view_offset": "1000",
        "progress_percent": "0",
    }
    return _said("success", None, {"stream_count": "1", "sessions": [session]}, **sent)


def _geoip(_: TautulliSimulator, query: Mapping[str, str], sent: Delivery) -> Step:
    if not query.get("ip_address", "").startswith("192.0.2."):
        return _said("success", None, {"error": "The address was not found."}, **sent)
    place = {
        "continent": "Europe",
        "country": "Norway",
        "code": "NO",
        "region": "Oslo",
        "city": "Oslo",
        "postal_code": "0150",
        "timezone": "Europe/Oslo",
        "latitude": 59.9,
        "longitude": "10.7",
        "accuracy": None,
    }
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
    """Return the simulator for the application: a year and a half of plays, and one more every minute."""
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
