"""One HTTP exchange behind a target: admitted, then settled once, by its status or by how its body ended."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Hashable
from typing import Any, TypeVar

from tidegate.core.evidence import Evidence
from tidegate.core.fault import Fault
from tidegate.errors import Held
from tidegate.runtime.attempts import mark
from tidegate.runtime.caller import CANCELLED, Caller
from tidegate.runtime.probing import aknock, averdict, knock, verdict, within

R = TypeVar("R")

# Parts of a path that name one thing, not a kind of call: numbers, UUIDs, hashes, long ids.
_ID = re.compile(r"(?<=/)(?:[0-9]+|[0-9a-fA-F-]{16,}|[A-Za-z0-9_-]{20,})(?=/|$)", re.ASCII)
# A client follows these by itself, or hands them to whoever asked; neither is a failure of the service.
_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})


def operation_of(method: str, path: str) -> str:
    """What kind of call a request is: its ids are left out, so that operations stay few."""
    return f"{method} {_ID.sub('*', path[:200])}"


class Exchange:
    """Whoever opens it must say how it ended; the first word counts."""

    __slots__ = ("_caller", "_deadline", "_settled", "call")

    def __init__(self, caller: Caller, key: Hashable, operation: str, host: str) -> None:
        allowed = caller.policy.deadline
        self._caller = caller
        self._deadline = math.inf if allowed is None else caller.clock.monotonic() + allowed
        entered = caller.admit(key, operation, self.left())
        if isinstance(entered, Held):
            raise entered
        entered.host = host
        self.call = entered
        self._settled = False

    @classmethod
    def opened(cls, caller: Caller, key: Hashable, method: str, path: str, host: str) -> Exchange:
        """Raises Held where it may not go."""
        operation = operation_of(method, path)
        knock(caller, key, operation)
        return cls(caller, key, operation, host)

    @classmethod
    async def aopened(cls, caller: Caller, key: Hashable, method: str, path: str, host: str) -> Exchange:
        operation = operation_of(method, path)
        await aknock(caller, key, operation, caller.policy.deadline or math.inf)
        return cls(caller, key, operation, host)

    def left(self) -> float:
        """Seconds until the deadline of the whole exchange."""
        return self._deadline - self._caller.clock.monotonic()

    async def within(self, made: Awaitable[R]) -> R:
        """What *made* gives, if it does before the deadline."""
        return await within(self.left(), made)

    def failed(self, error: BaseException) -> None:
        try:
            self._end(verdict(self._caller, self.call, error), error)
        finally:
            self._broken_off()

    async def afailed(self, error: BaseException) -> None:
        try:
            self._end(await averdict(self._caller, self.call, error, self.left()), error)
        finally:
            self._broken_off()

    def answered(self, seen: Evidence) -> None:
        """Settles an answer that is no good; a good one is settled by how its body ends."""
        try:
            self._weigh(seen, None if seen.status in _REDIRECTS else verdict(self._caller, self.call, seen))
        except BaseException:
            self._broken_off()
            raise

    async def aanswered(self, seen: Evidence) -> None:
        try:
            good = seen.status in _REDIRECTS
            self._weigh(seen, None if good else await averdict(self._caller, self.call, seen, self.left()))
        except BaseException:
            self._broken_off()
            raise

    def finished(self) -> None:
        """The body came to its end, or nobody wanted more of it."""
        self._end(None, None)

    def _weigh(self, seen: Evidence, fault: Fault | None) -> None:
        if fault is not None:
            mark(seen.response, fault)
            self._end(fault, seen)

    def _end(self, fault: Fault | None, what: Any) -> None:
        if self._settled:
            return
        self._settled = True
        if fault is None:
            self._caller.succeed(self.call)
            return
        if isinstance(what, Exception):
            mark(what, fault)
        self._caller.record(self.call, fault, own=self._caller.settle(self.call, fault, what))

    def _broken_off(self) -> None:
        """The probe of a doubtful verdict did not come back."""
        self._end(CANCELLED, None)
