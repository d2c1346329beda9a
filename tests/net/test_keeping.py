"""Which connections are kept for the next fetch, and what is told of those that broke."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from tests.net.serving import OK, PUBLIC, client, names, serving
from tidegate import classify, net

pytestmark = pytest.mark.req("FEED-13")

TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;of=two\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n", 1),
        (b"200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\nok\r\n0\r\n\r\n", 2),
        (b"304 Not Modified\r\nContent-Length: 2000\r\n\r\n", 1),
        (b"304 Not Modified\r\nContent-Length: 2\r\n\r\nok", 2),
        (b"204 No Content\r\n\r\nok", 2),
        (b"200 OK\r\nConnection: close\r\n\r\nok", 2),
        (b"200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 2),
    ],
    ids=[
        "chunks with all that they may have", "two lengths", "the length of what would have come", "304 with a body",
        "204 with a body", "until the end", "the last answer",
    ],
)  # fmt: skip
async def test_a_connection_is_kept_only_when_it_is_certain_where_its_answer_ends(
    answer: bytes, connections: int
) -> None:
    async with serving(b"HTTP/1.1 " + answer) as server, client() as fetching:
        for _ in range(2):
            told = await fetching.get(f"http://{PUBLIC}:{server.port}/")
            assert told.body == (b"ok" if told.status == 200 else b"")
    assert (len(server.requests), server.connections) == (2, connections)


@pytest.mark.parametrize(
    "answer",
    [
        b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
        b"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
        b"200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"200 OK\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n",
        b"200 OK\r\nX Y: \xff" + b"\xff" * 50_000 + b"\r\n\r\n",
        b"000 Nothing\r\n\r\n",
    ],
    ids=[
        "a long chunk",
        "a chunk below 0",
        "packed on the way",
        "two lengths",
        "a long length",
        "a header",
        "a status",
    ],
)
async def test_what_is_no_answer_is_told_in_a_few_words_and_none_of_its_own(answer: bytes) -> None:
    async with serving(b"HTTP/1.1 " + answer) as server, client() as fetching:
        with pytest.raises(net.Broken) as caught:
            await fetching.get(f"http://{PUBLIC}:{server.port}/")
    assert len(str(caught.value)) < 300
    assert "bytearray" not in str(caught.value)
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == "network"


async def test_a_kept_connection_that_was_idle_for_too_long_is_made_anew() -> None:
    told = [OK, TIMED_OUT, OK]
    async with serving(lambda _: told.pop(0)) as server, client() as fetching:
        for _ in range(2):
            assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).status == 200
    assert (len(server.requests), server.connections) == (3, 2)


async def test_a_new_connection_that_was_too_slow_for_them_is_an_answer() -> None:
    async with serving(TIMED_OUT) as server, client() as fetching:
        assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).status == 408
    assert len(server.requests) == 1


async def test_all_idle_connections_count_also_several_of_one_host() -> None:
    together = asyncio.Barrier(4)

    async def all_at_once(host: str, port: int) -> list[str]:
        await together.wait()
        return [PUBLIC]

    async with serving(OK) as server:
        async with client(resolver=all_at_once, per_host=4, keep=3) as fetching:
            urls = [f"http://a.example:{server.port}/{n}" for n in range(4)]
            await asyncio.gather(*map(fetching.get, urls))
            await asyncio.gather(*map(fetching.get, urls))
        assert server.connections == 8
        async with client(resolver=names(a=[PUBLIC], b=[PUBLIC]), per_host=4, keep=3) as fetching:
            for host in "ababab":
                await fetching.get(f"http://{host}.example:{server.port}/")
        assert server.connections == 10


async def test_names_that_nobody_answers_for_do_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def look_up(host: str, port: int, **_: object) -> list[object]:
        if host.startswith("dead"):
            over.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, port))]

    async with serving(OK) as server, net.Client(user_agent="Test/1", allow=[f"{PUBLIC}/32"], ports=None) as fetching:
        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        dead = [asyncio.ensure_future(fetching.get(f"http://dead{n}.example/", total="60s")) for n in range(40)]
        await asyncio.sleep(0)  # all of them have begun
        try:
            assert (await fetching.get(f"http://well.example:{server.port}/")).body == b"ok"
        finally:
            over.set()
        assert {type(each) for each in await asyncio.gather(*dead, return_exceptions=True)} == {net.Unreachable}
