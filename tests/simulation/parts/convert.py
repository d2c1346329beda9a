"""PDFs that people upload: each one that was accepted becomes XML that can be fetched, whatever the gateway does."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.simulation.blocking import Blocking, NoTime
from tests.simulation.parts.part import Part
from tidegate import Queue
from tidegate.apps import Installed, install
from tidegate_apps.convert import jobs as convert_jobs
from tidegate_apps.convert.app import app
from tidegate_apps.convert.codes import TARGET
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_demo.simulators.convert import FAILURES, GatewaySimulator

if TYPE_CHECKING:
    from tests.simulation.machines import Machine
    from tests.simulation.world import World

JOBS = "select id, state, result, unique_key from tg_job where kind = 'convert.pdf'"
HEIR = """
select max(id) from tg_job where state <> 'failed' and unique_key = (select unique_key from tg_job where id = ?)
"""


class Convert(Part):
    """The files are on a real disk; calls of the gateway take no time."""

    name = "convert"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.sim = GatewaySimulator(clock=NoTime(self.clock))
        self.accepted: dict[str, int] = {}  # jobs, by what was uploaded
        self.files = world.folder / "files"

    def install(self, queue: Queue) -> Installed[Any]:
        way = Blocking(self.sim.transport(), lambda what: self.world.note("gateway", what))
        changed = dataclasses.replace(app, jobs=lambda there: convert_jobs.declare(there, way))
        said = {"gateway_url": "http://gateway", "storage": str(self.files), "least_free": 0}
        return install(changed, queue, ConvertSettings.model_validate(said), None)

    async def live(self, end: float) -> None:
        n = 0
        while await self.world.rest(self.dice.expovariate(1 / 900), end):
            n += 1
            await self._uploaded(f"document {n}")
            if self.dice.random() < 0.3:
                await self._uploaded(f"document {self.dice.randint(1, n)}")

    async def _uploaded(self, name: str) -> None:
        file = {"file": ("a.pdf", f"%PDF-1.7\n% {name}\n".encode(), "application/pdf")}
        while True:
            answer = self.world.server.ask("POST", "/api/upload", files=file)
            self.world.note("upload", name, answer.status_code)
            if answer.status_code in (200, 202):
                public_id = answer.json()["id"]
                id_ = self.world.rows("select job from convert_file where public_id = ?", public_id)[0][0]
                if self.accepted.setdefault(name, id_) != id_ and self._state(self.accepted[name]) != "failed":
                    self.world.wrong.append(f"{name} is job {self.accepted[name]} and job {id_}")
                self.accepted[name] = id_
                return
            if answer.status_code not in (503, 507):
                self.world.wrong.append(f"the upload of {name} was answered with {answer.status_code}: {answer.text}")
                return
            await asyncio.sleep(20)

    def _state(self, id_: int) -> str:
        return str(self.world.rows("select state from tg_job where id = ?", id_)[0][0])

    def _public_id(self, id_: int) -> str:
        return str(self.world.rows("select public_id from convert_file where job = ?", id_)[0][0])

    def fall_ill(self) -> str:
        ill = self.dice.choice(list(FAILURES))
        self.sim.now(ill)
        return ill

    def mend(self) -> None:
        self.sim.now("well")

    # -- the end -------------------------------------------------------------------------------------------------------

    def put_right(self, machine: Machine) -> None:
        if not self.settled():
            self.world.server.ask("POST", f"/api/v1/targets/{TARGET}/clear")  # as after a new key
        for name, id_ in self.accepted.items():
            if self._state(id_) != "failed":
                continue
            if self.world.server.ask("POST", f"/api/jobs/{self._public_id(id_)}/retry").status_code == 409:
                # An upload that nobody had heard of arrived after this one had failed: it has taken its place.
                self.accepted[name] = self.world.rows(HEIR, id_)[0][0] or id_

    def settled(self) -> bool:
        return all(self._state(id_) == "done" for id_ in self.accepted.values())

    def wrong(self) -> Iterator[str]:
        jobs = {row[0]: row for row in self.world.rows(JOBS)}
        for name, id_ in self.accepted.items():
            if id_ not in jobs:
                yield f"{name} was accepted as job {id_}, which is gone"
            elif jobs[id_][1] != "done":
                yield f"{name} is still {jobs[id_][1]}"
            else:
                yield from self._result(name, json.loads(jobs[id_][2]))
        twins = Counter(row[3] for row in jobs.values() if row[3] and row[1] != "failed")
        yield from (f"{n} jobs for {key}" for key, n in twins.items() if n > 1)
        left = [each.name for each in self.files.rglob("*") if each.is_file() and each.suffix not in (".pdf", ".xml")]
        if len(left) > 2:
            yield f"files are left over: {left[:5]}"

    def _result(self, name: str, made: dict[str, Any]) -> Iterator[str]:
        path = self.files / made["path"]
        if not path.exists():
            yield f"the XML of {name} is gone"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != made["sha256"]:
            yield f"the XML of {name} is not the one that was recorded"
