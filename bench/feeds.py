"""What polling feeds costs beside a bare loop of httpx2 and fastfeedparser: the client alone, and with its parser.

2,000 feeds on 200 hosts of this machine, 50 entries each, 32 polls at a time; by the clock on the wall.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fastfeedparser  # type: ignore[import-untyped]
import httpx2

from bench.feed_server import address
from bench.row import Row
from tidegate import net
from tidegate_apps.feeds.parsing import parse

AT_ONCE = 32
NETWORKS = ("127.1.0.0/16",)  # where the hosts are

clock = time.perf_counter


@dataclass(frozen=True, slots=True)
class Size:
    hosts: int = 200
    feeds: int = 10  # on each host
    items: int = 50


@dataclass(slots=True)
class Polled:
    """One round over all feeds: how long it took, what it found, and the validators for the next one."""

    seconds: float
    entries: int = 0
    unchanged: int = 0
    etags: dict[str, str] = field(default_factory=dict)


@contextmanager
def serving(size: Size) -> Iterator[list[str]]:
    """The addresses of all feeds, while a process of its own serves them; neighbours are on different hosts."""
    script = str(Path(__file__).with_name("feed_server.py"))
    command = [sys.executable, "-P", script, str(size.hosts), str(size.items)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        yield [f"http://{address(host)}:{port}/feed/{n}" for n in range(size.feeds) for host in range(size.hosts)]
    finally:
        server.stdin.close()
        server.wait(timeout=30)
        server.stdout.close()


Poll = Callable[[str, Polled], Awaitable[None]]


async def polled(urls: Sequence[str], poll: Poll, at_once: int = AT_ONCE) -> Polled:
    """All *urls*, *at_once* at a time."""
    found = Polled(0.0)
    waiting = iter(urls)

    async def some() -> None:
        for url in waiting:
            await poll(url, found)

    began = clock()
    await asyncio.gather(*(some() for _ in range(at_once)))
    found.seconds = clock() - began
    return found


async def floor(urls: Sequence[str], etags: dict[str, str] | None = None, at_once: int = AT_ONCE) -> Polled:
    """The bare loop: httpx2 as it is, and the parser where the answer arrives. With *etags*, a round of 304s."""
    known = etags or {}
    # With more idle connections than it uses at once, its pool looks through all of them at each request.
    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx2.AsyncClient(limits=limits) as client:

        async def poll(url: str, found: Polled) -> None:
            answer = await client.get(url, headers={"If-None-Match": known[url]} if known else None)
            found.etags[url] = answer.headers["ETag"]
            if answer.status_code == 304:
                found.unchanged += 1
            else:
                found.entries += len(fastfeedparser.parse(answer.content).entries)

        return await polled(urls, poll, at_once)


async def ours(
    urls: Sequence[str], etags: dict[str, str] | None = None, at_once: int = AT_ONCE, *, parsing: bool = True
) -> Polled:
    """The same with the client that checks addresses, and the parser in child processes that cleans what it finds."""
    known = etags or {}

    async with net.Client(user_agent="Bench/1", allow=NETWORKS, ports=None, keep=1000) as client:

        async def poll(url: str, found: Polled) -> None:
            answer = await client.get(url, headers={"If-None-Match": known[url]} if known else None)
            found.etags[url] = answer.headers["ETag"]
            if answer.status == 304:
                found.unchanged += 1
            elif parsing:
                feed = await parse(answer.body, answer.headers["Content-Type"], answer.url)
                found.entries += len(feed.entries)
            else:
                found.entries += len(fastfeedparser.parse(answer.body).entries)

        return await polled(urls, poll, at_once)


def run(size: Size | None = None, rounds: int = 3) -> list[Row]:
    """The rows of the table; each number is the best of *rounds* rounds, taken in turns."""
    size = size or Size()
    with serving(size) as urls:
        best: dict[str, float] = {}

        def timed(name: str, round_of: Awaitable[Polled]) -> Polled:
            async def waited() -> Polled:
                return await round_of

            found = asyncio.run(waited())
            assert found.entries + found.unchanged * size.items == len(urls) * size.items
            best[name] = min(best.get(name, float("inf")), found.seconds)
            return found

        for _ in range(rounds):
            etags = timed("floor", floor(urls)).etags
            timed("client", ours(urls, parsing=False))
            timed("parsed", ours(urls))
            timed("floor, 304", floor(urls, etags))
            timed("client, 304", ours(urls, etags))
    per = {name: len(urls) / seconds for name, seconds in best.items()}
    return [
        Row("feeds: bare httpx2 and fastfeedparser", f"{per['floor']:,.0f} /s"),
        Row("feeds: checked client, bare parser", _against(per["client"], per["floor"])),
        Row("feeds: checked client, parsed and cleaned in children", _against(per["parsed"], per["floor"])),
        Row("feeds: bare httpx2, 304", f"{per['floor, 304']:,.0f} /s"),
        Row("feeds: checked client, 304", _against(per["client, 304"], per["floor, 304"])),
    ]


def _against(found: float, bare: float) -> str:
    return f"{found:,.0f} /s, {found / bare:.2f}x"
