"""The six simulated music services on one port, for tests and for `tidegate serve --simulators`.

    with MusicSimulator() as sim:
        values = sim.connect("ann")                          # accounts at all services, and their credentials
        sim.spotify.listening.hear("ann", 7)
        sim.navidrome.now("code_40")                         # from now on; "well" ends it
        sim.spotify.next("too_fast", where="playlists")      # the next request of one route
        provider = made(kind, connection, replace(there, addresses=sim.addresses()))

Each service is an attribute with its state, and `known()` lists its faults. While it runs, `/_sim` controls outages, as
for every simulator. `curl -d code_40 http://127.0.0.1:12345/state/navidrome` calls `now`; with a route, such as
`/state/spotify/token`, only for that route. Without sockets, use `transport()` and a virtual clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from html import escape
from itertools import product
from typing import Any

from tidegate.apps import Simulated
from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_apps.music.registry import kinds
from tidegate_demo.simulators.music import lastfm, metadata, spotify
from tidegate_demo.simulators.music.base import HTML, Service, Time
from tidegate_demo.simulators.music.lastfm import LastFmService
from tidegate_demo.simulators.music.metadata import FanartService, MusicBrainzService, OpenAiService
from tidegate_demo.simulators.music.navidrome import PASSWORD, NavidromeServer
from tidegate_demo.simulators.music.spotify import SpotifyService

# Users that are connected from the start; "local" is the user without accounts.
LISTENERS = ("local", "ann")
NOWHERE = "http://simulated"  # the base URL for clients without sockets

# Faults that come and go in the demo: service, fault and route, and the minutes of an hour.
_WEATHER: tuple[tuple[str, str, str, range], ...] = (
    ("navidrome", "code_0_internal", "", range(4, 7)),
    ("spotify", "too_fast", "", range(9, 11)),
    ("lastfm", "error_8", "", range(14, 19)),
    ("musicbrainz", "shedding", "", range(20, 26)),
    ("spotify", "unavailable", "playlists", range(28, 33)),
    ("openai", "insufficient_quota", "chat", range(35, 40)),
    ("fanart", "hangs", "", range(44, 47)),
    ("navidrome", "unavailable", "", range(52, 56)),
)


class _System:
    def now(self) -> float:
        return time.time()


class MusicSimulator(Simulator):
    """*every*: seconds between two plays of each user. *restless*: faults come and go over time."""

    def __init__(self, *, clock: Any = None, every: float | None = None, restless: bool = False, **more: Any) -> None:
        engine = {} if clock is None else {"clock": clock}
        super().__init__("music", on_reset=self._begin, **engine, **more)
        self._time: Time = _System() if clock is None else clock
        self.navidrome = NavidromeServer(self._time, every)
        self.spotify = SpotifyService(self._time, every)
        self.lastfm = LastFmService(self._time, every)
        self.musicbrainz = MusicBrainzService(self._time)
        self.fanart = FanartService(self._time)
        self.openai = OpenAiService(self._time)
        for service in self.services.values():
            service.mount(self)
            if restless:
                service.by_itself = partial(self._weather, service.name)
        self.on("POST /state/{service}", self._told)
        self.on("POST /state/{service}/{where}", self._told)
        self.on("GET /", self._front)

    @property
    def services(self) -> Mapping[str, Service]:
        services = (self.navidrome, self.spotify, self.lastfm, self.musicbrainz, self.fanart, self.openai)
        return {service.name: service for service in services}

    def start(self) -> str:
        url = super().start()
        self.fanart.url = url
        return url

    def addresses(self, base: str | None = None) -> Mapping[str, str]:
        """Return the URLs of the services by name; without sockets, *base* is NOWHERE."""
        at = base or self.url
        names = {
            "spotify": "spotify",
            "spotify_accounts": "spotify",
            "lastfm": "lastfm",
            "lastfm_web": "lastfm",
            "musicbrainz": "musicbrainz",
            "fanart": "fanart",
            "openai": "openai",
        }
        return {name: f"{at}/{service}" for name, service in names.items()}

    def operator(self) -> Mapping[str, Mapping[str, str]]:
        """Return what the operator enters for all users, by kind."""
        return {
            "spotify": {"client_id": spotify.CLIENT, "client_secret": spotify.SECRET},
            "lastfm": {"api_key": lastfm.KEY, "shared_secret": lastfm.SECRET},
            "fanart": {"api_key": metadata.FANART_KEY},
            "openai": {"api_key": metadata.OPENAI_KEY},
        }

    def connect(self, user: str, base: str | None = None) -> Mapping[str, Mapping[str, str]]:
        """Create accounts of *user* at all services.

        Return the values of each connection by kind, without the operator's.
        """
        return {kind: self.connection(kind, user, base) for kind in self.services}

    def connection(self, kind: str, user: str, base: str | None = None) -> Mapping[str, str]:
        """Create an account at one service. At Spotify this is a new consent, which invalidates earlier tokens."""
        match kind:
            case "navidrome":
                self.navidrome.user(user)
                return {"url": f"{base or self.url}/navidrome", "user": user, "password": PASSWORD}
            case "spotify":
                return self.spotify.user(user)
            case "lastfm":
                self.lastfm.user(user)
                return {"user": user}
        return {}

    def _weather(self, service: str, where: str) -> str:
        minute = int(self._time.now() // 60 % 60)
        faults = (
            fault
            for name, fault, at, minutes in _WEATHER
            if name == service and at in ("", where) and minute in minutes
        )
        return next(faults, "well")

    def _begin(self) -> None:
        for service in self.services.values():
            service.begin()

    def _told(self, request: RecordedRequest) -> object:
        service = self.services.get(request.params["service"])
        if service is None:
            return Step(404, {"error": f"there are: {', '.join(self.services)}"})
        try:
            service.now(request.text.strip(), request.params.get("where", ""))
        except ValueError as error:
            return Step(400, {"error": str(error)})
        return {"service": service.name, "state": dict(service.state)}

    def _front(self, _: RecordedRequest) -> Step:
        rows = "".join(
            f"<li>{name}: {escape(str(dict(service.state)) if service.state else 'well')}"
            f"<br>routes: {', '.join(service.routes)}"
            f"<br>faults: {', '.join(service.known())}</li>"
            for name, service in self.services.items()
        )
        return Step(200, f"<!DOCTYPE html><title>Simulated music</title><ul>{rows}</ul>", HTML)


_HERE = ["127.0.0.0/8"]


def simulated() -> Simulated:
    """Return the simulator for the application, with plays and faults that come and go."""
    sim = MusicSimulator(every=180.0, restless=True)
    logs = [service.listening for service in (sim.navidrome, sim.spotify, sim.lastfm)]
    began = time.time()
    for number, user in product(range(1, 90), LISTENERS):  # plays of the previous days
        for step, log in enumerate(logs):
            log.hear(user, number * 7 + step * 16, at=began - number * 1700 - step * 500)
    use = f"is every music service at once; {' and '.join(LISTENERS)} are connected already"
    return Simulated(sim, lambda url: settings_of(sim, url), use)


def settings_of(sim: MusicSimulator, url: str) -> Mapping[str, object]:
    """Return the settings that make the application call *sim* at *url*: a table per kind, and images from here."""
    # part of the server, which the bare simulator does not need
    from tidegate_apps.music.settings import setting_of_address

    tables: dict[str, object] = {}
    for kind in kinds().values():
        addresses = {name: at for name, at in sim.addresses(url).items() if name in kind.addresses}
        where = {setting_of_address(kind.name, name): at for name, at in addresses.items()}
        tables[kind.name] = {**sim.operator().get(kind.name, {}), **where}
    values = {user: sim.connect(user, url) for user in LISTENERS}
    connect = {
        user: {kind: dict(connection) for kind, connection in of.items() if connection} for user, of in values.items()
    }
    # The simulated MusicBrainz rejects a User-Agent without a contact, as the real one may.
    return {
        **tables,
        "contact": "https://music.example",
        "connect": connect,
        "allow_networks": _HERE,
        "server_networks": _HERE,
    }
