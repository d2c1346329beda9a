"""The services of plain jobs: each has its weather, knows whom it answered, and what it must never see."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from tests.jobs.gating import Refusal
from tests.simulation.loop import Process, here
from tidegate import Context, Queue, Target
from tidegate.clock import VirtualClock
from tidegate.guard.backoff import Backoff

BRIEF = 300.0  # seconds that a job is kept
LIMIT = 2  # jobs at a time, at one target
LASTING = {"queued", "running", "done", "failed", "cancelled"}
ILLS = ("down", "unavailable", "garbage", "slow", "hangs", "cuts")


def user_of(key: str) -> str:
    return f"user-{int(key[1:]) % 12}"


@dataclass
class Service:
    """One target's service."""

    name: str
    clock: VirtualClock
    dice: random.Random
    note: Callable[..., None]
    ill: str = ""
    begun: dict[int, list[tuple[float, int]]] = field(default_factory=dict)  # moment and fence, by job
    told_to_wait: dict[int, list[float]] = field(default_factory=dict)  # moments before which a job must not come again
    active: list[tuple[Process | None, int]] = field(
        default_factory=list
    )  # who calls, and how often it had stood still
    most: int = 0
    under_way: set[tuple[int, int]] = field(default_factory=set)  # by job and fence
    called_by: dict[tuple[int, int], Process | None] = field(default_factory=dict)  # by job and fence

    async def call(self, job: Context) -> dict[str, int]:
        self.begun.setdefault(job.id, []).append((self.clock.monotonic(), job.fence))
        self.note("call", self.name, job.id, job.fence)
        process = here()
        self.called_by[job.id, job.fence] = process
        mine = (process, 0 if process is None else process.stops)
        self.active.append(mine)
        self.under_way.add((job.id, job.fence))
        # Whoever stood still may have lost its lease, and cannot know it before it goes on.
        self.most = max(self.most, sum(each is None or each.stops == stops for each, stops in self.active))
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
            if self.ill == "cuts":
                raise ConnectionResetError("cut after it was done")
            return {"fence": job.fence}
        finally:
            self.active.remove(mine)
            self.under_way.discard((job.id, job.fence))


def declared(queue: Queue, name: str, service: Service) -> Any:
    """The kind of job that calls one service."""
    target = Target(name, backoff=None, breaker={"consecutive": 5, "timeout": "1m"}, concurrency=LIMIT)

    @queue.job(
        queue="calls", name=name, target=target, key=user_of, unique=lambda key: key, while_=LASTING, attempts=1000,
        backoff=Backoff(base=2, cap=30),
    )  # fmt: skip
    async def call(key: str, job: Context) -> dict[str, int]:
        return await service.call(job)

    return call


def declared_brief(queue: Queue) -> Any:
    """The kind of job that is soon forgotten, unless another one waits for it."""
    queue.set_retention("brief", done=BRIEF, failed=BRIEF, cancelled=BRIEF)

    @queue.job(queue="brief", name="brief", attempts=1000)
    async def brief(key: str) -> str:
        await asyncio.sleep(0.1)
        return key

    return brief


def declared_poison(queue: Queue, dies: Callable[[Context], Coroutine[Any, Any, None]]) -> Any:
    """The kind of job that ends its process, among the calls of the services."""

    @queue.job(queue="calls", name="poison", attempts=1000)
    async def poison(key: str, job: Context) -> None:
        await dies(job)

    return poison


def declared_innocent(queue: Queue, works: Callable[[Context], Coroutine[Any, Any, None]]) -> Any:
    """The kind of job that is put in together with a poisonous one."""

    @queue.job(queue="calls", name="innocent", attempts=1000)
    async def innocent(key: str, job: Context) -> None:
        await works(job)

    return innocent


def declared_after(queue: Queue) -> Any:
    """The kind of job that waits for another one."""

    @queue.job(queue="after", name="after", attempts=1000)
    async def after(key: str, job: Context) -> dict[str, int]:
        await asyncio.sleep(0.1)
        return {"fence": job.fence, "parents": len(job.parent_results)}

    return after
