"""A Tautulli whose history grows: every row of it is kept once, and what was not seen is not passed over."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.simulation.blocking import Blocking, NoTime
from tests.simulation.parts.part import Part
from tidegate import Queue
from tidegate.apps import Installed, install
from tidegate_apps.tautulli import jobs
from tidegate_apps.tautulli.app import app
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_demo.simulators.tautulli import STATES, TautulliSimulator

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

BEGINNING = 30  # rows
KEPT = "select count(*), coalesce(max(row_id), 0) from tautulli_play"
TALLIED = "select coalesce(sum(plays), 0) from tautulli_tally where kind = 'person' and grain = 'all'"
OPEN = "select count(*) from tg_job where queue = 'tautulli' and state in ('ready', 'running')"


class Tautulli(Part):
    """Rows that come by themselves; calls take no time."""

    name = "tautulli"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        time = NoTime(self.clock)
        self.sim = TautulliSimulator(rows=BEGINNING, now=time.now, clock=time)
        self.played = 0

    def install(self, queue: Queue) -> Installed[Any]:
        way = Blocking(self.sim.transport(), lambda what: self.world.note("tautulli", what))
        changed = dataclasses.replace(app, jobs=lambda there: jobs.declare(there, way))
        said = {"url": "http://tautulli", "api_key": self.sim.key, "times": "*/10 * * * *"}
        return install(changed, queue, TautulliSettings.model_validate(said))

    async def live(self, end: float) -> None:
        while await self.world.rest(self.dice.expovariate(1 / 600), end):
            rows = self.dice.randint(1, 3)
            self.sim.play(rows)
            self.played += rows

    def fall_ill(self) -> str:
        ill = self.dice.choice([each for each in STATES if each != "well"])
        self.sim.now(ill)
        return ill

    def mend(self) -> None:
        self.sim.now("well")

    # -- the end -------------------------------------------------------------------------------------------------------

    def put_right(self, machine: Machine) -> None:
        if not self.settled():
            machine.there[self.name].jobs.sync.enqueue(jobs.BY_PERSON)

    def settled(self) -> bool:
        return bool(self.world.rows(KEPT)[0][0] >= BEGINNING + self.played) and not self.world.rows(OPEN)[0][0]

    def wrong(self) -> Iterator[str]:
        kept, newest = self.world.rows(KEPT)[0]
        if kept != BEGINNING + self.played:
            yield f"it has {BEGINNING + self.played} rows, and {kept} are kept"
        if (tallied := self.world.rows(TALLIED)[0][0]) != kept:
            yield f"{kept} rows are kept, and {tallied} are counted"
        mark = self.world.rows("select row_id from tautulli_state")
        if mark and mark[0][0] > newest:
            yield f"it counts as seen up to row {mark[0][0]}, and the newest that is kept is {newest}"
