"""One HTTP exchange behind a target: admitted, then settled once, by its status or by how its body ended."""

from __future__ import annotations

import re
from collections.abc import Hashable

from tidegate.core.evidence import Evidence
from tidegate.core.fault import Fault
from tidegate.runtime.caller import Admission, Caller
from tidegate.runtime.calling import mark

# Parts of a path that name one thing, not a kind of call: numbers, UUIDs, hashes, long ids.
_ID = re.compile(r"(?<=/)(?:[0-9]+|[0-9a-fA-F-]{16,}|[A-Za-z0-9_-]{20,})(?=/|$)", re.ASCII)


def operation_of(method: str, path: str) -> str:
    """What kind of call a request is: its ids are left out, so that operations stay few."""
    return f"{method} {_ID.sub('*', path[:200])}"


class Exchange:
    """Raises Held where it may not go. Whoever makes it must say how it ended; the first word counts."""

    __slots__ = ("_call", "_caller", "_settled")

    def __init__(self, caller: Caller, key: Hashable, method: str, path: str) -> None:
        self._caller = caller
        self._call: Admission = caller.admit(key, operation_of(method, path))
        self._settled = False

    @property
    def wait(self) -> float:
        """Seconds before it may go, as the rate says."""
        return self._call.wait

    def failed(self, error: BaseException) -> None:
        fault, _ = self._caller.judge(self._call, error)
        if fault is not None and isinstance(error, Exception):
            mark(error, fault)
        self._end(fault, error)

    def answered(self, seen: Evidence) -> bool:
        """Whether the answer is good so far; one that is not is settled here."""
        fault, _ = self._caller.judge(self._call, seen)
        if fault is None:
            return True
        self._end(fault, seen)
        return False

    def finished(self) -> None:
        self._end(None, None)

    def _end(self, fault: Fault | None, what: object) -> None:
        if self._settled:
            return
        self._settled = True
        if fault is None:
            self._caller.succeed(self._call)
        else:
            self._caller.record(self._call, fault, own=self._caller.settle(self._call, fault, what))
