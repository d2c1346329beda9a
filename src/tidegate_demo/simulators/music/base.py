"""What the simulated services share: catalogue, plays, named routes, and faults per route or service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol
from uuid import NAMESPACE_DNS, uuid5

from tidegate.testing import Hang, RecordedRequest, Simulator, Step

# -- catalogue of invented artists, albums and songs -------------------------------------------------------------------
# Each service has its own ids.

_ALBUMS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Harbour Lights", "Slack Water", ("Slack Water", "Mooring", "The Long Quay", "Fog Signal")),
    ("Harbour Lights", "Spring Tide", ("Spring Tide", "Undertow", "Breakwater", "Salt")),
    ("Møl & the Tidemarks", "Neap", ("Neap", "Ebb and After", "Sandbank", "Højvande")),
    ("The Sluice Keepers", "Gates", ("Gates", "Rust", "Lock and Weir", "High Water, Low Bridge")),
    ("Ana Ferreira", "Maré Cheia", ("Maré Cheia", "Farol", "Areia", "Âncora")),
    ("Ana Ferreira", "Vazante", ("Vazante", "Cais", "Sal e Vento", "Regresso")),
    ("Pontoon", "Pontoon", ("Pontoon", "Gangway", "Bollard", "Dry Dock")),
    ("DJ Estuary", "Brackish", ("Brackish", "Delta", "Silt (Extended Mix)", "Outflow")),
    ("海の門", "潮", ("潮", "満ち潮", "引き潮", "灯台")),
    ("Kelp Choir", "Holdfast", ("Holdfast", "Canopy", "Drift", "Stipe")),
    ("Old Pilot", "Soundings", ("Soundings", "By the Mark", "No Bottom", "Lead Line")),
    ("Wrack Line", "What Is Left", ("What Is Left", "Driftwood", "Glass", "Plastic")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueTrack:
    """*number* counts from 0 across all tracks."""

    number: int
    title: str
    artist: str
    album: str

    @property
    def seconds(self) -> int:
        return 150 + self.number * 37 % 180

    @property
    def mbid(self) -> str:
        return known_as("recording", f"{self.artist} {self.title}")

    @property
    def artist_mbid(self) -> str:
        return known_as("artist", self.artist)

    @property
    def album_mbid(self) -> str:
        return known_as("release-group", f"{self.artist} {self.album}")

    @property
    def isrc(self) -> str:
        return f"XXTG1{self.number:07d}"


@cache
def known_as(entity: str, name: str) -> str:
    """Return the MusicBrainz id of a name."""
    return str(uuid5(NAMESPACE_DNS, f"{entity} {name}"))


TRACKS: tuple[CatalogueTrack, ...] = tuple(
    CatalogueTrack(number=number, title=title, artist=artist, album=album)
    for number, (artist, album, title) in enumerate(
        (artist, album, title) for artist, album, titles in _ALBUMS for title in titles
    )
)
ARTISTS: tuple[str, ...] = tuple(dict.fromkeys(track.artist for track in TRACKS))
ALBUMS: tuple[CatalogueTrack, ...] = tuple({track.album_mbid: track for track in reversed(TRACKS)}.values())[
    ::-1
]  # one track of each


# -- plays, added on demand or over time -------------------------------------------------------------------------------


class Time(Protocol):
    """The part of a clock that a service needs."""

    def now(self) -> float: ...


class Listening:
    """Plays by user, oldest first. With *every*, each user has a play each time this number of seconds passes."""

    def __init__(self, clock: Time, every: float | None = None) -> None:
        self._clock, self._every = clock, every
        self._logs: dict[str, list[tuple[float, int]]] = {}
        self._until: dict[str, float] = {}

    def hear(self, user: str, song: int = 0, *, at: float | None = None) -> CatalogueTrack:
        """Add one play, now or at another time."""
        insort(self._log(user), (self._clock.now() if at is None else at, song % len(TRACKS)))
        return TRACKS[song % len(TRACKS)]

    def heard(self, user: str, since: float = 0.0) -> list[tuple[float, CatalogueTrack]]:
        """Return all plays, or those from a time on."""
        log = self._log(user)
        now = self._clock.now()
        if self._every is not None:
            at = self._until.setdefault(user, now) + self._every
            while at <= now:
                insort(log, (at, int(at / self._every) % len(TRACKS)))
                self._until[user] = at
                at += self._every
        first, end = bisect_left(log, (since, -1)), bisect_left(log, (now, len(TRACKS)))
        return [(at, TRACKS[song]) for at, song in log[first:end]]

    def forget(self, user: str, at: float) -> None:
        """Remove a play from the history."""
        self._logs[user] = [play for play in self._log(user) if play[0] != at]

    def _log(self, user: str) -> list[tuple[float, int]]:
        return self._logs.setdefault(user, [])


PAGE = "<!DOCTYPE html><html><head><title>Please wait</title></head><body>Checking your browser.</body></html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}
_ROWS = [{"id": f"{number:06d}"} for number in range(500)]

Handler = Callable[[RecordedRequest], object]
Fault = Step | Hang | Handler

# -- faults that every service may have --------------------------------------------------------------------------------
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
    """One service below a path of its name. `now` and `next` set its faults.

    *where* is the name of one of its `routes`; without it, the fault applies to all.
    """

    name: ClassVar[str]
    faults: ClassVar[Mapping[str, Fault]] = {}

    def __init__(self, clock: Time) -> None:
        self.clock = clock
        self.routes: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._next: dict[str, deque[str]] = {}
        self.by_itself: Callable[[str], str] = lambda where: "well"  # the default fault of a route
        self.begin()

    def begin(self) -> None:
        """Reset all state."""
        self._now.clear()
        self._next.clear()

    def now(self, fault: str, where: str = "") -> None:
        """Set the fault from now on; "well" clears it."""
        self._check(fault, where)
        if fault == "well":
            self._now.pop(where, None)
        else:
            self._now[where] = fault

    def next(self, *faults: str, where: str = "") -> None:
        """Set the faults of the next requests, in order. After them the current fault applies."""
        for fault in faults:
            self._check(fault, where)
        self._next.setdefault(where, deque()).extend(faults)

    @property
    def state(self) -> Mapping[str, str]:
        """Return the active faults by route; the empty name means all routes."""
        return dict(self._now)

    @abstractmethod
    def mount(self, sim: Simulator) -> None:
        """Register the routes of the service."""

    def known(self) -> tuple[str, ...]:
        return ("well", *self.faults, *ANY)

    def _route(self, sim: Simulator, where: str, route: str, handler: Handler) -> None:
        method, _, path = route.partition(" ")
        full = f"{method} /{self.name}{path}"
        self.routes[where] = full
        sim.on(full, lambda request: self._met(where, request, handler))

    def _met(self, where: str, request: RecordedRequest, handler: Handler) -> object:
        waiting = next((faults for name in (where, "") if (faults := self._next.get(name))), None)
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
    """A service with plays; *every*: seconds between two plays of each user."""

    def __init__(self, clock: Time, every: float | None = None) -> None:
        self._every = every
        super().__init__(clock)

    def begin(self) -> None:
        super().begin()
        self.listening = Listening(self.clock, self._every)
