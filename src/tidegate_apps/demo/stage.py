"""The five applications and their simulated services, as the story and the buttons see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidegate.apps import Installed
from tidegate.errors import NotFound, Rejected
from tidegate_apps.demo import seeding
from tidegate_apps.demo.facts import Facts
from tidegate_apps.demo.services import FEEDS, LISTENER, Services
from tidegate_apps.tautulli.handlers import BY_CLOCK

FEED, GONE = 7, 11  # the feeds that the story and the buttons break, by number
_UPLOAD_EVERY = 3.0  # seconds
_POLL_EVERY = 3.0
_PUBLISH_EVERY = 2.0
_MAX_WAITING = 150  # uploads; then nobody puts in more


class DemoEnvironment:
    """Filled when all of them are installed; used by one thread at a time, but for `services`."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._apps: dict[str, Installed[Any]] = {}
        self._uploads = self._bands = self._published = 0
        self._due: dict[str, float] = {}
        self._began = 0.0

    def fill(self, apps: Sequence[Installed[Any]]) -> None:
        """Takes the applications as they are, and puts in what is there from the start."""
        self._apps = {app.app.name: app for app in apps}
        self._began = self.now()
        self.rush(10)
        seeding.add_feeds(self["feeds"], self.services)
        self.more_albums(4, known=True)
        self.more_albums(1)
        self.sync_tautulli()
        # Not at the next full minute, as their schedules would.
        self["music"].jobs.sync.enqueue()
        self["lidarr"].jobs.wakes.enqueue()

    def afresh(self) -> None:
        """The feeds that rest are enabled, and what happens from now on is counted anew."""
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
            **dict(zip(names, row, strict=True)), watched=self["tautulli"].db.all("total")[0][0],
            lidarr_taken=0 if full is None else full.depth + full.own, lidarr_room=0 if full is None else full.cap,
        )  # fmt: skip

    def held(self, target: str) -> str:
        """What holds a target, in the words of Tidegate; empty when nothing does."""
        if not target or not self._apps:
            return ""
        try:
            whys = self["demo"].queue.target(target).explain()
        except NotFound:
            return ""  # nobody has called it yet
        return whys[0].message if whys else ""

    # -- what people do ------------------------------------------------------------------------------------------------

    def people(self, facts: Facts) -> None:
        """Somebody uploads a file now and then, sites write entries, and a feed that is ill is looked at often."""
        if facts.uploads_wait < _MAX_WAITING:
            self._every("upload", _UPLOAD_EVERY, self.rush)
        self._every("publish", _PUBLISH_EVERY, self._publish)
        for number in (FEED, GONE):
            if self.services.feeds.state(number) != "well":
                self._every(f"poll {number}", _POLL_EVERY, lambda number=number: self.poll(number))  # type: ignore[misc]

    def rush(self, files: int = 1) -> None:
        """So many files are uploaded."""
        for _ in range(files):
            seeding.upload(self["convert"], self._uploads)
            self._uploads += 1

    def more_albums(self, bands: int = 10, *, known: bool = False) -> None:
        """Ten more albums of each of so many bands come into the library; *known*: Lidarr has them already."""
        names = seeding.bands(self._bands, bands)
        seeding.add_albums(self["lidarr"], names)
        if known:
            seeding.put_into_lidarr(self.services, names)
        self._bands += bands
        self["lidarr"].jobs.look.enqueue(True)

    def poll(self, number: int) -> None:
        """Somebody presses Poll now, else it would take minutes; nothing happens while the feed rests."""
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

    # -- services that need more than a word ---------------------------------------------------------------------------

    def revoke(self) -> None:
        self.services.music.spotify.accounts.revoke(LISTENER)

    def connect(self) -> None:
        """Somebody presses Connect, and says yes at Spotify."""
        music = self["music"].jobs
        music.connections.put(LISTENER, music.kinds["spotify"], self.services.music.connection("spotify", LISTENER))

    def fill_lidarr(self, lasts: float = 3600.0) -> None:
        self.services.lidarr.inside.fill(self["lidarr"].settings.queue_max, lasts)

    def empty_lidarr(self) -> None:
        inside = self.services.lidarr.inside
        inside.downloads = [download for download in inside.downloads if download.album]

    @property
    def lidarr_filled(self) -> bool:
        return any(not each.album for each in self.services.lidarr.inside.queue())

    def sync_tautulli(self) -> None:
        self["tautulli"].jobs.sync.enqueue(BY_CLOCK)
