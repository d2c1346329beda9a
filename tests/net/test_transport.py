"""Transports for httpx2: only checked addresses, and calls that end in time however slowly a response comes."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpcore2
import httpx2
import pytest

from tests.net.serving import OK, PRIVATE, PUBLIC, Canary, free_port, names, serving
from tests.net.test_hostile import HOSTILE
from tests.net.test_private_addresses import CLOSING
from tidegate import net
from tidegate.testing import Hang, Simulator, Step

CHECK = partial(net.why_blocked, allowed=net.Networks([f"{PUBLIC}/32"]))


@asynccontextmanager
async def client(
    resolver: net.Resolver = net.system_resolver, check: net.AddressCheck | None = CHECK
) -> AsyncIterator[httpx2.AsyncClient]:
    transport = net.async_transport(check=check, resolver=resolver)
    async with httpx2.AsyncClient(transport=transport, timeout=60, follow_redirects=True) as found:
        yield found


def test_httpx2_has_the_private_pool_that_is_replaced() -> None:
    assert type(httpx2.HTTPTransport()._pool) is httpcore2.ConnectionPool  # noqa: SLF001
    assert type(httpx2.AsyncHTTPTransport()._pool) is httpcore2.AsyncConnectionPool  # noqa: SLF001


def test_only_one_module_touches_the_private_pool() -> None:
    sources = Path(net.__file__).parents[2].rglob("*.py")
    assert [source.name for source in sources if "import httpcore2" in source.read_text("utf-8")] == ["transport.py"]


# -- checked addresses -------------------------------------------------------------------------------------------------


async def test_a_connection_goes_to_the_checked_address_and_is_kept_for_its_name() -> None:
    async with serving(OK, port=free_port()) as server:
        resolver = names(feed=[[PUBLIC], [PRIVATE]], other=[PUBLIC])
        with Canary(server.port) as canary:
            async with client(resolver) as http:
                for _ in range(3):
                    assert (await http.get(f"http://feed.example:{server.port}/")).text == "ok"
                await http.get(f"http://other.example:{server.port}/")
            assert not canary.visited()
        assert resolver.asked == ["feed.example", "other.example"]
        assert server.connections == 2
        assert f"Host: other.example:{server.port}".encode() in server.requests[-1]


async def test_a_name_that_is_private_at_its_second_lookup_is_refused_then() -> None:
    async with serving(CLOSING, port=free_port()) as server:
        with Canary(server.port) as canary:
            async with client(names(feed=[[PUBLIC], [PRIVATE]])) as http:
                assert (await http.get(f"http://feed.example:{server.port}/")).text == "ok"
                with pytest.raises(net.BlockedAddress, match=r"feed\.example .*\b127\.0\.0\.1"):
                    await http.get(f"http://feed.example:{server.port}/")
            assert not canary.visited()
        assert server.connections == 1


@pytest.mark.parametrize("addresses", [[PUBLIC, PRIVATE], [PRIVATE, PUBLIC], [PUBLIC, "::1"], [PUBLIC, "10.0.0.1"]])
async def test_one_private_address_among_public_ones_refuses_them_all(addresses: list[str]) -> None:
    async with serving(OK, port=free_port()) as server:
        with Canary(server.port) as canary:
            async with client(names(feed=addresses)) as http:
                with pytest.raises(net.BlockedAddress):
                    await http.get(f"http://feed.example:{server.port}/")
            assert not canary.visited()
        assert server.connections == 0


@pytest.mark.parametrize(
    "host",
    [
        PRIVATE, "localhost", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "2130706433", "0x7f000001", "127.1",
        "0177.0.0.1", "0", "0.0.0.0", "169.254.169.254", "feed.example@127.0.0.1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("by", ["a redirect", "the address itself"])
async def test_neither_an_address_nor_a_redirect_leads_inside(host: str, by: str) -> None:
    moved = f"HTTP/1.1 302 Found\r\nLocation: http://{host}:%d/\r\nContent-Length: 0\r\n\r\n"
    async with serving(lambda _: (moved % server.port).encode(), port=free_port()) as server:
        start = PUBLIC if by == "a redirect" else host
        with Canary(server.port) as canary:
            async with client() as http:
                with pytest.raises(
                    (net.BlockedAddress, httpx2.ConnectError, httpx2.RemoteProtocolError, httpx2.InvalidURL)
                ):
                    await http.get(f"http://{start}:{server.port}/")
            assert not canary.visited()
        assert server.connections == (1 if by == "a redirect" else 0)


async def test_the_next_address_is_tried_when_nobody_listens_at_the_first() -> None:
    check = partial(net.why_blocked, allowed=net.Networks(["127.0.0.2/31"]))
    async with serving(OK) as server, client(names(feed=["127.0.0.3", PUBLIC]), check) as http:
        assert (await http.get(f"http://feed.example:{server.port}/")).status_code == 200


async def test_a_name_without_an_address_is_an_error_of_httpx2() -> None:
    async with client(names(none=[()])) as http:
        with pytest.raises(httpx2.ConnectError, match=r"none\.example"):
            await http.get("http://none.example/")
        with pytest.raises(httpx2.ConnectError, match=r"unknown\.example"):
            await http.get("http://unknown.example/")


async def test_a_trusted_host_is_reached_at_any_address_and_no_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(OK, host=PRIVATE) as server:
        with Canary(0) as canary:
            monkeypatch.setenv("http_proxy", f"http://{PRIVATE}:{canary.port}")
            async with client(check=None) as http:
                assert (await http.get(f"http://{PRIVATE}:{server.port}/")).status_code == 200
            assert not canary.visited()


# Their size is the reader's to limit: httpx2 hands the body on in chunks.
_LARGE = {"a gzip bomb", "a bomb in a bomb", "a brotli bomb", "1 TB announced", "a body without an end"}
_LARGE |= {"a million tiny chunks", "long words between chunks", "a truncated gzip", "a million times 'go on'"}


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in _LARGE])
async def test_a_hostile_answer_ends_within_bounds_and_the_next_one_works(name: str) -> None:
    answers = [HOSTILE[name][0], OK]
    async with serving(lambda _: answers.pop(0)) as server, client() as http:
        with pytest.raises(httpx2.HTTPError):
            await http.get(f"http://{PUBLIC}:{server.port}/")
        assert (await http.get(f"http://{PUBLIC}:{server.port}/")).text == "ok"


# -- deadlines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [Hang(), Step(body=b"x" * 1000, drip="20ms", piece=1), Step(body=b"x" * 1000, cut=10, hang="10m")],
    ids=["silence", "a drip", "silence in the middle"],
)
@pytest.mark.parametrize("by", ["the deadline", "the caller", "another thread"])
def test_a_call_ends_however_slowly_its_response_comes(step: object, by: str) -> None:
    transport = net.DeadlineTransport()
    began = time.monotonic()
    stop = threading.Event()

    def ends() -> None:
        sim.wait_for("GET /", 1)
        transport.abort() if by == "another thread" else stop.set()

    with Simulator() as sim, httpx2.Client(transport=transport, timeout=None) as http, ThreadPoolExecutor(1) as pool:
        sim.on("GET /", step)
        if by != "the deadline":
            pool.submit(ends)
        ended = httpx2.ReadTimeout if by == "the deadline" else net.CallStopped
        with pytest.raises(ended), transport.until(0.3 if by == "the deadline" else 600, stop.is_set):
            http.get(sim.url)
        sim.on("GET /", b"fine")
        with transport.until(60):
            assert http.get(sim.url).content == b"fine"
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("by", "error"),
    [("deadline", httpx2.WriteTimeout), ("timeout", httpx2.WriteTimeout), ("abort", net.CallStopped)],
)
def test_a_call_ends_although_the_server_does_not_read(by: str, error: type[Exception]) -> None:
    transport, began = net.DeadlineTransport(), time.monotonic()
    seconds = {"deadline": 0.5, "timeout": 60, "abort": 60}[by]
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        httpx2.Client(transport=transport, timeout=0.5 if by == "timeout" else 60) as calling,
    ):

        def body() -> Iterator[bytes]:
            if by == "abort":
                threading.Timer(0.5, transport.abort).start()
            while True:
                yield b"x" * 1_000_000

        with pytest.raises(error), transport.until(seconds):
            calling.post(f"http://127.0.0.1:{silent.getsockname()[1]}/", content=body())
    assert time.monotonic() - began < 30


def test_a_timeout_of_the_client_also_counts_within_the_deadline() -> None:
    transport = net.DeadlineTransport()
    with Simulator() as sim, httpx2.Client(transport=transport, timeout=0.1) as http:
        sim.on("GET /", Hang())
        with transport.until(600), pytest.raises(httpx2.ReadTimeout):
            http.get(sim.url)


def test_a_deadline_counts_for_the_thread_that_set_it() -> None:
    transport = net.DeadlineTransport()
    with Simulator() as sim, httpx2.Client(transport=transport, timeout=60) as http, ThreadPoolExecutor(1) as pool:
        sim.on("GET /", b"fine")
        with transport.until(0), pytest.raises(httpx2.ConnectTimeout):
            http.get(sim.url)
        with transport.until(0):
            assert pool.submit(http.get, sim.url).result(60).content == b"fine"


async def test_a_name_server_that_never_answers_ends_with_the_timeout_of_the_caller() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    async with client(never) as http:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await http.get("http://feed.example/")
