"""A response that is retried is closed, and its permit is returned, even if the pause or the close fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import requests

from tests.unit.guard.scene import Scene, Stopped
from tidegate import Retry
from tidegate.testing import VirtualClock

TWICE = Retry(attempts=2, base="5s", cap="5s")


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that was not read; *broken* is what its close raises."""

    def __init__(self, broken: BaseException | None = None) -> None:
        self.broken, self.closed = broken, 0

    def __iter__(self) -> Iterator[bytes]:
        yield b"x"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"x"

    def close(self) -> None:
        self.closed += 1
        if self.broken is not None:
            raise self.broken

    async def aclose(self) -> None:
        self.close()


class Unavailable(httpx.BaseTransport, httpx.AsyncBaseTransport):
    def __init__(self, body: Body) -> None:
        self.body = body

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, stream=self.body)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, stream=self.body)


class UnavailableAdapter(requests.adapters.BaseAdapter):
    """For `requests`: the same body."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body

    def send(self, request: Any, *args: Any, **options: Any) -> requests.Response:
        made = requests.Response()
        made.status_code, made.raw, made.request, made.url = 503, self.body, request, request.url
        return made

    def close(self) -> None:
        pass


class InterruptedClock(VirtualClock):
    """A signal arrives in every pause."""

    def sleep(self, seconds: float) -> None:
        raise Stopped


def send(scene: Scene, body: Body, kind: str) -> None:
    if kind == "requests":
        with requests.Session() as session:
            session.mount("http://", scene.target.adapter(UnavailableAdapter(body), retry=TWICE))
            session.get("http://x/", stream=True)
        return
    transport = scene.target.transport(Unavailable(body), retry=TWICE)
    if kind == "httpx":
        httpx.Client(transport=transport).get("http://x/")
    else:
        scene.clock.run(httpx.AsyncClient(transport=transport).get("http://x/"))


def test_cancelling_the_pause_closes_the_response() -> None:
    scene, body = Scene(profile="requests", breaker=False, concurrency=1), Body()
    client = httpx.AsyncClient(transport=scene.target.transport(Unavailable(body), retry=TWICE))

    async def main() -> None:
        async with asyncio.timeout(1):
            await client.get("http://x/")

    with pytest.raises(TimeoutError):
        scene.clock.run(main())
    assert body.closed == 1
    assert scene.room(key=None) == 1


@pytest.mark.parametrize("kind", ["httpx", "requests"])
def test_interrupting_the_pause_closes_the_response(kind: str) -> None:
    body = Body()
    scene = Scene(profile="requests", breaker=False, concurrency=1, clock=InterruptedClock())

    with pytest.raises(Stopped):
        send(scene, body, kind)
    assert body.closed == 1
    assert scene.room(key=None) == 1


@pytest.mark.parametrize("kind", ["httpx", "httpx async", "requests"])
def test_a_close_that_fails_returns_the_permit_of_the_next_attempt(kind: str) -> None:
    scene = Scene(profile="requests", breaker=False, concurrency=1)

    with pytest.raises(OSError, match="close"):
        send(scene, Body(OSError("close")), kind)
    assert scene.room(key=None) == 1


def test_a_close_that_fails_does_not_replace_the_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(profile="requests", breaker=False, clock=InterruptedClock())

    with pytest.raises(Stopped):
        send(scene, Body(OSError("close")), "httpx")
    assert "response_not_closed" in caplog.text


def test_cancelling_the_second_attempt_leaves_the_first_failure_on_record() -> None:
    scene = Scene(profile="sync")
    answers = [lambda request: httpx.Response(503)]

    def answer(request: httpx.Request) -> httpx.Response:
        if answers:
            return answers.pop()(request)
        raise Stopped

    client = httpx.Client(transport=scene.target.transport(httpx.MockTransport(answer), retry=TWICE))
    with pytest.raises(Stopped):
        client.get("http://x/")
    assert [each.failures for each in scene.target.unhealthy()] == [1]
