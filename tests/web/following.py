"""Following the stream of a server: its messages as they come."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from tests.web.api.building import Shop
from tidegate.web.auth import COOKIE
from tidegate.web.site import LivePolicy

QUICK = LivePolicy(poll_interval=0.1, soonest=0.02, beat=0.1, behind=60, kept=5, queued=8)
STREAM = {"Accept": "text/event-stream"}
Message = dict[str, Any]


@contextlib.asynccontextmanager
async def following(
    address: str, after: object = "", last: str = "", session: str = "", *, page: bool = False
) -> AsyncIterator[AsyncIterator[Message]]:
    query = f"?page={page:d}" + (f"&after={after}" if after else "")
    headers = {**({"Last-Event-ID": last} if last else {}), **({"Cookie": f"{COOKIE}={session}"} if session else {})}
    async with (
        httpx2.AsyncClient(timeout=60) as client,
        client.stream("GET", f"{address}/live{query}", headers={**STREAM, **headers}, timeout=60) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield parsed(answer.aiter_lines())


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[Message]:
    found: Message = {}
    async for line in lines:
        if not line:
            if "data" in found:
                yield {**found, "about": json.loads(found["data"])}
            found = {}
            continue
        name, _, value = line.partition(": ")
        found[name] = value


async def the(kind: str, messages: AsyncIterator[Message]) -> Message:
    """The next message of a kind."""
    async with asyncio.timeout(60):
        async for message in messages:
            if message["event"] == kind:
                return message
    raise AssertionError("the stream ended")


def paused(there: Shop, *names: str) -> None:
    for name in names:
        there.queue.target("mailer").pause("1h", by=name)
