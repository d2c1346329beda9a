"""One HTTP exchange behind a target: admitted, then settled once, by its status or by how its body ended."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Hashable
from typing import Any, NamedTuple, TypeVar

from tidegate.core.evidence import Evidence
from tidegate.core.fault import Fault
from tidegate.core.logs import logger
from tidegate.core.retry import ONCE, Retry
from tidegate.errors import Held
from tidegate.runtime.admission import Admission
from tidegate.runtime.attempts import CallAttempts, CallSpec
from tidegate.runtime.caller import CallPipeline
from tidegate.runtime.probing import aconfirm_by_probe, aprobe_breaker, confirm_by_probe, probe_breaker, within

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
