"""Music on a server of its own in this process, with workers beside it and the simulated services."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.apps.music.building import KEY
from tests.web.serving import running
from tidegate import Queue
from tidegate.apps import Installed, install
from tidegate.server import WorkerThread
from tidegate.targets.reporter import reporter_of
from tidegate.web.site import Site
from tidegate_apps.music.app import app
from tidegate_apps.music.settings import SETTINGS, MusicSettings
from tidegate_demo.simulators.music import MusicSimulator, settings_of


@dataclass
class Served:
    queue: Queue
    there: Installed[MusicSettings]
    sim: MusicSimulator
    base: str = ""

    @property
    def site(self) -> Site:
        return Site(queue=self.queue, apps=(self.there,))


def settings(sim: MusicSimulator, **more: Any) -> MusicSettings:
    values: dict[str, Any] = {**settings_of(sim, sim.url), "look_every": "100ms", "connect": {}, **more}
    return SETTINGS.model_validate(values)


@contextlib.contextmanager
def installed(folder: Path, sim: MusicSimulator, **more: Any) -> Iterator[Served]:
    """Without a server and without workers."""
    with Queue(f"sqlite:///{folder / 'music.db'}") as queue:
        yield Served(queue, install(app, queue, settings(sim, **more), lambda: KEY), sim)


@contextlib.contextmanager
def serving(folder: Path, **more: Any) -> Iterator[Served]:
    with MusicSimulator() as sim, installed(folder, sim, **more) as found:
        engine = WorkerThread(lambda stop: found.queue.arun_worker(4, stop=stop, grace=5))
        engine.start()
        try:
            with running(found.site) as base:
                found.base = base
                yield found
        finally:
            engine.ask()
            assert engine.join(60)
            reporter_of(found.queue.url).close()
