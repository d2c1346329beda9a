"""Guarded transports for httpx and httpx2, and an adapter for requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Hashable, Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from tidegate.faults.evidence import Evidence
from tidegate.guard import exchange as guard_exchange
from tidegate.guard.backoff import Retry
from tidegate.guard.exchange import Exchange, RequestInfo, adiscard, async_stream, discard, sync_stream
from tidegate.guard.pipeline import CallPipeline

# -- httpx and httpx2, without importing either ---------------------------------------------------------------------


def guarded_transport(
    pipeline: CallPipeline, key: Hashable, inner: Any, retry: Retry, repeated: Collection[str]
) -> Any:
    """Returns a transport that is sync or async like *inner*, or both, as for a mock transport."""
    sync, asynchronous = hasattr(inner, "handle_request"), hasattr(inner, "handle_async_request")
    if not sync and not asynchronous:
        raise TypeError(f"inner must be a transport of httpx or httpx2, got {inner!r:.60}; give httpx.HTTPTransport()")
    kind = _SyncAndAsyncTransport if sync and asynchronous else GuardedTransport if sync else AsyncGuardedTransport
    return kind(pipeline, key, inner, retry, repeated)


class GuardedTransport:
    """Sync transport for `httpx.Client(transport=...)`."""

    def __init__(
        self, pipeline: CallPipeline, key: Hashable, inner: Any, retry: Retry, repeated: Collection[str]
    ) -> None:
        self._pipeline, self._key, self._inner, self._retry, self._repeated = pipeline, key, inner, retry, repeated

    def handle_request(self, request: Any) -> Any:
        exchange = Exchange.opened(
            self._pipeline,
            self._key,
            _asked_for(request),
            self._retry,
            may_repeat=_may_repeat_request(request, self._repeated),
        )
        while True:
            chunks: list[bytes] = []
            rest: Iterator[bytes] | None = None
            try:
                if exchange.wait:
                    self._pipeline.clock.sleep(exchange.wait)
                response = self._inner.handle_request(request)
                if guard_exchange.needs_body(self._pipeline.policy.rule_pack, response):
                    rest = iter(response.stream)
                    guard_exchange.peek(rest, chunks)
            except BaseException as error:
                if not exchange.failed(error) or not self._again(exchange):
                    raise
                continue
            try:
                again = exchange.answered(guard_exchange.evidence(request, response, chunks)) and self._again(exchange)
                if again:
                    response.close()
            except BaseException:
                exchange.close()
                discard(response)
                raise
            if not again:
                break
        if guard_exchange.is_loaded(response):
            exchange.finished()
        else:
            exchange.use()
            response.stream = sync_stream(response.stream, exchange, chunks, rest)
        return response

    def _again(self, exchange: Exchange) -> bool:
        """Starts the next attempt after its pause. Returns False if it may not go."""
        try:
            self._pipeline.clock.sleep(exchange.pause)
            return exchange.admit() is None
        except BaseException:
            exchange.close()
            raise

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._inner.__exit__(*details)


class AsyncGuardedTransport:
    """Async transport for `httpx.AsyncClient(transport=...)`. The deadline covers the whole exchange."""

    def __init__(
        self, pipeline: CallPipeline, key: Hashable, inner: Any, retry: Retry, repeated: Collection[str]
    ) -> None:
        self._pipeline, self._key, self._inner, self._retry, self._repeated = pipeline, key, inner, retry, repeated

    async def handle_async_request(self, request: Any) -> Any:
        exchange = await Exchange.aopened(
            self._pipeline,
            self._key,
            _asked_for(request),
            self._retry,
            may_repeat=_may_repeat_request(request, self._repeated),
        )
        while True:
            chunks: list[bytes] = []
            rest: AsyncIterator[bytes] | None = None
            try:
                if exchange.wait:
                    await self._pipeline.clock.asleep(exchange.wait)
                response = await exchange.within(self._inner.handle_async_request(request))
                if guard_exchange.needs_body(self._pipeline.policy.rule_pack, response):
                    rest = aiter(response.stream)
                    await exchange.within(guard_exchange.apeek(rest, chunks))
            except BaseException as error:
                if not await exchange.afailed(error) or not await self._aagain(exchange):
                    raise
                continue
            try:
                evidence = guard_exchange.evidence(request, response, chunks)
                again = await exchange.aanswered(evidence) and await self._aagain(exchange)
                if again:
                    await response.aclose()
            except BaseException:
                exchange.close()
                await adiscard(response)
                raise
            if not again:
                break
        if guard_exchange.is_loaded(response):
            exchange.finished()
        else:
            exchange.use()
            response.stream = async_stream(response.stream, exchange, chunks, rest)
        return response

    async def _aagain(self, exchange: Exchange) -> bool:
        try:
            await self._pipeline.clock.asleep(exchange.pause)
            return await exchange.aadmit() is None
        except BaseException:
            exchange.close()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._inner.__aexit__(*details)


class _SyncAndAsyncTransport(GuardedTransport, AsyncGuardedTransport):
    """For an inner transport that serves both kinds of client."""


def _asked_for(request: Any) -> RequestInfo:
    return RequestInfo(str(request.method), str(request.url.path), str(request.url.host))


def _may_repeat_request(request: Any, methods: Collection[str]) -> bool:
    """Whether the request is safe to repeat: one of *methods*, and a body in memory."""
    return str(request.method) in methods and type(request.stream).__name__ == "ByteStream"


# -- requests -------------------------------------------------------------------------------------------------------


def guarded_adapter(pipeline: CallPipeline, key: Hashable, inner: Any, retry: Retry, repeated: Collection[str]) -> Any:
    if inner is None:
        from requests.adapters import HTTPAdapter

        inner = HTTPAdapter()
    if not hasattr(inner, "send"):
        raise TypeError(
            f"inner must be an adapter of requests, got {inner!r:.60}; give requests.adapters.HTTPAdapter()"
        )
    return Adapter(pipeline, key, inner, retry, repeated)


class Adapter:
    """Adapter for `session.mount("https://", ...)`. Of a streamed response it checks only status and headers."""

    def __init__(
        self, pipeline: CallPipeline, key: Hashable, inner: Any, retry: Retry, repeated: Collection[str]
    ) -> None:
        self._pipeline, self._key, self._inner, self._retry, self._repeated = pipeline, key, inner, retry, repeated

    def send(self, request: Any, **options: Any) -> Any:
        url = urlsplit(str(request.url))
        asked = RequestInfo(str(request.method), url.path, url.hostname or "")
        exchange = Exchange.opened(
            self._pipeline, self._key, asked, self._retry, may_repeat=_may_repeat_prepared(request, self._repeated)
        )
        while True:
            try:
                if exchange.wait:
                    self._pipeline.clock.sleep(exchange.wait)
                response = self._inner.send(request, **options)
                if not options.get("stream"):
                    _ = response.content  # read here, so that an aborted body is a failure of this call
            except BaseException as error:
                if not exchange.failed(error) or not self._again(exchange):
                    raise
                continue
            evidence = Evidence(response=response, status=int(response.status_code), url=str(request.url))
            try:
                again = exchange.answered(evidence) and self._again(exchange)
                if again:
                    response.close()
            except BaseException:
                exchange.close()
                discard(response)
                raise
            if not again:
                exchange.finished()
                return response

    def _again(self, exchange: Exchange) -> bool:
        """Starts the next attempt after its pause. Returns False if it may not go."""
        try:
            self._pipeline.clock.sleep(exchange.pause)
            return exchange.admit() is None
        except BaseException:
            exchange.close()
            raise

    def close(self) -> None:
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # during copy, before the attributes are set
            raise AttributeError(name)
        return getattr(self._inner, name)


def _may_repeat_prepared(request: Any, methods: Collection[str]) -> bool:
    """Whether the request is safe to repeat: one of *methods*, and a body in memory."""
    return str(request.method) in methods and (request.body is None or isinstance(request.body, (bytes, str)))
