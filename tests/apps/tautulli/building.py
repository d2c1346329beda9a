"""What the tests of tautulli build with: the application in virtual time, and a Tautulli over real HTTP."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tests.databases import Database
from tidegate import Breaker, Job, Queue
from tidegate.apps import Installed, install
from tidegate.clock import VirtualClock
from tidegate.guard.sinks import BreakerCollector
from tidegate.jobs import Drained
from tidegate_apps.tautulli import store
from tidegate_apps.tautulli.app import app
from tidegate_apps.tautulli.client import TARGET, Tautulli
from tidegate_apps.tautulli.guarded_client import Api, bare_client
from tidegate_apps.tautulli.jobs import BY_CLOCK
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_apps.tautulli.store import SyncState
from tidegate_apps.tautulli.sync import HistorySync
from tidegate_demo.simulators.tautulli import TautulliSimulator

HOUR, DAY = 3600.0, 86400.0


@dataclass
class Desk:
    """The application, and the Tautulli that it asks. Time stands still unless it is advanced."""

    queue: Queue
    there: Installed[TautulliSettings]
    clock: VirtualClock
    sim: TautulliSimulator

    @classmethod
    @contextlib.contextmanager
    def opened(cls, db: Database, sim: dict[str, Any] | None = None, **settings: Any) -> Iterator[Self]:
        clock = VirtualClock()
        with (
            TautulliSimulator(now=clock.now, **{"rows": 600, **(sim or {})}) as simulator,
            Queue(db.url, driver=db.driver, clock=clock, inline=True) as queue,
        ):
            given = {"url": simulator.url, "api_key": simulator.key, "timeout": "30s", "page": 200}
            there = install(app, queue, TautulliSettings.model_validate({**given, **settings}))
            with there.closing:
                yield cls(queue, there, clock, simulator)

    @property
    def api(self) -> Api:
        found: Api = self.there.jobs.api
        return found

    @property
    def breaker(self) -> Breaker:
        return self.api.breaker

    @property
    def state(self) -> SyncState:
        return self.there.db.first(SyncState, "state") or SyncState()

    @property
    def fresh(self) -> store.Freshness:
        return self.there.db.read(lambda tx: store.freshness(tx, self.there.settings, self.clock.now()))

    def syncing(self, **more: Any) -> HistorySync:
        """A sync without a job and without a gate, and without threads unless they are asked for."""
        how = {"threads": False, **more}
        return HistorySync(self.there.db, self.client, self.there.settings.page, self.clock.now, **how)

    @cached_property
    def client(self) -> Tautulli:
        """Without a gate."""
        return bare_client(self.there)

    def run(self, which: str = BY_CLOCK) -> tuple[Job, Drained]:
        """What is due now is done; the job that a tick of the clock would put in is among it."""
        made = self.there.jobs.sync.enqueue(which)
        drained = self.queue.drain()
        return self.queue.get(made.id), drained

    def rows(self) -> list[Any]:
        """What is stored, the oldest first."""
        asked = {"started": 2**53, "row_id": 0, "since": 0, "person": "", "show": "", "platform": "", "media_type": ""}
        return self.there.db.all("plays", **asked, n=100_000)[::-1]

    def counted(self) -> dict[str, int]:
        """Every number that charts and lists are read from, added up: each must be the number of plays."""
        found = {"total": self.there.db.all("total")[0][0]}
        for statement in ("hours", "clock"):
            found[statement] = sum(row[1] for row in self.there.db.all(statement, first=0, ends=2**40, ahead=0))
        for kind in ("person", "show", "platform"):
            for grain in ("week", "month", "all"):
                found[f"{kind} {grain}"] = sum(self.top(kind, grain).values())
        return found

    def top(self, kind: str, grain: str) -> dict[str, int]:
        """Plays of each name, by all tallies of one grain."""
        nothing = {"rim": 0, "rim_ends": 0, "sign": 1}
        rows = self.there.db.all("top", kind=kind, grain=grain, whole=0, n=100_000, **nothing)
        return {row[0]: row[1] for row in rows}


def sqlite(folder: Path) -> Database:
    return Database("sqlite-apsw", f"sqlite:///{folder / 'plays.db'}", "apsw")


def starts(desk: Desk) -> list[dict[str, str]]:
    return [
        {name: each.query[name] for name in ("start", "length", "after", "order_dir") if name in each.query}
        for each in desk.sim.asked("GET /api/v2")
    ]


class Metrics:
    """The numbers of the breaker since this was made: other tests of this process have counted, too."""

    def __init__(self) -> None:
        gc.collect()  # breakers of other tests that nobody holds any more
        self._before = samples()

    def now(self) -> dict[str, float]:
        """State and failures in a row as they are; counters since the beginning, without those that are 0."""
        found = samples()
        counters = {name: value - self._before.get(name, 0) for name, value in found.items() if "total" in name}
        gauges = {name: value for name, value in found.items() if "total" not in name}
        return gauges | {name: value for name, value in counters.items() if value}


def samples() -> dict[str, float]:
    """All numbers of the breaker, by what they are and their labels."""
    return {
        " ".join([sample.name.removeprefix("circuit_breaker_"), *_labels(sample.labels)]): sample.value
        for family in BreakerCollector().collect()
        for sample in family.samples
        if sample.labels["name"] == TARGET
    }


def _labels(labels: dict[str, str]) -> list[str]:
    return [labels[name] for name in ("result", "from_state", "to_state") if name in labels]
