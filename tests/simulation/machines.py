"""What can break: a store that fails in its ways, a service with weather, and a machine that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.runtime_jobs.gating import Refusal
from tidegate import Context, Queue, Target
from tidegate.core.backoff import Backoff
from tidegate.errors import StoreBusy, StoreError, StoreFull
from tidegate.runtime.clock import VirtualClock
from tidegate.store.dialect import Dialect, Statement
from tidegate.store.opening import core_statements
from tidegate.store.sqlite import SqliteStore
from tidegate.store.tx import Store, Tx

T = TypeVar("T")
NUMBERS: dict[str, Any] = {"poll_every": 5.0, "sweep_every": 10.0}
LIMIT = 4  # jobs at a time, at one target
LASTING = {"queued", "running", "done", "failed", "cancelled"}


def user_of(key: str) -> str:
    return f"user-{int(key[1:]) % 12}"


class Killed(BaseException):
    """The process is gone: nothing of it may write any more, not even what cleans up."""


class Weather:
    """A store as one machine reaches it."""

    def __init__(self, store: Store, dice: random.Random) -> None:
        self._store, self._dice = store, dice
        self.dead = self.away = self.full = False
        self.unheard = 0.0  # how many of its commits are done and not heard of
        self.delayed = 0.0  # how many of its writes arrive when nobody waits for them any more

    def read(self, work: Callable[[Tx], T]) -> T:
        self._reached()
        return self._store.read(work)

    def write(self, work: Callable[[Tx], T]) -> T:
        self._reached()
        if self.full:
            raise StoreFull("the disk is full")
        if self.delayed and self._dice.random() < self.delayed:
            asyncio.get_running_loop().call_later(self._dice.uniform(1, 90), self._arrived, work)
            raise StoreBusy("no answer in time")
        result = self._store.write(work)
        if self.unheard and self._dice.random() < self.unheard:
            raise StoreBusy("the connection broke after the commit")
        return result

    def _arrived(self, work: Callable[[Tx], Any]) -> None:
        with contextlib.suppress(StoreError):  # as the database refuses it, with nobody there to hear
            self._store.write(work)

    def _reached(self) -> None:
        if self.dead:
            raise Killed
        if self.away:
            raise StoreBusy("the database cannot be reached")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class OnWeather(Queue):
    """A queue whose database is reached through the weather, with statements that may have been tampered with."""

    def __init__(self, url: str, dice: random.Random, changed: Callable[[Statement], Statement], **more: Any) -> None:
        super().__init__(url, inline=True, dice=dice.random, **more)
        self._weather_dice, self._changed = dice, changed

    def _database(self) -> Store:
        statements = [self._changed(each) for each in core_statements(Dialect.SQLITE)]
        store = SqliteStore(self.url.removeprefix("sqlite:///"), statements, self.clock.now, durable=False)
        return Weather(store, self._weather_dice)

    @property
    def weather(self) -> Weather:
        found = self.store
        assert isinstance(found, Weather)
        return found


@dataclass
class Service:
    """One target's service. It knows whom it answered, and what it must never see."""

    name: str
    clock: VirtualClock
    dice: random.Random
    note: Callable[..., None]
    ill: str = ""
    begun: dict[int, list[tuple[float, int]]] = field(default_factory=dict)  # moment and fence, by job
    effects: dict[int, list[int]] = field(default_factory=dict)  # fences, by job
    told_to_wait: dict[int, list[float]] = field(default_factory=dict)  # moments before which a job must not come again
    active: int = 0
    most: int = 0

    async def call(self, job: Context) -> dict[str, int]:
        self.begun.setdefault(job.id, []).append((self.clock.monotonic(), job.fence))
        self.note("call", self.name, job.id, job.fence)
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            await asyncio.sleep(self.dice.uniform(0.05, 60.0 if self.ill == "slow" else 10.0))
            match self.ill:
                case "down":
                    raise ConnectionRefusedError("nobody listens")
                case "unavailable":
                    self.told_to_wait.setdefault(job.id, []).append(self.clock.monotonic() + 20)
                    raise Refusal(503, retry_after="20")
                case "garbage":
                    raise ValueError("the answer makes no sense")
                case "hangs":
                    await asyncio.sleep(120)
                    raise TimeoutError
            self.effects.setdefault(job.id, []).append(job.fence)
            if self.ill == "cuts":
                raise ConnectionResetError("cut after it was done")
            return {"fence": job.fence}
        finally:
            self.active -= 1


class Machine:
    """A process with a worker, until it is killed."""

    def __init__(
        self, name: str, url: str, clock: VirtualClock, dice: random.Random, services: dict[str, Service],
        changed: Callable[[Statement], Statement],
    ) -> None:  # fmt: skip
        self.name = name
        self.queue = OnWeather(url, dice, changed, clock=clock)
        self.kinds = {each: self._declared(each, service) for each, service in services.items()}

        @self.queue.job(queue="after", name="after", attempts=1000)
        async def after(key: str, job: Context) -> dict[str, int]:
            await asyncio.sleep(0.1)
            return {"fence": job.fence, "parents": len(job.parent_results)}

        self.after = after
        self._stop = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    def _declared(self, name: str, service: Service) -> Any:
        target = Target(name, backoff=None, breaker={"consecutive": 5, "timeout": "1m"}, concurrency=LIMIT)

        @self.queue.job(
            queue="calls", name=name, target=target, key=user_of, unique=lambda key: key, while_=LASTING, attempts=1000,
            backoff=Backoff(base=2, cap=30),
        )  # fmt: skip
        async def call(key: str, job: Context) -> dict[str, int]:
            return await service.call(job)

        return call

    def start(self) -> None:
        self._task = asyncio.create_task(self.queue.arun_worker(8, stop=self._stop, **NUMBERS))

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

    async def stop(self) -> None:
        assert self._task is not None
        self._stop.set()
        await self._task
        self.queue.close()
