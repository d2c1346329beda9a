"""One course: load, a dip, jobs that are held by it, and the way back; on the real queue, workers and gates."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.jobs.gating import working
from tests.overload.gateway import Gateway
from tidegate import Queue, Target
from tidegate.clock import VirtualClock
from tidegate.guard import Tuning
from tidegate.jobs import settle
from tidegate.store.base import Store
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect, Statement
from tidegate.store.sqlite import SqliteStore

TARGET = "gateway"
STEP = 0.1  # seconds between two arrivals of a handful of jobs
DIPPED = 0.1  # what is left of the capacity


def unchanged(statement: Statement) -> Statement:
    return statement


class InMemory(Queue):
    """A queue that waits for no disk, since hundreds of thousands of jobs are played; a bug may be planted in it."""

    changed: Callable[[Statement], Statement] = staticmethod(unchanged)

    def _database(self) -> Store:
        statements = [self.changed(each) for each in core_statements(Dialect.SQLITE)]
        return SqliteStore(self.url.removeprefix("sqlite:///"), statements, self.clock.now, durable=False)


@dataclass
class Course:
    """Targets, workers, breakers and backoffs have the numbers that they have when nobody gives any."""

    folder: Path
    load: float  # jobs a second, as a share of the capacity
    held: int  # jobs that are put in during the dip
    capacity: float = 100.0
    workers: int = 10
    calm: float = 60.0  # seconds before the dip
    dip: float = 30.0
    most: float = 20_000.0  # seconds; then it is given up
    changed: Callable[[Statement], Statement] = unchanged
    clock: VirtualClock = field(default_factory=VirtualClock)
    depth: dict[int, int] = field(default_factory=dict)  # jobs that wait, by second
    moves: list[tuple[float, str]] = field(default_factory=list)  # of the breaker: when, and to which state
    drained: float | None = None

    def __post_init__(self) -> None:
        self.gateway = Gateway(self.clock, self.capacity)
        dice = random.Random(7)
        self.queues = [self._opened(dice) for _ in range(self.workers)]
        self._kinds = [self._declared(each) for each in self.queues]

    @property
    def back(self) -> float:
        """When the service can do again what it could before."""
        return self.calm + self.dip

    def play(self) -> None:
        offset = self.clock.now() - self.clock.monotonic()
        self.clock.run(self._main())
        events = self.queues[0].target(TARGET).events(limit=10_000)
        states = [(each.at - offset, each) for each in reversed(events) if each.kind == "breaker_state_changed"]
        self.moves = [(at, str(each.fields["to"])) for at, each in states]
        for queue in self.queues:
            queue.close()

    def _opened(self, dice: random.Random) -> Queue:
        made = InMemory(
            f"sqlite:///{self.folder / 'course.db'}", clock=self.clock, inline=True, tuning=Tuning(rng=dice.random)
        )
        made.changed = self.changed
        return made

    def _declared(self, queue: Queue) -> Any:
        @queue.job(queue="calls", name="call", target=Target(TARGET, breaker=True))
        async def call(n: int) -> None:
            await self.gateway.call()

        return call

    async def _main(self) -> None:
        async with working(*self.queues), asyncio.TaskGroup() as going:
            arriving = going.create_task(self._arrivals())
            await asyncio.sleep(self.calm)
            self.gateway.capacity = self.capacity * DIPPED
            await asyncio.sleep(self.dip / 2)
            self._put(self.held)
            await asyncio.sleep(self.dip / 2)
            self.gateway.capacity = self.capacity
            await self._drained()
            await asyncio.sleep(30)
            arriving.cancel()

    async def _arrivals(self) -> None:
        owed = 0.0
        while True:
            await asyncio.sleep(STEP)
            owed += self.load * self.capacity * STEP
            self._put(int(owed))
            owed -= int(owed)

    def _put(self, n: int) -> None:
        if n:
            self._kinds[0].enqueue_many([(each,) for each in range(n)])

    async def _drained(self) -> None:
        """Until no more wait than come within a second."""
        while (now := self.clock.monotonic()) < self.most:
            totals = self.queues[0].store.read(settle.read)
            waiting = sum(n for (_, stage), n in totals.items() if stage in ("waiting", "ready"))
            self.depth[int(now)] = waiting
            if waiting <= self.load * self.capacity:
                self.drained = now
                return
            await asyncio.sleep(1)
