"""The environment of the demo: five applications, their simulated services, initial data and measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from tidegate.apps import App, DbTx, Installed, Simulated
from tidegate.errors import NotFound, Rejected
from tidegate_apps.convert import service
from tidegate_apps.convert.uploads import UploadReceiver
from tidegate_apps.feeds.models import AUTO, SourceRequest
from tidegate_apps.music.library import key_of, tables
from tidegate_apps.tautulli.jobs import BY_CLOCK
from tidegate_demo.simulators.convert import GatewaySimulator
from tidegate_demo.simulators.feeds import FeedSimulator
from tidegate_demo.simulators.lidarr import KEY as LIDARR_KEY
from tidegate_demo.simulators.lidarr import LidarrSimulator, SimulatedTiming
from tidegate_demo.simulators.music import MusicSimulator, settings_of
from tidegate_demo.simulators.tautulli import KEY as TAUTULLI_KEY
from tidegate_demo.simulators.tautulli import TautulliSimulator

# -- simulated services ------------------------------------------------------------------------------------------------

FEEDS = 24
LISTENER = "local"  # the user without accounts
_SONGS = 60


@dataclass(frozen=True, slots=True)
class Services:
    """Simulated services with realistic delays where they are visible, and shorter ones elsewhere."""

    gateway: GatewaySimulator = field(default_factory=lambda: GatewaySimulator(takes="400ms"))
    feeds: FeedSimulator = field(default_factory=lambda: FeedSimulator(feeds=FEEDS, items=10))
    music: MusicSimulator = field(default_factory=lambda: MusicSimulator(every=20.0))
    lidarr: LidarrSimulator = field(
        default_factory=lambda: LidarrSimulator(pace=SimulatedTiming(refresh=0.2, found=1.0, lasts=8.0))
    )
    tautulli: TautulliSimulator = field(
        default_factory=lambda: TautulliSimulator(rows=3000, per_day=40, titles=200, every=15)
    )

    def under(self, apps: Sequence[App[Any]]) -> list[App[Any]]:
        """Configure the applications to call these services, and return them."""
        known = self._simulated()
        return [replace(app, simulator=partial(known.__getitem__, app.name)) for app in apps if app.name in known]

    def _simulated(self) -> Mapping[str, Simulated]:
        return {
            "convert": Simulated(self.gateway, lambda url: {"gateway_url": url}),
            "feeds": Simulated(
                self.feeds, lambda url: {"allow_networks": ["127.0.0.0/8"], "ports": [], "simulated": url}
            ),
            "music": Simulated(self.music, self._of_music),
            "lidarr": Simulated(self.lidarr, lambda url: {"base_url": url, "api_key": LIDARR_KEY}),
            "tautulli": Simulated(self.tautulli, lambda url: {"url": url, "api_key": TAUTULLI_KEY}),
        }

    def _of_music(self, url: str) -> Mapping[str, object]:
        """Configure one user with earlier plays, so that each fault causes one notice."""
        now, music = time.time(), self.music
        logs = [service.listening for service in (music.navidrome, music.spotify, music.lastfm)]
        for number, (step, log) in product(range(1, _SONGS), enumerate(logs)):
            log.hear(LISTENER, number * 7 + step * 16, at=now - number * 1700 - step * 500)
        settings = dict(settings_of(music, url))
        # After the plays: a new consent at Spotify ends an earlier one.
        values = {kind: dict(connection) for kind, connection in music.connect(LISTENER, url).items() if connection}
        return {**settings, "connect": {LISTENER: values}}


# -- initial data: files, feeds, a library, and albums for Lidarr ------------------------------------------------------

VISITOR = "demo"  # the owner of uploads in all browsers
OWNER = f"visitor:{VISITOR}"
_PAPERS = ("Tide table", "Invoice", "Harbour report", "Survey of the sluice", "Minutes", "Log", "Lease", "Chart")
_FIRST = ("Grey", "Northern", "Quiet", "Second", "Salt", "Distant", "Lower", "Broken", "Early", "Hidden")
_LAST = ("Harbours", "Lanterns", "Ferries", "Buoys", "Estuary", "Signals", "Pilots", "Moorings", "Shoals", "Currents")
_TITLES = (
    "Slack Water",
    "Ebb",
    "Flood",
    "Neap",
    "Spring",
    "Undertow",
    "Soundings",
    "Landfall",
    "Leeward",
    "Windward",
)


def pdf(text: str) -> bytes:
    """Return a PDF of one page with one line of text."""
    line = text.encode("ascii", "replace").replace(b"\\", b"").replace(b"(", b"").replace(b")", b"")
    drawn = b"BT /F 24 Tf 72 760 Td (" + line + b") Tj ET"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body, places = b"%PDF-1.4\n", []
    for number, part in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return (
        body
        + head
        + table
        + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
        % (
            len(objects) + 1,
            len(body),
        )
    )


def upload(convert: Installed[Any], number: int) -> None:
    """Upload one more file, as the page does."""
    name = f"{_PAPERS[number % len(_PAPERS)]} {number + 1}"
    with convert.jobs.storage.draft() as draft:
        got = UploadReceiver(draft, convert.settings.most_bytes)
        got.begun(f"{name}.pdf")
        got.add(pdf(name))
        service.take(convert, OWNER, got, draft)


def add_feeds(feeds: Installed[Any], services: Services) -> None:
    wanted = [SourceRequest(feed_url=services.feeds.feed(n), name=f"Simulated feed {n}") for n in range(1, FEEDS + 1)]
    for id_ in feeds.jobs.sources.add_many(wanted, AUTO):
        if id_ is not None:
            feeds.jobs.sources.poll_now(id_)


def band_names(first: int, n: int) -> list[str]:
    """Return distinct names, always the same."""
    names = [f"{one} {two}" for one, two in product(_FIRST, _LAST)]
    rounds = ((number // len(names), names[number % len(names)]) for number in range(first, first + n))
    return [f"{name} {number + 1}" if number else name for number, name in rounds]


def add_albums(lidarr: Installed[Any], names: Sequence[str]) -> None:
    """Add ten albums of each band to the library."""

    def write(tx: DbTx) -> None:
        tx.all("add_user", user_id=LISTENER, at=lidarr.queue.clock.now())
        for name in names:
            band = {"user_id": LISTENER, "name": name, "name_key": key_of(name), "mbid": _id(name)}
            artist = tx.scalar(int, "add_artist", **band)
            for title in _TITLES:
                album = {"title": title, "name_key": key_of(title), "mbid": _id(f"{name} {title}")}
                tx.all("add_album", user_id=LISTENER, artist_id=artist, **album)

    tables(lidarr.queue).write(write)


def put_into_lidarr(services: Services, names: Sequence[str]) -> None:
    """Add the bands to Lidarr."""
    inside = services.lidarr.inside
    for name in names:
        artist = inside.put_artist(_id(name), name)
        for title in _TITLES:
            inside.put_album(_id(f"{name} {title}"), artist["id"], monitored=True)["files"] = 10


def _id(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


# -- measurements ------------------------------------------------------------------------------------------------------
# Every number in the story comes from the store or a simulator.


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The state at one moment. The fields are in the order of the columns of the statement `facts`."""

    converted: int = 0
    uploads_wait: int = 0
    uploads_failed: int = 0
    breaker: str = "closed"  # of the gateway
    polled: int = 0  # feeds that were polled
    feeds: int = 0
    refusals: int = 0  # consecutive failed polls of the feed in the story
    rests_until: float | None = None  # of that feed
    plays: int = 0
    spotify_notices: int = 0  # about Spotify, since the start of the story
    spotify_needs: int = 0  # operations of Spotify that need a user
    albums_wait: int = 0
    albums_sent: int = 0
    notices: int = 0  # since the start of the story
    lidarr_taken: int = 0  # used capacity of its queue
    lidarr_room: int = 0  # capacity of its queue
    watched: int = 0  # plays in Tautulli

    @property
    def lidarr_full(self) -> bool:
        return 0 < self.lidarr_room <= self.lidarr_taken


