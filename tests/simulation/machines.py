"""A machine: a process with a worker, what tells people beside it, and all applications; until it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation import poison
from tests.simulation.loop import Process
from tests.simulation.services import declared, declared_after, declared_brief, declared_innocent, declared_poison
from tests.simulation.store_weather import OnWeather
from tidegate.apps import Installed

if TYPE_CHECKING:
    from tests.simulation.world import World

NUMBERS: dict[str, Any] = {"poll_every": 45.0, "sweep_every": 40.0, "listen_every": 60.0}
LOOK = 300.0  # seconds between two looks at what people are to be told


class Machine:
    """Its queue reaches the database through the weather; its applications reach the simulated services."""

    def __init__(self, name: str, world: World) -> None:
        self.name, self.process = name, Process()
        self.queue = OnWeather(
            world.url, random.Random(f"{world.seed} {name}"), world.planted.changed, clock=world.clock
        )
        self.kinds = {each: declared(self.queue, each, service) for each, service in world.services.items()}
        self.after = declared_after(self.queue)
        self.brief = declared_brief(self.queue)
        self.innocent = declared_innocent(self.queue, partial(poison.works, world, self))
        self.poison = declared_poison(self.queue, partial(poison.dies, world, self))
        self.telling = world.mailbox.telling(self.queue)
        self.queue.add_background_task(lambda: self.telling.run(every=LOOK))
        self.there: dict[str, Installed[Any]] = {each.name: each.install(self.queue) for each in world.parts}
        self._stop = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        self._task = self.process.begin(self.queue.arun_worker(8, stop=self._stop, **NUMBERS))

    @property
    def ended(self) -> BaseException | None:
        """What ended it, when nobody asked it to end."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception() or RuntimeError("the worker ended by itself")

    async def kill(self) -> None:
        assert self._task is not None
        self.queue.weather.dead = True
        self._task.cancel()
        with contextlib.suppress(BaseException):
            await self._task
        await self.process.end()
        for each in self.there.values():
            each.closing.close()  # but not the store: what it sent last may still arrive

    async def stop(self) -> None:
        assert self._task is not None
        self._stop.set()
        await self._task
        for each in self.there.values():
            each.closing.close()

    def close(self) -> None:
        self.queue.close()
