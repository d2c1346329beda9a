"""Bodies that replay what was looked at, pass on the rest, and settle how it ended.

A client insists on the stream class of its own library, so one is made below each that comes along.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from tidegate.face.exchange import Exchange

_classes: dict[tuple[Callable[[type], type], type], type] = {}


def sync_stream(inner: Any, exchange: Exchange, chunks: list[bytes], rest: Iterator[bytes] | None) -> Any:
    return _class(_sync, type(inner))(inner, exchange, chunks, rest)


def async_stream(inner: Any, exchange: Exchange, chunks: list[bytes], rest: AsyncIterator[bytes] | None) -> Any:
    return _class(_async, type(inner))(inner, exchange, chunks, rest)


def _class(make: Callable[[type], type], kind: type) -> type:
    if (make, kind) not in _classes:
        _classes[make, kind] = make(kind)
    return _classes[make, kind]


def _base(kind: type, name: str) -> type:
    return next((each for each in kind.__mro__ if each.__name__ == name), object)


def _sync(kind: type) -> type:
    class Stream(_base(kind, "SyncByteStream")):  # type: ignore[misc]
        def __init__(self, inner: Any, exchange: Exchange, chunks: list[bytes], rest: Iterator[bytes] | None) -> None:
            self._inner, self._exchange, self._chunks, self._rest = inner, exchange, chunks, rest

        def __iter__(self) -> Iterator[bytes]:
            chunks, self._chunks = self._chunks, []
            try:
                yield from chunks
                yield from self._inner if self._rest is None else self._rest
            except GeneratorExit:
                raise
            except BaseException as error:
                self._exchange.failed(error)
                raise
            self._exchange.finished()

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._exchange.finished()

    return Stream


def _async(kind: type) -> type:
    class Stream(_base(kind, "AsyncByteStream")):  # type: ignore[misc]
        def __init__(
            self, inner: Any, exchange: Exchange, chunks: list[bytes], rest: AsyncIterator[bytes] | None
        ) -> None:
            self._inner, self._exchange, self._chunks, self._rest = inner, exchange, chunks, rest

        async def __aiter__(self) -> AsyncIterator[bytes]:
            chunks, self._chunks = self._chunks, []
            for chunk in chunks:
                yield chunk
            if self._rest is None:
                self._rest = aiter(self._inner)
            while True:
                try:
                    more = await self._exchange.within(anext(self._rest, None))
                except BaseException as error:
                    await self._exchange.afailed(error)
                    raise
                if more is None:
                    break
                yield more
            self._exchange.finished()

        async def aclose(self) -> None:
            try:
                aclose = getattr(self._rest, "aclose", None)  # of a generator that was not used up
                if aclose is not None:
                    await aclose()
                await self._inner.aclose()
            finally:
                self._exchange.finished()

    return Stream
