"""A small application beside the five: plain jobs that end well, again, or badly; on request, with a leak."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tidegate import App, Backoff, Installed, Target

_kept: list[object] = []


class Settings(BaseModel):
    """What the plain jobs do."""

    leaks: bool = False  # the bug that a soak must find


def leak() -> None:
    _kept.append(bytearray(20_000))
    if len(_kept) % 20 == 0:
        _kept.append(Path(__file__).open("rb"))  # noqa: SIM115 - never closed: that is the bug


def jobs(there: Installed[Settings]) -> Any:
    service = Target("plain", backoff=None, breaker={"consecutive": 20, "timeout": "5s"}, concurrency=8)

    @there.queue.job(
        queue="plain", name="plain.work", target=service, key=lambda n: n % 7, attempts=3,
        backoff=Backoff("1s", cap="2s"), unique=lambda n: n, while_={"queued", "running"},
    )  # fmt: skip
    async def work(n: int) -> dict[str, str]:
        if there.settings.leaks:
            leak()
        await asyncio.sleep(0.02)
        if n % 10 == 3:
            raise ConnectionError("nobody there")
        return {"text": "x" * (n % 500)}

    @there.queue.job(queue="plain", name="plain.after")
    def after(n: int) -> int:
        return n

    return {"work": work, "after": after}


app = App[Settings](name="plain", settings=Settings, jobs=jobs)
