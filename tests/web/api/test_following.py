"""Events: as a list after an id, and as a stream that goes on where it was left."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.web.api.building import Shop, listening, served
from tests.web.local import opened_by
from tidegate.web.live.hub import EVENT_BATCH
from tidegate.web.site import LivePolicy

QUICK = LivePolicy(poll_interval=0.02, soonest=0.01, beat=0.05)
STREAM = {"Accept": "text/event-stream"}


def paused(there: Shop, *spans: int) -> None:
    for span in spans:
        there.queue.target("mailer").pause(f"{span}s", by="ada")


def test_events_are_listed_after_an_id(there: Shop, api: TestClient) -> None:
    paused(there, 60, 61, 62)
    there.queue.pause("mail", "1h")
    everything = api.get("/api/v1/events").json()
    kinds = [event["kind"] for event in everything["items"]]
    assert kinds == ["target_paused"] * 3 + ["queue_paused"]
    first = everything["items"][0]
    assert (first["subject"], first["name"], first["actor"]) == ("target", "mailer", "ada")
    after = api.get(f"/api/v1/events?after={first['id']}&limit=2").json()
    assert [event["id"] for event in after["items"]] == [each["id"] for each in everything["items"][1:3]]
    assert after["last_id"] == after["items"][-1]["id"]
    nothing = api.get(f"/api/v1/events?after={everything['last_id']}").json()
    assert nothing == {"items": [], "last_id": everything["last_id"]}
    of_queue = api.get("/api/v1/events?subject=queue&name=mail").json()["items"]
    assert [event["kind"] for event in of_queue] == ["queue_paused"]
    assert len(api.get("/api/v1/events?name=mailer").json()["items"]) == 3


# -- streams ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def address(there: Shop) -> Iterator[str]:
    with listening(served(there, live=QUICK)) as found:
        yield found


@contextlib.asynccontextmanager
async def following(address: str, query: str = "", **headers: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    async with (
        httpx2.AsyncClient(timeout=60) as client,
        client.stream("GET", f"{address}/api/v1/events{query}", headers={**STREAM, **headers}, timeout=60) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield parsed(answer.aiter_lines())


async def parsed(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    async for line in lines:
        if not line:
            yield found
            found = {}
            continue
        name, _, value = line.partition(":")
        found[name or "comment"] = value.removeprefix(" ")


async def next_event(events: AsyncIterator[dict[str, Any]]) -> dict[str, Any]:
    async with asyncio.timeout(60):
        async for event in events:
            if "data" in event:
                return event
    raise AssertionError("the stream ended")


async def test_a_stream_tells_what_happens_from_now_on(there: Shop, address: str) -> None:
    paused(there, 60)
    async with following(address) as events:
        assert "comment" in await anext(events)
        await asyncio.to_thread(paused, there, 61)
        event = await next_event(events)
    assert event["event"] == "target_paused"
    about = json.loads(event["data"])
    assert (about["id"], about["actor"]) == (int(event["id"]), "ada")
    assert about["fields"]["until"]


async def test_a_stream_goes_on_where_it_was_left(there: Shop, address: str) -> None:
    paused(there, 60, 61, 62)
    async with following(address, **{"Last-Event-ID": "0"}) as events:
        seen = [int((await next_event(events))["id"]) for _ in range(2)]
    await asyncio.to_thread(paused, there, 63)
    async with following(address, **{"Last-Event-ID": str(seen[-1])}) as events:
        seen += [int((await next_event(events))["id"]) for _ in range(2)]
    assert seen == sorted(set(seen))
    assert len(seen) == 4


async def test_a_stream_continues_after_more_events_than_one_read_returns(there: Shop, address: str) -> None:
    paused(there, *range(60, 60 + 2 * EVENT_BATCH + 1))
    async with following(address, **{"Last-Event-ID": "0"}) as events:
        seen = [int((await next_event(events))["id"]) for _ in range(2 * EVENT_BATCH + 1)]
        await asyncio.to_thread(paused, there, 59)
        seen.append(int((await next_event(events))["id"]))
    assert seen == sorted(set(seen))


async def test_a_stream_of_one_queue_contains_no_other_events(there: Shop, address: str) -> None:
    async with following(address, "?subject=queue&name=mail") as events:
        await anext(events)
        await asyncio.to_thread(paused, there, 60)
        await asyncio.to_thread(there.queue.pause, "mail", "1h")
        about = json.loads((await next_event(events))["data"])
    assert (about["subject"], about["name"]) == ("queue", "mail")


async def test_a_stream_without_news_has_a_heartbeat(there: Shop, address: str) -> None:
    async with following(address) as events:
        await anext(events)
        assert "ping" in (await anext(events))["comment"]


async def test_a_stream_survives_that_the_database_is_away(there: Shop, address: str) -> None:
    async with following(address) as events:
        await anext(events)
        there.queue.away = True
        await asyncio.sleep(0.1)
        there.queue.away = False
        await asyncio.to_thread(paused, there, 60)
        assert (await next_event(events))["event"] == "target_paused"


@pytest.mark.parametrize("last", ["x", "-1", "1" * 17, "1.5"])
def test_an_id_that_is_none_is_refused(still: TestClient, last: str) -> None:
    answer = still.get("/api/v1/events", headers={**STREAM, "Last-Event-ID": last})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


async def test_more_streams_than_allowed_are_told_when_one_ends(there: Shop) -> None:
    app = served(there, live=LivePolicy(max_followers=1, longest_follow=1000.0))
    with listening(app) as address:
        async with following(address) as events, httpx2.AsyncClient(timeout=60) as client:
            await anext(events)
            answer = await client.get(f"{address}/api/v1/events", headers=STREAM)
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many")
    assert 900 < int(answer.headers["retry-after"]) <= 1000


@pytest.mark.parametrize("path", ["/api/v1/events", "/live"])
async def test_a_burst_gets_no_more_streams_than_allowed(there: Shop, path: str) -> None:
    app = served(there, live=LivePolicy(max_followers=2, max_subscribers=2))
    with listening(app) as address:
        async with httpx2.AsyncClient(timeout=60, limits=httpx2.Limits(max_connections=None)) as client:

            async def status() -> int:
                answer = await client.send(client.build_request("GET", f"{address}{path}", headers=STREAM), stream=True)
                return answer.status_code

            found = Counter(await asyncio.gather(*(status() for _ in range(20))))
            app.state.closing.set()
    assert found == {200: 2, 429: 18}


async def test_a_stream_ends_after_its_time_and_when_the_server_closes(there: Shop) -> None:
    app = served(there, live=LivePolicy(longest_follow=0.1))
    with listening(app) as address:
        async with following(address) as events:
            assert [event async for event in events]
    app = served(there, live=QUICK)
    with listening(app) as address:
        async with following(address) as events:
            await anext(events)
            app.state.closing.set()
            async for _ in events:  # until it ends
                pass
    assert not app.state.live.followers


async def test_a_client_that_does_not_read_is_dropped(there: Shop) -> None:
    app = served(there, live=LivePolicy(behind=0.2))
    paused(there, *range(60, 70))
    taken: list[dict[str, Any]] = []
    stuck = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        taken.append(message)
        if message["type"] == "http.response.body":
            stuck.set()
            await asyncio.sleep(3600)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async with asyncio.timeout(60):
        with contextlib.suppress(Exception):
            await opened_by(True, app)(scope(app), receive, send)  # type: ignore[arg-type]
    assert stuck.is_set()
    assert [message["type"] for message in taken][:2] == ["http.response.start", "http.response.body"]
    assert not app.state.live.followers


def scope(app: FastAPI) -> dict[str, Any]:
    headers = [(b"host", b"127.0.0.1:8321"), (b"accept", b"text/event-stream"), (b"last-event-id", b"0")]
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/api/v1/events", "raw_path": b"/api/v1/events", "query_string": b"", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8321), "app": app, "root_path": "",
    }  # fmt: skip
