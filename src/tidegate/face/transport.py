"""Transports for httpx and httpx2: a client is guarded without touching its calls, and without importing either."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from typing import Any, Self

from tidegate.core.evidence import MOST_BODY, Evidence
from tidegate.face.exchange import Exchange
from tidegate.runtime.caller import Caller


def guarded(caller: Caller, key: Hashable, inner: Any) -> Any:
    """A transport of the colour of *inner*; of both when that has both, as a mock transport does."""
    sync, asynchronous = hasattr(inner, "handle_request"), hasattr(inner, "handle_async_request")
    if not sync and not asynchronous:
        raise TypeError(f"inner: {inner!r} is no transport; give an HTTPTransport or an AsyncHTTPTransport")
    kind = _BothColours if sync and asynchronous else Transport if sync else AsyncTransport
    return kind(caller, key, inner)


class Transport:
    """Synchronous; give it to `httpx.Client(transport=...)`."""

    def __init__(self, caller: Caller, key: Hashable, inner: Any) -> None:
        self._caller, self._key, self._inner = caller, key, inner

    def handle_request(self, request: Any) -> Any:
        outcome = Exchange(self._caller, self._key, str(request.method), str(request.url.path))
        try:
            if outcome.wait:
                self._caller.clock.sleep(outcome.wait)
            response = self._inner.handle_request(request)
            chunks: list[bytes] = []
            rest: Iterator[bytes] | None = None
            loaded = is_loaded(response)
            if not loaded and wants_body(self._caller, response):
                rest = iter(response.stream)
                peek(rest, chunks)
        except BaseException as error:
            outcome.failed(error)
            raise
        if not outcome.answered(evidence(request, response, chunks)) or loaded:
            outcome.finished()
        if not loaded:
            response.stream = _of(sync_stream, response.stream)(response.stream, outcome, chunks, rest)
        return response

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._inner.__exit__(*details)


class AsyncTransport:
    """Asynchronous; give it to `httpx.AsyncClient(transport=...)`."""

    def __init__(self, caller: Caller, key: Hashable, inner: Any) -> None:
        self._caller, self._key, self._inner = caller, key, inner

    async def handle_async_request(self, request: Any) -> Any:
        outcome = Exchange(self._caller, self._key, str(request.method), str(request.url.path))
        try:
            if outcome.wait:
                await self._caller.clock.asleep(outcome.wait)
            response = await self._inner.handle_async_request(request)
            chunks: list[bytes] = []
            rest: AsyncIterator[bytes] | None = None
            loaded = is_loaded(response)
            if not loaded and wants_body(self._caller, response):
                rest = aiter(response.stream)
                await apeek(rest, chunks)
        except BaseException as error:
            outcome.failed(error)
            raise
        if not outcome.answered(evidence(request, response, chunks)) or loaded:
            outcome.finished()
        if not loaded:
            response.stream = _of(async_stream, response.stream)(response.stream, outcome, chunks, rest)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._inner.__aexit__(*details)


class _BothColours(Transport, AsyncTransport):
    """For an inner transport that serves either kind of client."""


def wants_body(caller: Caller, response: Any) -> bool:
    pack = caller.policy.pack
    return pack is not None and pack.needs_body(int(response.status_code))


def is_loaded(response: Any) -> bool:
    """Whether the whole body is in memory already, as a mock transport has it."""
    try:
        return isinstance(response.content, bytes)
    except Exception:
        return False


def evidence(request: Any, response: Any, chunks: list[bytes]) -> Evidence:
    head = b"".join(chunks)[:MOST_BODY]
    if head:
        head = decoded(head, str(response.headers.get("content-encoding", "")))
    return Evidence(response=response, status=int(response.status_code), body=head or None, url=str(request.url))


def decoded(head: bytes, encoding: str) -> bytes:
    """The start of a compressed body in clear; as it is when the encoding is unknown."""
    if encoding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return head
    try:
        return zlib.decompressobj(wbits=47 if "gzip" in encoding.lower() else 15).decompress(head, MOST_BODY)
    except zlib.error:
        return head


def peek(rest: Iterator[bytes], chunks: list[bytes]) -> None:
    size = 0
    for chunk in rest:
        chunks.append(chunk)
        size += len(chunk)
        if size >= MOST_BODY:
            return


async def apeek(rest: AsyncIterator[bytes], chunks: list[bytes]) -> None:
    size = 0
    async for chunk in rest:
        chunks.append(chunk)
        size += len(chunk)
        if size >= MOST_BODY:
            return


_classes: dict[tuple[Callable[[type], type], type], type] = {}


def _of(make: Callable[[type], type], stream: object) -> Any:
    """The stream class for one of the library's, made once."""
    kind = type(stream)
    if (make, kind) not in _classes:
        _classes[make, kind] = make(kind)
    return _classes[make, kind]


def _base(kind: type, name: str) -> type:
    """The library's own stream class: its client insists on it."""
    return next((each for each in kind.__mro__ if each.__name__ == name), object)


def sync_stream(kind: type) -> type:
    """A stream class that replays what was looked at, passes on the rest, and settles how it ended."""

    class Stream(_base(kind, "SyncByteStream")):  # type: ignore[misc]
        def __init__(self, inner: Any, outcome: Exchange, chunks: list[bytes], rest: Iterator[bytes] | None) -> None:
            self._inner, self._outcome, self._chunks, self._rest = inner, outcome, chunks, rest

        def __iter__(self) -> Iterator[bytes]:
            chunks, self._chunks = self._chunks, []
            try:
                yield from chunks
                yield from self._inner if self._rest is None else self._rest
            except GeneratorExit:
                raise
            except BaseException as error:
                self._outcome.failed(error)
                raise
            self._outcome.finished()

        def close(self) -> None:
            self._inner.close()
            self._outcome.finished()

    return Stream


def async_stream(kind: type) -> type:
    """As `sync_stream`, for `async for`."""

    class Stream(_base(kind, "AsyncByteStream")):  # type: ignore[misc]
        def __init__(
            self, inner: Any, outcome: Exchange, chunks: list[bytes], rest: AsyncIterator[bytes] | None
        ) -> None:
            self._inner, self._outcome, self._chunks, self._rest = inner, outcome, chunks, rest

        async def __aiter__(self) -> AsyncIterator[bytes]:
            chunks, self._chunks = self._chunks, []
            try:
                for chunk in chunks:
                    yield chunk
                async for chunk in self._inner if self._rest is None else self._rest:
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._outcome.failed(error)
                raise
            self._outcome.finished()

        async def aclose(self) -> None:
            await self._inner.aclose()
            self._outcome.finished()

    return Stream
