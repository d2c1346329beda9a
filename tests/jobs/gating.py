"""A queue on virtual time with workers that share one database, and a service that can be ill."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.databases import Database
from tidegate.clock import VirtualClock
from tidegate.guard import Tuning
from tidegate.jobs import settle
from tidegate.jobs.queue import Queue
from tidegate.targets import table

T = TypeVar("T")


@dataclass
class Service:
    """What handlers call: notes when, for whom and how many at once, and fails as long as it is ill."""

    clock: VirtualClock
    takes: float = 1.0
    ill: BaseException | None = None
    ill_for: set[Any] | None = None  # only these callers
    calls: list[tuple[float, Any]] = field(default_factory=list)
    active: int = 0
    most: int = 0

    async def call(self, who: Any = None) -> str:
        self.calls.append((round(self.clock.monotonic(), 3), who))
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            if self.takes:
                await asyncio.sleep(self.takes)
            if self.ill is not None and (self.ill_for is None or who in self.ill_for):
                raise self.ill
            return "well"
        finally:
            self.active -= 1

    def since(self, moment: float) -> list[Any]:
        return [who for at, who in self.calls if at >= moment]

    def times(self, who: Any) -> list[float]:
        return [at for at, name in self.calls if name == who]


class Refusal(Exception):
    """An answer with a status, as HTTP libraries raise it."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def queue_on(db: Database, clock: VirtualClock, dice: float = 0.5) -> Queue:
    return Queue(db.url, driver=db.driver, clock=clock, inline=True, tuning=Tuning(rng=lambda: dice))


@contextlib.asynccontextmanager
async def working(*queues: Queue, concurrency: int = 20, **numbers: Any) -> AsyncIterator[None]:
    """A worker for each of these queues."""
    stop = asyncio.Event()
    workers = [asyncio.create_task(queue.arun_worker(concurrency, stop=stop, **numbers)) for queue in queues]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*workers)


def play(clock: VirtualClock, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return clock.run(main())


def states(queue: Queue) -> dict[str, int]:
    totals = queue.store.read(settle.read)
    return {stage: n for (_, stage), n in sorted(totals.items()) if n and "total" not in stage}


def breaker_of(queue: Queue, name: str) -> str:
    row = queue.store.read(lambda tx: table.target(tx, name))
    assert row is not None
    return row.breaker.state


def moves(queue: Queue, name: str) -> list[tuple[str, str]]:
    """The transitions of a breaker, the oldest first."""
    events = queue.target(name).events()
    return [
        (event.fields["from"], event.fields["to"])
        for event in reversed(events)
        if event.kind == "breaker_state_changed"
    ]
