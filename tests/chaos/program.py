"""What `tidegate worker tests.chaos.program:q` runs: jobs that each make a file, and one that sweeps."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import time
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from tests.acceptance.checker import rows
from tests.chaos.orders import LEAVES, NUMBERS, given
from tests.chaos.plants import late_file, planted_database
from tests.chaos.results import Known, publish, sweep
from tidegate import Backoff, Context, Queue
from tidegate.children import Limits
from tidegate.jobs.worker import WorkerStats
from tidegate.store.base import Store

_ALWAYS = {"queued", "running", "done", "failed"}
_KNOWN = "select id, fence, state, result from tg_job"
_CHUNK = 64 << 20  # bytes
_OFTEN = Backoff(0.05, cap=0.5, jitter=0.5)

orders = given()


class Hasty(Queue):
    """A queue whose workers have short leases, and the planted bug if there is one."""

    def run_worker(
        self, concurrency: int = 20, *, queues: AbstractSet[str] | None = None, **numbers: Any
    ) -> WorkerStats:
        return super().run_worker(concurrency, queues=queues, **{**numbers, **NUMBERS})

    def _database(self) -> Store:
        return planted_database(orders.plant, self.url) or super()._database()


@dataclass(frozen=True)
class Effect:
    """One job: a number, how long it takes, and whether its first attempt fails."""

    n: int
    lasts: float = 0.0
    stumbles: bool = False


# Parents are removed as soon as retention allows, while their children may still wait.
q = Hasty(orders.url, retention={"given": {"done": 0.5}})


def _number(a: Effect) -> int:
    return a.n


@q.job(name="awaits", queue="chaos", unique=_number, while_=_ALWAYS, attempts=1000, backoff=_OFTEN)
async def awaits(a: Effect, job: Context) -> dict[str, Any]:
    _begin(a, job)
    await asyncio.sleep(a.lasts / 2)
    await job.save(pending=job.fence)
    await asyncio.sleep(a.lasts / 2)
    return await asyncio.to_thread(_make, a, job)


@q.job(name="blocks", queue="chaos", unique=_number, while_=_ALWAYS, attempts=1000, backoff=_OFTEN)
def blocks(a: Effect, job: Context) -> dict[str, Any]:
    _begin(a, job)
    time.sleep(a.lasts)
    return _make(a, job)


@q.job(name="kills", queue="chaos", unique=_number, while_=_ALWAYS, attempts=1000, backoff=_OFTEN)
async def kills(a: Effect, job: Context) -> None:
    """Ends its whole process, in one of two ways."""
    _begin(a, job)
    await asyncio.sleep(a.lasts)
    if a.n % 4000 < 2000:
        os._exit(LEAVES)
    ctypes.string_at(0)


@q.job(name="hoards", queue="chaos", process=Limits(memory_mb=256, time=60.0), unique=_number, while_=_ALWAYS,
       attempts=1000, backoff=_OFTEN)  # fmt: skip
def hoards(a: Effect, job: Context) -> dict[str, Any]:
    """Takes more memory than its child process may have; then dies as if the kernel had chosen it; then succeeds."""
    _begin(a, job)
    kept = []
    while job.attempt == 1:
        kept.append(bytearray(_CHUNK))
    if job.attempt == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return _make(a, job)


@q.job(name="gives", queue="given", attempts=1000, backoff=_OFTEN)
def gives(a: Effect, job: Context) -> dict[str, int]:
    _begin(a, job)
    time.sleep(a.lasts)
    return {"fence": job.fence, "n": a.n}


@q.job(name="joins", queue="chaos", unique=_number, while_=_ALWAYS, attempts=1000, backoff=_OFTEN)
def joins(a: Effect, job: Context) -> dict[str, Any]:
    """Needs the results of its parents."""
    _begin(a, job)
    return {**_make(a, job), "parents": [found["n"] for found in job.parent_results.values()]}


@q.job(name="sweeps", queue="chaos", unique=lambda _: 0, attempts=1000, backoff=_OFTEN)
def sweeps(_: int, job: Context) -> dict[str, int]:
    _line(orders.begun, f"{job.id} {job.fence} {job.attempt} {os.getpid()}")
    gone = 0 if orders.plant == "orphan-file" else sweep(orders, _known)
    _line(orders.swept, f"{job.id} {gone}")
    return {"fence": job.fence, "gone": gone}


def _known() -> dict[int, Known]:
    return {
        id_: Known(fence, state, str(json.loads(result or "{}").get("file")))
        for id_, fence, state, result in rows(orders.url, _KNOWN)
    }


def _begin(a: Effect, job: Context) -> None:
    _line(orders.begun, f"{job.id} {job.fence} {job.attempt} {os.getpid()}")
    if a.stumbles and job.attempt == 1:
        raise ConnectionError("it stumbles once")


def _make(a: Effect, job: Context) -> dict[str, Any]:
    made = late_file if orders.plant == "file-after-commit" else publish
    return made(orders, job.id, job.fence, a.n)


def _line(file: os.PathLike[str], text: str) -> None:
    # One write, and so one line: many processes append at once.
    number = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(number, f"{text}\n".encode())
    finally:
        os.close(number)
