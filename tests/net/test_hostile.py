"""Answers that would fill the memory or take for ever: each ends in time, within bounds, and the next one works."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import brotli  # type: ignore[import-untyped]
import pytest

from tests.net.serving import OK, PUBLIC, client, serving
from tidegate import classify, net
from tidegate.testing import Hang, Simulator, Step

pytestmark = pytest.mark.req("FEED-13")

BODY = 1_000_000


def packed(body: bytes, encoding: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"

HOSTILE = {
    "a gzip bomb": (packed(gzip.compress(bytes(60_000_000)), "gzip"), net.TooBig, "parse_error"),
    "a bomb in a bomb": (packed(gzip.compress(gzip.compress(bytes(9_000_000))), "gzip, gzip"), net.Broken, "network"),
    "a brotli bomb": (packed(brotli.compress(bytes(60_000_000), quality=5), "br"), net.TooBig, "parse_error"),
    "a header of 10 MB": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000_000, net.TooBig, "parse_error"),
    "10 MB of headers": (b"HTTP/1.1 200 OK\r\n" + b"X-Some: header\r\n" * 650_000, net.TooBig, "parse_error"),
    "a status line of 10 MB": (b"HTTP/1.1 200 " + b"x" * 10_000_000, net.TooBig, "parse_error"),
    "a million times 'go on'": (b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000_000, net.TooBig, "parse_error"),
    "1 TB announced": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", net.TooBig, "parse_error"),
    "a body without an end": (CLOSED + b"\r\n" + b"x" * 10_000_000, net.TooBig, "parse_error"),
    "a million tiny chunks": (CHUNKED + b"1\r\nx\r\n" * 1_000_000, net.TooBig, "parse_error"),
    "long words between chunks": (CHUNKED + (b"1;" + b"e" * 900 + b"\r\nx\r\n") * 10_000, net.TooBig, "parse_error"),
    "a chunk size of 10 MB": (CHUNKED + b"1" * 10_000_000, net.Broken, "network"),
    "no HTTP": (b"220 mail.example ESMTP\r\n\r\n", net.Broken, "network"),
    "a truncated body": (CLOSED + b"Content-Length: 100\r\n\r\nshort", net.Broken, "cut_short"),
    "a truncated gzip": (packed(gzip.compress(b"x" * 10_000)[:-9], "gzip"), net.CutShort, "cut_short"),
    "bytes that are no gzip": (packed(b"<rss>plain</rss>", "gzip"), net.Broken, "cut_short"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_answer_ends_within_bounds_and_the_next_one_works(name: str) -> None:
    told, expected, code = HOSTILE[name]
    answers = [told, OK]
    async with serving(lambda _: answers.pop(0)) as server, client(body=BODY, ratio=1_000_000) as fetching:
        tracemalloc.start()
        try:
            with pytest.raises(expected) as caught:
                await fetching.get(f"http://{PUBLIC}:{server.port}/")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        fault = classify(caught.value)
        assert fault is not None
        assert fault.code == code
        # What the server's side keeps in its own buffers of this process counts too.
        assert peak < 8 * BODY + 2 * len(told)
        assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).body == b"ok"


@asynccontextmanager
async def simulated(step: object) -> AsyncIterator[Simulator]:
    with Simulator() as sim:
        sim.on("GET /", step)
        yield sim


@pytest.mark.parametrize(
    "step",
    [
        Hang(),
        Step(body=b"x" * 1000, drip="20ms", piece=1),
        Step(body=b"x" * 1000, drip="20ms", piece=1, framing="chunked"),
        Step(body=b"x" * 1000, cut=10, hang="10m"),
        Step(body=b"x" * 1000, delay="10m"),
        Step(body=b"x", length=100),
    ],
    ids=["silence", "a drip", "a drip in chunks", "silence in the middle", "a late answer", "a length that is a lie"],
)
async def test_the_total_counts_for_the_whole_answer(step: object) -> None:
    async with simulated(step) as sim, client(allow=["127.0.0.0/8"], total="300ms") as fetching:
        with pytest.raises(net.TooSlow, match=r"127\.0\.0\.1 .*300ms") as caught:
            await fetching.get(sim.url)
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == "timeout"


async def test_the_total_counts_for_redirects_together_and_for_the_lookup() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with client(resolver=never, total="100ms") as fetching:
        with pytest.raises(net.TooSlow):
            await fetching.get("http://feed.example/")

    async def endless(host: str, port: int) -> list[str]:
        await asyncio.sleep(0.05)
        return [PUBLIC]

    def onward(request: bytes) -> bytes:
        n = int(request.split()[1][1:])
        location = f"http://h{n}.example:{server.port}/{n + 1}"
        return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()

    async with serving(onward) as server, client(resolver=endless, total="300ms", redirects=100) as fetching:
        with pytest.raises(net.TooSlow):
            await fetching.get(f"http://feed.example:{server.port}/0")


async def test_a_fetch_that_is_cancelled_leaves_its_turn_to_the_next() -> None:
    async with simulated(Hang()) as sim, client(allow=["127.0.0.0/8"]) as fetching:
        hung = asyncio.ensure_future(fetching.get(sim.url))
        await asyncio.to_thread(sim.wait_for, "GET /", 1)
        hung.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hung
        sim.on("GET /", b"fine")
        assert (await fetching.get(sim.url)).body == b"fine"
        [asked] = sim.wait_for("GET /", over=True)[:1]
        assert asked.gone
