"""One HTTP exchange behind a target: admitted, then settled by its status or by the end of its body."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from typing import Any, NamedTuple, TypeVar

from tidegate.errors import Held
from tidegate.faults.evidence import MAX_BODY, Evidence
from tidegate.faults.fault import Fault
from tidegate.faults.rule import Pack
from tidegate.guard.attempts import (
    CallAttempts,
    CallSpec,
    aconfirm_by_probe,
    aprobe_breaker,
    confirm_by_probe,
    probe_breaker,
    within,
)
from tidegate.guard.backoff import ONCE, Retry
from tidegate.guard.key_health import Admission
from tidegate.guard.pipeline import CallPipeline
from tidegate.logs import logger

# -- exchange -------------------------------------------------------------------------------------------------------

R = TypeVar("R")

_log = logger("tidegate.target")

# Path segments that identify one object instead of a kind of call: numbers, UUIDs, hashes, long ids.
_ID = re.compile(r"(?<=/)(?:[0-9]+|[0-9a-fA-F-]{16,}|[A-Za-z0-9_-]{20,})(?=/|$)", re.ASCII)
# The client follows these, or returns them to the caller. Neither is a failure of the service.
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})

# Repeating these has no further effect.
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})


class RequestInfo(NamedTuple):
    """Method, URL and host of a request."""

    method: str
    path: str
    host: str


def operation_of(method: str, path: str) -> str:
    """Returns the kind of call. Ids are removed from the path, so that there are few operations."""
    return f"{method} {_ID.sub('*', path[:200])}"


class Exchange:
    """One request with its retries. Only the first outcome of each attempt counts."""

    __slots__ = ("_attempts", "_host", "_may_repeat")

    def __init__(
        self, pipeline: CallPipeline, key: Hashable, operation: str, host: str, retry: Retry, *, may_repeat: bool
    ) -> None:
        self._attempts = CallAttempts(pipeline, CallSpec(key, operation, retry))
        self._host = host
        self._may_repeat = may_repeat

    @classmethod
    def opened(
        cls, pipeline: CallPipeline, key: Hashable, info: RequestInfo, retry: Retry = ONCE, *, may_repeat: bool = False
    ) -> Exchange:
        """Starts the first attempt. Raises Held if it is not admitted."""
        made = cls(pipeline, key, operation_of(info.method, info.path), info.host, retry, may_repeat=may_repeat)
        if (held := made.admit()) is not None:
            raise held
        return made

    @classmethod
    async def aopened(
        cls, pipeline: CallPipeline, key: Hashable, info: RequestInfo, retry: Retry = ONCE, *, may_repeat: bool = False
    ) -> Exchange:
        made = cls(pipeline, key, operation_of(info.method, info.path), info.host, retry, may_repeat=may_repeat)
        if (held := await made.aadmit()) is not None:
            raise held
        return made

    def admit(self) -> Held | None:
        """Starts the next attempt, or returns the reason and records the outcome of the last one."""
        how = self._attempts.spec
        probe_breaker(self._attempts.pipeline, how.key, how.operation)
        return self._entered(self._attempts.admit())

    async def aadmit(self) -> Held | None:
        how = self._attempts.spec
        await aprobe_breaker(self._attempts.pipeline, how.key, how.operation, self._attempts.left())
        return self._entered(self._attempts.admit())

    def _entered(self, admitted: Admission | Held) -> Held | None:
        if isinstance(admitted, Held):
            self._attempts.close()
            return admitted
        admitted.host = self._host
        return None

    @property
    def wait(self) -> float:
        """Seconds before the attempt may be sent because of the rate."""
        return 0.0 if self._attempts.call is None else self._attempts.call.wait

    @property
    def pause(self) -> float:
        """Seconds until the next attempt, if there is one."""
        return self._attempts.pause

    async def within(self, made: Awaitable[R]) -> R:
        """Awaits *made* up to the deadline of the exchange."""
        return await within(self._attempts.left(), made)

    def failed(self, error: BaseException) -> bool:
        """Settles an attempt that raised. Returns whether to retry after `pause`."""
        call = self._attempts.call
        if call is None:
            return False
        try:
            return self._ended(error, confirm_by_probe(self._attempts.pipeline, call, error))
        except BaseException:
            self.close()
            raise

    async def afailed(self, error: BaseException) -> bool:
        call = self._attempts.call
        if call is None:
            return False
        try:
            return self._ended(
                error, await aconfirm_by_probe(self._attempts.pipeline, call, error, self._attempts.left())
            )
        except BaseException:
            self.close()
            raise

    def answered(self, evidence: Evidence) -> bool:
        """Settles a response that is a failure, and returns whether to retry.

        The end of its body settles a good one.
        """
        call = self._attempts.call
        if call is None or evidence.status in _REDIRECTS:
            return False
        try:
            fault = confirm_by_probe(self._attempts.pipeline, call, evidence)
            return fault is not None and self._ended(evidence, fault)
        except BaseException:
            self.close()
            raise

    async def aanswered(self, evidence: Evidence) -> bool:
        call = self._attempts.call
        if call is None or evidence.status in _REDIRECTS:
            return False
        try:
            fault = await aconfirm_by_probe(self._attempts.pipeline, call, evidence, self._attempts.left())
            return fault is not None and self._ended(evidence, fault)
        except BaseException:
            self.close()
            raise

    def finished(self) -> None:
        """Settles a good response: its body ended, or the caller wanted no more of it."""
        self._attempts.succeeded()

    def use(self) -> None:
        """Marks that the caller gets this response. From now on the request is not retried."""
        self._may_repeat = False

    def close(self) -> None:
        """Records an attempt that was aborted, and a failure that no other attempt followed."""
        self._attempts.close()

    def _ended(self, what: object, fault: Fault | None) -> bool:
        return self._attempts.failed(what, fault, may_repeat=self._may_repeat)


def discard(response: Any) -> None:
    """Closes a response that the caller does not get because of another error. Raises only that error."""
    try:
        response.close()
    except Exception:
        _log.exception("response_not_closed")


async def adiscard(response: Any) -> None:
    """The async form of `discard`."""
    try:
        await response.aclose()
    except Exception:
        _log.exception("response_not_closed")


# -- start of the body, for rules -----------------------------------------------------------------------------------

# These have no error messages in them, and 4 kB of a live stream could take for ever.
_NEVER_READ = ("text/event-stream", "audio/", "video/", "image/")


def needs_body(rule_pack: Pack | None, response: Any) -> bool:
    """Whether a rule needs the body before the caller gets it, and it is not read yet."""
    if rule_pack is None or not rule_pack.needs_body(int(response.status_code)) or is_loaded(response):
        return False
    return not str(response.headers.get("content-type", "")).strip().lower().startswith(_NEVER_READ)


def is_loaded(response: Any) -> bool:
    """Whether the whole body is already in memory, as with a mock transport."""
    try:
        return isinstance(response.content, bytes)
    except Exception:
        return False


def peek(rest: Iterator[bytes], chunks: list[bytes]) -> None:
    """Moves chunks from *rest* until there are 4 kB."""
    while sum(map(len, chunks)) < MAX_BODY:
        chunk = next(rest, None)
        if chunk is None:
            return
        chunks.append(chunk)


async def apeek(rest: AsyncIterator[bytes], chunks: list[bytes]) -> None:
    while sum(map(len, chunks)) < MAX_BODY:
        chunk = await anext(rest, None)
        if chunk is None:
            return
        chunks.append(chunk)


def evidence(request: Any, response: Any, chunks: list[bytes]) -> Evidence:
    head = b"".join(chunks)[:MAX_BODY]
    if head:
        head = _decoded(head, str(response.headers.get("content-encoding", "")).strip().lower())
    return Evidence(response=response, status=int(response.status_code), body=head or None, url=str(request.url))


def _decoded(head: bytes, encoding: str) -> bytes:
    """Decompresses the start of a body. Returns it unchanged if the encoding is unknown."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return head
    try:
        return zlib.decompressobj(wbits=15 if encoding == "deflate" else 31).decompress(head, MAX_BODY)
    except zlib.error:
        return head


# -- body streams ---------------------------------------------------------------------------------------------------
# They replay the start of the body, pass on the rest, and settle the exchange at the end. A client requires the stream
# class of its own library, so each class is created for the library of the inner stream.

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
    return next((base for base in kind.__mro__ if base.__name__ == name), object)


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
                aclose = getattr(self._rest, "aclose", None)  # for a generator that was not exhausted
                if aclose is not None:
                    await aclose()
                await self._inner.aclose()
            finally:
                self._exchange.finished()

    return Stream
