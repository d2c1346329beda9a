"""A listener at the services of music: every play is kept once, whatever fails meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import httpx2

from tests.simulation.parts.part import KEY, Part
from tidegate import Queue
from tidegate.apps import Installed, install
from tidegate_apps.music import jobs
from tidegate_apps.music.app import app
from tidegate_apps.music.health import SyncDependencies
from tidegate_apps.music.registry import kinds
from tidegate_apps.music.settings import SETTINGS, MusicSettings
from tidegate_demo.simulators.music import NOWHERE, MusicSimulator, settings_of

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

SONG = 480.0  # seconds between two plays; Spotify tells of the last 50 alone
EVERY = "10m"  # between two looks at a service
# Seconds after which, at the latest, somebody sees that a service has stopped for good; in seven hours plays are lost.
NOTICED = 3600.0
LISTENER = "ann"
LISTENED = ("navidrome", "spotify", "lastfm")
ILLS = (
    "broken", "bad_gateway", "unavailable", "gateway_timeout", "throttled", "hangs", "resets", "resets_in_the_middle",
    "cut", "no_http", "empty", "page", "wrong_shape",
)  # fmt: skip
PLAYS = "select round(p.at), t.title from music_play p join music_track t on t.id = p.track_id where p.provider = ?"

FATAL = "select 1 from music_state where provider = ? and held = 'fatal'"


class Music(Part):
    """One simulator of all six services."""

    name = "music"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.sim = MusicSimulator(clock=world.time, every=SONG)
        values: dict[str, Any] = dict(settings_of(self.sim, NOWHERE))
        for provider in LISTENED:
            values[provider] = {**values[provider], "every": EVERY}
        connected = {kind: dict(each) for kind, each in self.sim.connect(LISTENER, NOWHERE).items() if each}
        self.settings = SETTINGS.model_validate({**values, "connect": {LISTENER: connected}, "look_every": "60s"})
        for provider in LISTENED:
            self._heard(provider)  # it begins to listen

    def install(self, queue: Queue) -> Installed[Any]:
        outside = SyncDependencies(clock=self.clock, rng=self.dice.random)
        changed = dataclasses.replace(app, jobs=lambda there: jobs.declare(there, kinds(), outside, self._opened))
        return install(changed, queue, self.settings, lambda: KEY)

    @contextlib.asynccontextmanager
    async def _opened(self, settings: MusicSettings) -> AsyncIterator[httpx2.AsyncBaseTransport]:
        yield self.sim.transport()

    async def live(self, end: float) -> None:
        while await self.world.rest(NOTICED, end):
            for provider in LISTENED:
                self._cleared(provider)

    def fall_ill(self) -> str:
        service, ill = self.dice.choice(list(self.sim.services.values())), self.dice.choice(ILLS)
        service.now(ill)
        return f"{service.name} {ill}"

    def mend(self) -> None:
        for service in self.sim.services.values():
            service.now("well")

    def put_right(self, machine: Machine) -> None:
        for provider in LISTENED:
            if self._until_mended(provider) - self._kept(provider):
                self._cleared(provider)
                machine.there[self.name].jobs.connections.request_sync(LISTENER, provider, by="ada")

    def _cleared(self, provider: str) -> None:
        """As on the page of the target: of an answer that made no sense, only a person says that it is over."""
        for each in self.world.machines if self.world.rows(FATAL, provider) else ():
            if not each.process.still:
                each.there[self.name].jobs.context().healths.of(LISTENER, provider).clear()

    # -- the end -------------------------------------------------------------------------------------------------------

    def _heard(self, provider: str) -> list[tuple[int, str]]:
        listening = self.sim.services[provider].listening  # type: ignore[attr-defined]  # these three have one
        return [(round(at), track.title) for at, track in listening.heard(LISTENER)]

    def _until_mended(self, provider: str) -> Counter[tuple[int, str]]:
        end = self.world.time.now() - self.clock.monotonic() + self.world.mended_at
        return Counter(each for each in self._heard(provider) if each[0] < end)

    def _kept(self, provider: str) -> Counter[tuple[int, str]]:
        return Counter((int(at), title) for at, title in self.world.rows(PLAYS, provider))

    def settled(self) -> bool:
        return not any(self._until_mended(each) - self._kept(each) for each in LISTENED)

    def wrong(self) -> Iterator[str]:
        for provider in LISTENED:
            kept = self._kept(provider)
            if lost := self._until_mended(provider) - kept:
                yield f"{provider}: {len(lost)} plays were lost, such as {sorted(lost)[:3]}"
            if odd := kept - Counter(self._heard(provider)):
                yield f"{provider}: {len(odd)} plays are there twice, or never were: {sorted(odd)[:3]}"
