"""Ordinary clients get on with a simulator: they keep connections, send in chunks, and share pools."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import httpx2
import pytest
import requests

from tests.unit.testing.clients import CLIENTS
from tidegate.testing import RecordedRequest, Simulator, Step

MANY = 40


@pytest.fixture
def sim() -> Iterator[Simulator]:
    with Simulator() as running:
        running.on("/x", echo)
        yield running


def echo(asked: RecordedRequest) -> object:
    return {"method": asked.method, "body": asked.text, "page": asked.query.get("page")}


def chunks() -> Iterator[bytes]:
    yield b"hello"
    yield b" world"


def connections(sim: Simulator) -> int:
    found = sim.as_json()["connections"]
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_each_of_them_gets_an_answer(sim: Simulator, client: str) -> None:
    assert CLIENTS[client](f"{sim.url}/x?page=2") == {"method": "GET", "body": "", "page": "2"}


def test_httpx2_keeps_its_connection_and_sends_chunks(sim: Simulator) -> None:
    with httpx2.Client(base_url=sim.url, timeout=60) as client:
        for _ in range(MANY):
            assert client.get("/x").json()["method"] == "GET"
        assert connections(sim) == 1
        assert client.post("/x", content=chunks()).json()["body"] == "hello world"
        assert client.put("/x", json={"a": 1}).json()["body"] == '{"a":1}'
        assert client.post("/x", files={"file": b"content"}).json()["body"].count("content") > 0


def test_requests_keeps_its_connection_and_sends_chunks(sim: Simulator) -> None:
    with requests.Session() as session:
        for _ in range(MANY):
            assert session.get(f"{sim.url}/x").json()["method"] == "GET"
        assert connections(sim) == 1
        assert session.post(f"{sim.url}/x", data=chunks()).json()["body"] == "hello world"
        assert session.delete(f"{sim.url}/x").json()["method"] == "DELETE"


def test_urllib_sends_forms(sim: Simulator) -> None:
    with urllib.request.urlopen(f"{sim.url}/x", data=b"a=1&b=2") as answer:
        assert json.load(answer)["body"] == "a=1&b=2"
    assert sim.asked()[0].form == {"a": "1", "b": "2"}


async def test_aiohttp_shares_a_pool_and_sends_chunks(sim: Simulator) -> None:
    async def get(session: aiohttp.ClientSession) -> str:
        async with session.get(f"{sim.url}/x") as answer:
            return str((await answer.json())["method"])

    async def parts() -> object:
        for each in chunks():
            yield each

    connector = aiohttp.TCPConnector(limit=4)
    async with aiohttp.ClientSession(connector=connector) as session:
        assert await asyncio.gather(*(get(session) for _ in range(MANY))) == ["GET"] * MANY
        assert connections(sim) <= 4
        async with session.post(f"{sim.url}/x", data=parts(), expect100=True) as answer:
            assert (await answer.json())["body"] == "hello world"


def test_many_threads_at_once_are_all_answered_and_counted_once(sim: Simulator) -> None:
    with httpx2.Client(base_url=sim.url, timeout=60) as client, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda n: client.post("/x", content=str(n)).json()["body"], range(200)))

    assert found == [str(n) for n in range(200)]
    assert sorted(int(each.text) for each in sim.asked()) == list(range(200))
    assert [each.number for each in sim.asked()] == list(range(1, 201))


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
def test_a_body_of_any_size_arrives_whole(sim: Simulator, framing: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    sim.on("GET /body", Step(body=body, framing=framing), Step(body=body, framing=framing, gzip=True))

    with httpx2.Client(base_url=sim.url, timeout=60) as client:
        assert client.get("/body").content == body
        assert client.get("/body").content == body


def test_a_connection_goes_on_after_an_answer_in_pieces(sim: Simulator) -> None:
    sim.on("GET /slow", Step(body="0123456789", drip="1ms", piece=3))
    with httpx2.Client(base_url=sim.url, timeout=60) as client:
        assert [client.get("/slow").text for _ in range(3)] == ["0123456789"] * 3
        assert connections(sim) == 1
