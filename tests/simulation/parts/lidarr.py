"""A library that grows, and a Lidarr with little room: it gets all that is missing, and never more at a time."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.simulation.parts.part import Part
from tidegate import Queue
from tidegate.apps import Installed, install
from tidegate_apps.lidarr import jobs, service
from tidegate_apps.lidarr.app import app
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.music.library import tables
from tidegate_demo.simulators.lidarr import KEY, WEATHERS, LidarrSimulator, SimulatedTiming

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

ROOM = 2  # downloads
LOOK = 30.0  # seconds between two looks at the time
FAILED = "select id from tg_job where kind = 'lidarr.submit' and state = 'failed'"
OPEN = "select count(*) from tg_job where queue = 'lidarr' and state in ('blocked', 'waiting', 'ready', 'running')"


class Lidarr(Part):
    """Artists with three albums each, of one user."""

    name = "lidarr"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.sim = LidarrSimulator(clock=world.time, pace=SimulatedTiming(refresh=5, found=20, lasts=150))
        self.wanted: dict[str, str] = {}  # albums, and whose they are

    def install(self, queue: Queue) -> Installed[Any]:
        way = self.sim.transport()
        changed = dataclasses.replace(app, jobs=lambda there: jobs.declare(there, way, LOOK))
        # What was sent counts for 15 minutes, as by default: no two steps of the wall clock are as much together.
        said = {"base_url": "http://lidarr", "api_key": KEY, "queue_max": ROOM, "submit_interval": "2m"}
        return install(
            changed, queue, LidarrSettings.model_validate({**said, **self.world.planted.settings.get(self.name, {})})
        )

    async def live(self, end: float) -> None:
        n = 0
        while await self.world.rest(self.dice.uniform(900, 1800), end):
            n += 1
            self._collected(f"artist-{n}", [f"album-{n}-{m}" for m in range(3)])

    def _collected(self, artist: str, albums: list[str]) -> None:
        """As the application music does it."""
        db = tables(self.world.desk)
        mine: dict[str, Any] = {"user_id": "ada"}

        def write(tx: Any) -> None:
            tx.all("add_user", **mine, at=0.0)
            id_ = tx.all("add_artist", **mine, name=artist, name_key=artist, mbid=artist)[0][0]
            for each in albums:
                tx.all("add_album", **mine, artist_id=id_, title=each, name_key=each, mbid=each)

        db.write(write)
        self.sim.inside.catalogue[artist] = (artist, albums)
        self.wanted.update(dict.fromkeys(albums, artist))

    def fall_ill(self) -> str:
        self.sim.weather = self.dice.choice([each for each in WEATHERS if each != "well"])
        return self.sim.weather

    def mend(self) -> None:
        self.sim.weather = "well"

    # -- the end -------------------------------------------------------------------------------------------------------

    def put_right(self, machine: Machine) -> None:
        there = machine.there[self.name]
        for (id_,) in self.world.rows(FAILED):
            machine.queue.retry(id_, by="ada")
        if self._lacks():
            service.look_now(there, "ada")

    def _lacks(self) -> list[str]:
        asked = {each.album for each in self.sim.inside.downloads}
        there = {row["mbid"] for row in self.sim.inside.albums.values() if row["id"] in asked}
        return [each for each in self.wanted if each not in there]

    def settled(self) -> bool:
        return not self._lacks() and not self.world.rows(OPEN)[0][0]

    def wrong(self) -> Iterator[str]:
        if lacks := self._lacks():
            yield f"Lidarr never got {lacks}"
        if n := self.world.rows(f"{OPEN} and created_at < ?", self.world.judged_at)[0][0]:
            yield f"{n} entries are still open"
        if self.sim.inside.peak() > ROOM:
            yield f"Lidarr had {self.sim.inside.peak()} downloads, and has room for {ROOM}"
        twice = Counter(row["mbid"] for row in [*self.sim.inside.artists.values(), *self.sim.inside.albums.values()])
        yield from (f"Lidarr has {mbid} {n} times" for mbid, n in twice.items() if n > 1)