def many(n: int, one: str, several: str = "") -> str:
    """Return a number with its noun: 1 upload, 2 uploads."""
    return f"{n:,} {one if n == 1 else several or one + 's'}"


FEED, GONE = 7, 11  # numbers of the feeds that the story and the buttons break
_UPLOAD_EVERY = 3.0  # seconds
_POLL_EVERY = 3.0
_PUBLISH_EVERY = 2.0
_MAX_WAITING = 150  # uploads; above this, no more are added


class DemoEnvironment:
    """The installed applications and their services. One thread uses it at a time, except for `services`."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._apps: dict[str, Installed[Any]] = {}
        self._uploads = self._bands = self._published = 0
        self._due: dict[str, float] = {}
        self._began = 0.0

    def fill(self, apps: Sequence[Installed[Any]]) -> None:
        """Take the installed applications, and add the initial data."""
        self._apps = {app.app.name: app for app in apps}
        self._began = self.now()
        self.rush(10)
        add_feeds(self["feeds"], self.services)
        self.more_albums(4, known=True)
        self.more_albums(1)
        self.sync_tautulli()
        # Run now, not at the next full minute.
        self["music"].jobs.sync.enqueue()
        self["lidarr"].jobs.wakes.enqueue()

    def afresh(self) -> None:
        """Enable suspended feeds and reset the measurements."""
        self._began = self.now()
        for number in (FEED, GONE):
            self["feeds"].jobs.sources.enable(number, "demo")

    def __getitem__(self, name: str) -> Installed[Any]:
        return self._apps[name]

    def now(self) -> float:
        return self["demo"].queue.clock.now()

    def measure(self) -> Facts:
        since = {"feed": FEED, "listener": LISTENER, "since": self._began}
        row = self["demo"].db.all("facts", **since)[0]
        full = self["lidarr"].queue.target("lidarr").fullness()
        names = list(Facts.__dataclass_fields__)[: len(row)]
        return Facts(
            **dict(zip(names, row, strict=True)),
            watched=self["tautulli"].db.scalar(int, "total"),
            lidarr_taken=0 if full is None else full.depth + full.own,
            lidarr_room=0 if full is None else full.cap,
        )

    def held(self, target: str) -> str:
        """Return what holds a target, as Tidegate's text; empty if nothing does."""
        if not target or not self._apps:
            return ""
        try:
            whys = self["demo"].queue.target(target).explain()
        except NotFound:
            return ""  # there was no call yet
        return whys[0].message if whys else ""

    # -- simulated users -----------------------------------------------------------------------------------------------

    def people(self, facts: Facts) -> None:
        """Upload a file now and then, publish entries, and poll a failing feed often."""
        if facts.uploads_wait < _MAX_WAITING:
            self._every("upload", _UPLOAD_EVERY, self.rush)
        self._every("publish", _PUBLISH_EVERY, self._publish)
        for number in (FEED, GONE):
            if self.services.feeds.state(number) != "well":
                self._every(f"poll {number}", _POLL_EVERY, lambda number=number: self.poll(number))  # type: ignore[misc]

    def rush(self, files: int = 1) -> None:
        """Upload a number of files."""
        for _ in range(files):
            upload(self["convert"], self._uploads)
            self._uploads += 1

    def more_albums(self, bands: int = 10, *, known: bool = False) -> None:
        """Add ten albums of each of *bands* new bands to the library; *known*: Lidarr has them already."""
        names = band_names(self._bands, bands)
        add_albums(self["lidarr"], names)
        if known:
            put_into_lidarr(self.services, names)
        self._bands += bands
        self["lidarr"].jobs.look.enqueue(True)

    def poll(self, number: int) -> None:
        """Poll a feed now, because waiting would take minutes. A suspended feed is not polled."""
        try:
            self["feeds"].jobs.sources.poll_now(number)
        except Rejected:
            return

    def _publish(self) -> None:
        self._published += 1
        self.services.feeds.publish(self._published % FEEDS + 1)

    def _every(self, what: str, seconds: float, do: Callable[[], None]) -> None:
        now = self.now()
        if now >= self._due.get(what, 0.0):
            self._due[what] = now + seconds
            do()

    # -- faults that need several steps --------------------------------------------------------------------------------

    def revoke(self) -> None:
        self.services.music.spotify.accounts.revoke(LISTENER)

    def connect(self) -> None:
        """Connect Spotify, with the consent of the user."""
        music = self["music"].jobs
        music.connections.put(LISTENER, music.kinds["spotify"], self.services.music.connection("spotify", LISTENER))

    def fill_lidarr(self, lasts: float = 3600.0) -> None:
        self.services.lidarr.inside.fill(self["lidarr"].settings.queue_max, lasts)

    def empty_lidarr(self) -> None:
        inside = self.services.lidarr.inside
        inside.downloads = [download for download in inside.downloads if download.album]

    @property
    def lidarr_filled(self) -> bool:
        return any(not download.album for download in self.services.lidarr.inside.queue())

    def sync_tautulli(self) -> None:
        self["tautulli"].jobs.sync.enqueue(BY_CLOCK)
