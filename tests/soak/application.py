"""A small application beside the five: plain jobs that end well, again, or badly; on request, with a leak.

Its jobs also bring every pool of threads and connections to its bound within minutes. When the last one of a pool is
made is else a matter of chance, and in the second half of a run one more counts as a leak.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from tests.soak import inside
from tidegate import Backoff, Target
from tidegate.apps import App, Installed
from tidegate.jobs import history, maintenance
from tidegate_apps.feeds.parsing.pool import ParserPool

BURST = 16  # jobs that all the handlers' threads are needed for at the same time
CONNECTIONS = 8  # that a store keeps at most
STATEMENTS, USES = 100, 6  # that psycopg keeps of each connection, once they were used so often; and as many rarer ones
_LENGTH = 1000  # characters, as many as most of ours have at most
_LONG = 1.0  # seconds
_STARTED = 20.0  # seconds after which a server answers
_FORGOTTEN = 120.0  # seconds
_kept: list[object] = []
_warm: set[asyncio.AbstractEventLoop] = set()


class Settings(BaseModel):
    """What the plain jobs do."""

    leaks: bool = False  # the bug that a soak must find


def leak() -> None:
    _kept.append(bytearray(20_000))
    if len(_kept) % 20 == 0:
        _kept.append(Path(__file__).open("rb"))  # noqa: SIM115 - never closed: that is the bug


def remembering(tx: Any) -> None:
    """Fills what a connection remembers of statements, else a matter of hours; the next takes the place of another."""
    for n in range(2 * STATEMENTS + 1):
        for _ in range(USES if n < STATEMENTS else 1):
            tx.execute(f"select {n} as n -- ".ljust(_LENGTH, "-"))
    time.sleep(_LONG)


def remember(store: Any) -> None:
    for _ in range(CONNECTIONS):
        threading.Thread(target=store.read, args=(remembering,), name="soak-warm").start()


def routes(there: Installed[Settings]) -> APIRouter:
    """None; but a server calls this when it starts, and it has no jobs that could make it warm."""
    threading.Timer(_STARTED, remember, (there.queue.store,)).start()
    return APIRouter()


async def warm(store: Any) -> None:
    """Makes the threads of this loop's own pool and of the readers of feeds, and the store's connections, once."""
    loop = asyncio.get_running_loop()
    if loop in _warm:
        return
    _warm.add(loop)
    remember(store)
    feed = b"<rss version='2.0'><channel><title>warm</title></channel></rss>".ljust(1_000_000)
    reader, pool = ParserPool(), min(32, (os.cpu_count() or 1) + 4)
    await asyncio.gather(
        *(asyncio.to_thread(time.sleep, _LONG) for _ in range(pool)),
        *(reader.parse(feed, "text/xml", "http://127.0.0.1/") for _ in range(os.cpu_count() or 2)),
    )


def answers() -> None:
    """A probe that takes its time, so that two are asked at once."""
    time.sleep(_LONG)


def jobs(there: Installed[Settings]) -> Any:
    def service(name: str) -> Target:
        return Target(
            name, backoff=None, breaker={"consecutive": 20, "timeout": "5s"}, concurrency=8, probe=answers,
            probe_after=True,
        )  # fmt: skip

    plain: dict[str, Any] = {
        "queue": "plain", "key": lambda n: n % 7, "attempts": 3, "backoff": Backoff("1s", cap="2s"),
        "unique": lambda n: n, "while_": {"queued", "running"},
    }  # fmt: skip

    async def work(n: int) -> dict[str, str]:
        await warm(there.queue.store)
        if there.settings.leaks:
            leak()
        await asyncio.sleep(0.02)
        if n % 10 == 3:
            raise ConnectionError("nobody there")
        return {"text": "x" * (n % 500)}

    @there.queue.job(queue="plain", name="plain.after")
    def after(n: int) -> int:
        return n

    @there.queue.job(queue="plain", name="plain.long")
    def long(n: int) -> int:
        time.sleep(_LONG)
        return n

    here = there.queue.job(name="plain.work", target=service("plain"), **plain)(work)
    beside = there.queue.job(name="plain.beside", target=service("beside"), **plain)(work)
    return {"work": here, "beside": beside, "after": after, "long": long}


def forget_soon() -> None:
    """What no setting shortens: a run of an hour would see it grow for all of its time, and pages with it."""
    maintenance.EVENT_RETENTION = maintenance.NOTICE_RETENTION = _FORGOTTEN
    history.FINE_RETENTION = int(_FORGOTTEN)


app = App[Settings](name="plain", settings=Settings, jobs=jobs, routes=routes)

forget_soon()

inside.watch()
