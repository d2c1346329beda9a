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

# One HTTP exchange behind a target: admitted, then settled once, by its status or by how its body ended.

R = TypeVar("R")

_log = logger("tidegate.target")

# Parts of a path that name one thing, not a kind of call: numbers, UUIDs, hashes, long ids.
_ID = re.compile(r"(?<=/)(?:[0-9]+|[0-9a-fA-F-]{16,}|[A-Za-z0-9_-]{20,})(?=/|$)", re.ASCII)
# A client follows these by itself, or hands them to whoever asked; neither is a failure of the service.
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})

# Sent twice, these do no more than once.
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"})


class RequestInfo(NamedTuple):
    """What a request asks for, and whom."""

    method: str
    path: str
    host: str


def operation_of(method: str, path: str) -> str:
    """What kind of call a request is: its ids are left out, so that operations stay few."""
    return f"{method} {_ID.sub('*', path[:200])}"


class Exchange:
    """One request with its repetitions. Say how each attempt ended; the first word counts."""

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
        """The first attempt is under way; raises Held where it may not go."""
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
        """Begins the next attempt, or says why it may not go; then the outcome of the one before is on record."""
        how = self._attempts.spec
        probe_breaker(self._attempts.pipeline, how.key, how.operation)
        return self._entered(self._attempts.admit())

    async def aadmit(self) -> Held | None:
        how = self._attempts.spec
        await aprobe_breaker(self._attempts.pipeline, how.key, how.operation, self._attempts.left())
        return self._entered(self._attempts.admit())

    def _entered(self, found: Admission | Held) -> Held | None:
        if isinstance(found, Held):
            self._attempts.close()
            return found
        found.host = self._host
        return None

    @property
    def wait(self) -> float:
        """Seconds before the attempt may be sent, as the rate says."""
        return 0.0 if self._attempts.call is None else self._attempts.call.wait

    @property
    def pause(self) -> float:
        """Seconds until the next attempt, if there is one."""
        return self._attempts.pause

    async def within(self, made: Awaitable[R]) -> R:
        """What *made* gives, if it does before the deadline of the whole exchange."""
        return await within(self._attempts.left(), made)

    def failed(self, error: BaseException) -> bool:
        """Settles an attempt that raised; whether to go again after `pause`."""
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
        """Settles an answer that is no good; a good one is settled by how its body ends. Whether to go again."""
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
        """The body came to its end, or nobody wanted more of it."""
        self._attempts.succeeded()

    def use(self) -> None:
        """The caller gets this response: whatever becomes of its body, the request is not repeated."""
        self._may_repeat = False

    def close(self) -> None:
        """Leaves nothing behind: of an attempt that was broken off, or of one that no other has followed."""
        self._attempts.close()

    def _ended(self, what: object, fault: Fault | None) -> bool:
        return self._attempts.failed(what, fault, may_repeat=self._may_repeat)


def discard(response: Any) -> None:
    """Closes a response that the caller does not get because of another error; that error is the one to raise."""
    try:
        response.close()
    except Exception:
        _log.exception("response_not_closed")


async def adiscard(response: Any) -> None:
    """As `discard`, for an async response."""
    try:
        await response.aclose()
    except Exception:
        _log.exception("response_not_closed")


# The start of an answer's body, for rules that must see it; the caller still gets all of it.

# Nobody hides an error message in these, and waiting for 4 kB of a live one could take for ever.
_NEVER_READ = ("text/event-stream", "audio/", "video/", "image/")


def needs_body(rule_pack: Pack | None, response: Any) -> bool:
    """Whether a rule must see the body before it is handed out, and it has not been read yet."""
    if rule_pack is None or not rule_pack.needs_body(int(response.status_code)) or is_loaded(response):
        return False
    return not str(response.headers.get("content-type", "")).strip().lower().startswith(_NEVER_READ)


def is_loaded(response: Any) -> bool:
    """Whether the whole body is in memory already, as a mock transport has it."""
    try:
        return isinstance(response.content, bytes)
    except Exception:
        return False


def peek(rest: Iterator[bytes], chunks: list[bytes]) -> None:
    """Moves chunks from *rest* until 4 kB are there."""
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
    """The start of a compressed body in clear; as it is when the encoding is unknown."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return head
    try:
        return zlib.decompressobj(wbits=15 if encoding == "deflate" else 31).decompress(head, MAX_BODY)
    except zlib.error:
        return head


# Bodies that replay what was looked at, pass on the rest, and settle how it ended.
#
# A client insists on the stream class of its own library, so one is made below each that comes along.

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
