"""Those who follow the stream and go: nothing stays behind, nobody waits for anybody, and there is an end."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from tests.web.api.building import Shop, listening, served
from tests.web.crowd import crowds, measured
from tests.web.following import QUICK, STREAM, following, paused, the
from tidegate.web.live.hub import Subscriber
from tidegate.web.live.stream import Stream
from tidegate.web.middleware import CONNECTION
from tidegate.web.site import LivePolicy


@pytest.fixture
def app(there: Shop) -> FastAPI:
    return served(there, live=QUICK)


@pytest.fixture
def address(app: FastAPI) -> Iterator[str]:
    with listening(app) as found:
        yield found


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what is waited for happens in another thread
            await asyncio.sleep(0.01)


async def until_nobody_follows(app: FastAPI) -> None:
    await until(lambda: not app.state.live.subscribers)


async def test_nothing_is_left_of_a_client_that_has_gone(app: FastAPI, address: str) -> None:
    for _ in range(5):
        async with following(address) as messages:
            await the("here", messages)
            assert len(app.state.live.subscribers) >= 1
    await until_nobody_follows(app)


async def test_a_stream_ends_after_its_time_and_when_the_server_ends(there: Shop, app: FastAPI, address: str) -> None:
    short = served(there, live=LivePolicy(longest=0.2))
    with listening(short) as other:
        async with following(other) as messages:
            assert [message["event"] async for message in messages] == ["here", "again"]
        await until_nobody_follows(short)
    async with following(address) as messages:
        await the("here", messages)
        app.state.closing.set()
        async for _ in messages:  # until it ends
            pass
    await until_nobody_follows(app)


async def test_there_is_an_end_to_how_many_may_follow(there: Shop) -> None:
    with listening(served(there, live=LivePolicy(max_subscribers=1))) as address:
        async with following(address) as messages, httpx2.AsyncClient(timeout=60) as client:
            await the("here", messages)
            answer = await client.get(f"{address}/live", headers=STREAM)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")


class Wire:
    """A connection whose other end does not read."""

    cut = False

    def abort(self) -> None:
        self.cut = True

    def set_write_buffer_limits(self, high: int) -> None:
        assert high < 64_000

    def get_extra_info(self, name: str) -> Any:
        raise OSError(f"it has no {name}")


async def test_a_client_with_too_much_unsent_is_cut_off_and_nobody_waits_for_it(app: FastAPI) -> None:
    board, wire = app.state.live, Wire()
    await board.known()
    slow, quick = board.subscribe(None, wire), board.subscribe(None)
    for n in range(QUICK.queued):
        assert not wire.cut or n == QUICK.queued - 1
        board.publish([("now", {"n": n}, None)])
        assert b'"n"' in await quick.chunk()

    assert wire.cut
    assert await slow.chunk() is None
    assert not quick.gone
    await board.stop()


async def test_a_client_that_is_dropped_hears_of_it_though_it_reads_nothing() -> None:
    """Else the kernel would keep what it has, and the connection, until the client gives up."""
    joined: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda _, writer: joined.set_result(writer), "127.0.0.1", 0)
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(server.sockets[0].getsockname())
        writer = await joined
        slow = Subscriber(1, 0.0, writer.transport)
        writer.write(b"x" * 5_000_000)
        slow.drop()
        ended = select.poll()
        ended.register(line, 0)  # only the end of the connection is told
        assert await asyncio.to_thread(ended.poll, 60_000)
    server.close()


async def test_pages_fetch_one_after_the_other_and_those_that_fetch_nothing_hold_up_nobody(there: Shop) -> None:
    with listening(served(there)) as address:
        async with following(address) as program, following(address, page=True) as first:
            assert (await the("here", program))["about"]["spread"] == 0
            assert (await the("here", first))["about"]["spread"] == 0
            async with following(address, page=True) as second:
                assert (await the("here", second))["about"]["spread"] == 10


async def test_a_burst_of_news_drops_nobody(app: FastAPI) -> None:
    board, wire = app.state.live, Wire()
    await board.known()
    client = board.subscribe(None, wire)
    board.publish(("now", {"n": n}, None) for n in range(50 * QUICK.queued))

    assert not wire.cut
    assert f'"n":{50 * QUICK.queued - 1}'.encode() in await client.chunk()
    await board.stop()


async def test_a_client_that_takes_nothing_for_too_long_is_cut_off(there: Shop) -> None:
    board, wire = served(there, live=replace(QUICK, behind=0.3)).state.live, Wire()
    await board.known()
    began = time.monotonic()

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> MutableMapping[str, Any]:
        await until(lambda: wire.cut)
        return {"type": "http.disconnect"}

    async with asyncio.timeout(60):
        await Stream(board, lambda _: board.subscribe(None, wire))({CONNECTION: wire}, receive, send)

    assert wire.cut
    assert time.monotonic() - began >= 0.3
    assert not board.subscribers
    await board.stop()


async def test_nobody_looks_at_the_store_when_nobody_has_followed_for_a_while(there: Shop) -> None:
    def looking() -> set[str]:
        return {each.name for each in threading.enumerate() if each.name.startswith("tidegate-live")}

    with listening(served(there, live=LivePolicy(linger=0.1))) as address:
        async with following(address) as messages:
            await the("here", messages)
            assert looking() == {"tidegate-live", "tidegate-live-watch"}
        await until(lambda: not looking())
        async with following(address) as messages:  # and it begins again
            await the("here", messages)
            await asyncio.to_thread(paused, there, "ada")
            await the("happened", messages)


@pytest.mark.alone
async def test_two_hundred_follow_and_half_of_them_never_read() -> None:
    found = await measured(200, changes=8)

    assert found.calm < 1.0
    assert found.memory < 40
    assert found.left_over == 0


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
async def test_a_thousand_follow_and_half_of_them_never_read_and_a_second_thousand_costs_no_more() -> None:
    first, second = await crowds(1000, 2, changes=40)

    for found in (first, second):
        assert found.usual < 1.0
        assert found.memory < 100
        assert found.still_there <= found.followers
        assert found.left_over == 0
    assert second.memory < first.memory + 10
