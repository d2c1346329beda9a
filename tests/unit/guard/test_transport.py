"""Guarded transports in real clients of both libraries and both colours, against a real server on the loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

from tests.unit.faults.wire import answer, hangs, refused, resets, says, serving
from tests.unit.guard.scene import Scene
from tidegate import Held, fault_of, rules
from tidegate.faults import Confirm

BIG = b'{"items": ["' + b"x" * 50_000 + b'"]}'
FAILED = json.dumps({"subsonic-response": {"status": "failed", "error": {"code": 40, "message": "no"}}}).encode()
LASTFM = b'{"error": 29, "message": "Rate limit exceeded"}'


class Client:
    """One client, called the same way whatever its library and its colour."""

    def __init__(self, library: ModuleType, colour: str, scene: Scene, **options: Any) -> None:
        part = scene.target.key(7)
        if colour == "def":
            self.made: Any = library.Client(transport=part.transport(library.HTTPTransport()), timeout=60, **options)
        else:
            inner = library.AsyncHTTPTransport()
            self.made = library.AsyncClient(transport=part.transport(inner), timeout=60, **options)
        self.colour, self.library = colour, library

    def get(self, url: str, *, read: bool = True, method: str = "GET") -> Any:
        """The answer, all of its body read or none of it."""
        if self.colour == "def":
            with self.made, self.made.stream(method, url) as response:
                if read:
                    response.read()
                return response
        return asyncio.run(self.aget(url, read, method))

    async def aget(self, url: str, read: bool, method: str) -> Any:
        async with self.made, self.made.stream(method, url) as response:
            if read:
                await response.aread()
            return response


Make = Callable[..., Client]


@pytest.fixture(params=["def", "async def"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[httpx, httpx2], ids=["httpx", "httpx2"])
def make(request: pytest.FixtureRequest, colour: str) -> Make:
    return lambda scene, **options: Client(request.param, colour, scene, **options)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (200, None),
        (204, None),
        (304, None),
        (404, None),
        (401, "fatal"),
        (429, "backoff"),
        (500, "backoff"),
        (503, "backoff"),
    ],
)
def test_the_status_of_an_answer_is_recorded_and_the_client_gets_the_answer(
    make: Make, status: int, reason: str | None
) -> None:
    scene = Scene()
    with serving(says(answer(status))) as url:
        assert make(scene).get(url).status_code == status

    assert scene.holds(operation="GET /path") == ([] if reason is None else [reason])


def test_a_redirect_is_no_failure_of_the_service_whether_it_is_followed_or_not(make: Make) -> None:
    scene = Scene()
    with serving(says(answer(200, b"there"))) as there, serving(says(answer(302, Location=there))) as here:
        assert make(scene, follow_redirects=True).get(here).content == b"there"
        assert make(scene).get(here).status_code == 302

    assert scene.target.unhealthy() == []
    assert len(scene.events) == 0


def test_a_held_request_is_not_sent(make: Make) -> None:
    scene = Scene()
    scene.target.pause("1h")

    def script(connection: Any, over: Any) -> None:
        raise AssertionError("somebody called")

    with serving(script) as url, pytest.raises(Held):
        make(scene).get(url)


def test_a_refused_connection_is_a_network_fault_of_its_host(make: Make) -> None:
    scene = Scene()
    client = make(scene)
    with refused() as url, pytest.raises((httpx.ConnectError, httpx2.ConnectError)) as caught:
        client.get(url)

    fault = fault_of(caught.value)
    assert fault is not None
    assert fault.code == "network"
    assert scene.holds(operation="GET /path") == ["backoff"]
    assert scene.events.assert_one("call_failed").operation == "GET /path"


@pytest.mark.parametrize(
    "script", [resets(answer(200, b"x" * 100, missing=900)), says(answer(200, b"x" * 10, missing=90))]
)
@pytest.mark.parametrize("pack", [None, rules.lastfm])
def test_a_body_that_breaks_off_is_a_failure_and_its_permit_is_given_back(make: Make, script: Any, pack: Any) -> None:
    scene = Scene(rules=pack, confirm=(), concurrency=1, breaker={"consecutive": 1})
    with serving(script) as url, pytest.raises((httpx.TransportError, httpx2.TransportError)):
        make(scene).get(url)

    assert scene.events.assert_one("call_failed").fault is not None
    assert scene.target.breaker is not None
    assert scene.target.breaker.state == "open"
    assert scene.room() == 0
    scene.target.breaker.reset()
    assert scene.room() == 1


@pytest.mark.parametrize("read", [True, False])
def test_a_streamed_answer_is_under_way_until_it_is_read_or_closed(make: Make, colour: str, read: bool) -> None:
    scene = Scene(concurrency=1)
    room = []
    client = make(scene)

    async def aread(url: str) -> None:
        async with client.made, client.made.stream("GET", url) as response:
            room.append(scene.room())
            if read:
                assert b"".join([chunk async for chunk in response.aiter_raw()]) == BIG
                room.append(scene.room())

    with serving(says(answer(200, BIG))) as url:
        if colour == "def":
            with client.made, client.made.stream("GET", url) as response:
                room.append(scene.room())
                if read:
                    assert b"".join(response.iter_raw()) == BIG
                    room.append(scene.room())
        else:
            asyncio.run(aread(url))

    assert room == ([0, 1] if read else [0])
    assert scene.room() == 1


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
@pytest.mark.parametrize(
    ("pack", "body", "code"),
    [(rules.navidrome, FAILED, "unauthorized"), (rules.lastfm, LASTFM, "rate_limited")],
)
def test_an_error_inside_a_200_is_seen_and_the_client_still_reads_it_byte_for_byte(
    make: Make, pack: Any, body: bytes, code: str, encoding: str
) -> None:
    scene = Scene(rules=pack, confirm=())
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body) if encoding else body
    said = answer(200, packed, Content_Type="application/json", Content_Encoding=encoding or "identity")
    with serving(says(said)) as url:
        assert make(scene).get(url).content == body

    fault = scene.events.assert_one("call_failed").fault
    assert fault is not None
    assert fault.code == code


@pytest.mark.parametrize("pack", [None, rules.navidrome, rules.lastfm])
@pytest.mark.parametrize("body", [b"", b"{}", BIG, b'{"a": 1}' + b" " * 5000], ids=["none", "small", "big", "padded"])
def test_a_good_answer_is_passed_on_byte_for_byte(make: Make, pack: Any, body: bytes) -> None:
    scene = Scene(rules=pack)
    with serving(says(answer(200, body, Content_Type="application/json"))) as url:
        assert make(scene).get(url).content == body

    assert len(scene.events) == 0


def test_a_live_stream_is_not_kept_waiting_for_a_rule(make: Make, colour: str) -> None:
    scene = Scene(rules=rules.lastfm)
    client = make(scene)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n"

    async def first(url: str) -> bytes:
        async with client.made, client.made.stream("GET", url) as response:
            return bytes(await anext(response.aiter_raw()))

    with serving(hangs(head)) as url:
        if colour == "def":
            with client.made, client.made.stream("GET", url) as response:
                found = next(response.iter_raw())
        else:
            found = asyncio.run(first(url))
    assert found == b"data: one\n\n"


def test_what_raise_for_status_raises_carries_the_verdict_of_the_pack(make: Make) -> None:
    scene = Scene(rules=rules.musicbrainz)
    client = make(scene)
    with serving(says(answer(503, b"{}"))) as url:
        response = client.get(url)
    with pytest.raises((httpx.HTTPStatusError, httpx2.HTTPStatusError)) as caught:
        response.raise_for_status()

    fault = fault_of(caught.value)
    assert fault is scene.events.assert_one("call_failed").fault
    assert fault is not None
    assert fault.rule.startswith("musicbrainz:")


def test_ids_in_a_path_do_not_make_operations_of_their_own(make: Make) -> None:
    scene = Scene()
    with serving(says(answer(403))) as url:
        make(scene).get(f"{url}/users/4711/items/0b1e7c52-7a5e-4b0c-9d3c-0a9d3f3f1c55")

    assert scene.events.assert_one("call_failed").operation == "GET /path/users/*/items/*"


def test_the_probe_of_an_open_breaker_is_asked_before_a_request_too(make: Make, colour: str) -> None:
    asked = []

    def probe() -> None:
        asked.append(1)

    async def aprobe() -> None:
        asked.append(1)

    scene = Scene(breaker={"consecutive": 1, "max_requests": 1}, probe=probe if colour == "def" else aprobe)
    assert scene.target.breaker is not None
    scene.target.breaker.fail(scene.target.breaker.enter())
    with serving(says(answer(200))) as url:
        assert make(scene).get(url).status_code == 200

    assert (asked, scene.target.breaker.state) == ([1], "closed")


def test_the_probe_of_a_doubtful_verdict_is_asked_after_an_answer_too(make: Make) -> None:
    scene = Scene(confirm=[Confirm("unauthorized", probe=lambda key: None)])
    with serving(says(answer(401))) as url:
        make(scene).get(url)

    assert scene.holds(operation="GET /path") == ["backoff"], "the probe succeeded, so it is not believed"


def test_an_async_request_ends_at_the_deadline_wherever_it_hangs() -> None:
    for script in (hangs(), hangs(answer(200, b"x", missing=9))):
        scene = Scene(deadline=0.2, concurrency=1)
        with serving(script) as url, pytest.raises(TimeoutError):
            Client(httpx2, "async def", scene).get(url)
        fault = scene.events.assert_one("call_failed").fault
        assert fault is not None
        assert fault.code == "timeout"


@pytest.mark.parametrize("said", [b"", answer(200, b"x", missing=9)], ids=["no answer", "half a body"])
def test_a_cancelled_request_is_no_failure_and_gives_its_permit_back(said: bytes) -> None:
    scene, reached = Scene(concurrency=1, breaker={"consecutive": 1}), threading.Event()

    def script(connection: Any, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(said)
        reached.set()
        over.wait()

    async def main(url: str) -> None:
        client = Client(httpx2, "async def", scene)
        task = asyncio.create_task(client.aget(url, True, "GET"))
        await asyncio.to_thread(reached.wait)
        assert not scene.room()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(script) as url:
        asyncio.run(main(url))
    assert scene.room() == 1
    assert len(scene.events) == 0


def test_what_is_no_transport_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^inner "):
        Scene().target.transport(object())


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_a_mock_transport_of_both_colours_stays_one(library: Any) -> None:
    scene = Scene()
    both = scene.target.key(7).transport(library.MockTransport(lambda request: library.Response(500, content=b"no")))

    assert library.Client(transport=both).get("https://a.test/x").content == b"no"
    assert scene.holds(operation="GET /x") == ["backoff"]
    scene.target.key(7).clear()

    async def main() -> None:
        async with library.AsyncClient(transport=both) as client:
            assert (await client.get("https://a.test/x")).content == b"no"

    asyncio.run(main())
    assert len(scene.events.of("call_failed")) == 2
