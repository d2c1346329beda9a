"""A simulated service for clients that block: it answers at once, because a blocked loop would stop the whole world."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import httpx2

from tests.simulation.loop import TrueTime

T = TypeVar("T")


class NoTime(TrueTime):
    """Nobody waits here; a patience that is shorter than a delay ends all the same."""

    async def asleep(self, wait: float) -> None: ...

    def sleep(self, wait: float) -> None: ...


class Blocking(httpx2.BaseTransport):
    """*inner*: the async transport of a simulator whose clock is `NoTime`, so that it never waits."""

    def __init__(self, inner: Any, note: Callable[[str], None]) -> None:
        self._inner, self._note = inner, note

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self._note(f"{request.method} {request.url.path}")
        answer: httpx2.Response = driven(self._inner.handle_async_request(request))
        if hasattr(answer, "_content"):
            return answer
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=Said(driven(whole(answer))))

    @contextlib.contextmanager
    def until(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """As the transport that it stands in for: no call takes any time."""
        yield


class Said(httpx2.SyncByteStream):
    def __init__(self, body: bytes | Exception) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        if isinstance(self._body, Exception):
            raise self._body
        yield self._body


async def whole(answer: httpx2.Response) -> bytes | Exception:
    """What came, as it was sent; or what it broke off with."""
    found = b""
    try:
        async for piece in answer.aiter_raw():
            found += piece
    except httpx2.TransportError as error:
        return error
    return found


def driven(work: Coroutine[Any, Any, T]) -> T:
    """The result of what never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        found: T = ended.value
        return found
    work.close()
    raise RuntimeError("it waits for something, and the loop is blocked")
