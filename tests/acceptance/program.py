"""What a worker process of the harness runs: jobs that leave a line in a file for each time they begin."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.guard.backoff import Backoff
from tidegate.jobs.context import Context
from tidegate.jobs.function import JobFunction
from tidegate.jobs.queue import Queue

KINDS = ("awaits", "blocks")


@dataclass(frozen=True)
class Effect:
    """One job: a number, how long it takes, whether its first attempt fails, and for which file it waits, if any.

    The name of the file ends with the fence of the attempt that waits for it.
    """

    n: int
    lasts: float = 0.0
    stumbles: bool = False
    until: str = ""


@dataclass(frozen=True)
class Orders:
    """What a worker process is told."""

    url: str
    effects: str  # the file that handlers write to
    log: str
    concurrency: int = 6
    numbers: dict[str, Any] = field(default_factory=dict)
    plant: str = ""  # the name of a bug to plant


class Program:
    """The queue of the harness and its two kinds of job."""

    def __init__(self, orders: Orders) -> None:
        self.q = Queue(orders.url)
        self._file = os.open(orders.effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        often = Backoff(0.02, cap=0.1, jitter=0.5)

        @self.q.job(name="awaits", queue="chaos", unique=_number, while_=_ALWAYS, attempts=100, backoff=often)
        async def awaits(a: Effect, job: Context) -> dict[str, int]:
            self._began(a, job)
            await asyncio.sleep(a.lasts)
            return {"n": a.n, "fence": job.fence}

        @self.q.job(name="blocks", queue="chaos", unique=_number, while_=_ALWAYS, attempts=100, backoff=often)
        def blocks(a: Effect, job: Context) -> dict[str, int]:
            self._began(a, job)
            while a.until and not Path(f"{a.until}{job.fence}").exists():
                time.sleep(0.02)
            time.sleep(a.lasts)
            return {"n": a.n, "fence": job.fence}

        self.kinds: tuple[JobFunction[[Effect], Any], ...] = (awaits, blocks)

    def _began(self, a: Effect, job: Context) -> None:
        # One write, and so one line: many processes append at once.
        os.write(self._file, f"{job.id} {job.fence} {job.attempt} {os.getpid()}\n".encode())
        if a.stumbles and job.attempt == 1:
            raise ConnectionError("it stumbles once")


_ALWAYS = {"queued", "running", "done", "failed"}


def _number(a: Effect) -> int:
    return a.n


def work(orders: Orders) -> None:
    """The main function of a worker process."""
    handlers = [logging.FileHandler(orders.log)]
    logging.basicConfig(level=logging.WARNING, handlers=handlers, format="%(process)d %(asctime)s %(message)s")
    program = Program(orders)
    if orders.plant:
        from tests.acceptance.planted import work_with

        work_with(orders.plant, program, orders)
        return
    program.q.run_worker(orders.concurrency, **orders.numbers)
