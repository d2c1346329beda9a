"""The calls that reached a service: when, and whether they went well."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple


class SimulatedCall(NamedTuple):
    at: float  # seconds since the start
    ok: bool


class SimulatedCalls:
    """Calls in the order in which they were made. Kept in two flat arrays: a day of them is nothing."""

    __slots__ = ("_ok", "_times", "failures")

    def __init__(self) -> None:
        self._times = array("d")
        self._ok = bytearray()
        self.failures = 0

    def add(self, at: float, *, ok: bool) -> None:
        self._times.append(at)
        self._ok.append(ok)
        self.failures += not ok

    def first_failure(self) -> float | None:
        """When the first call failed."""
        at = self._ok.find(0)
        return None if at < 0 else self._times[at]

    def first_success(self, since: float) -> float | None:
        """When the first call from *since* on went well."""
        at = self._ok.find(1, bisect_left(self._times, since))
        return None if at < 0 else self._times[at]

    def runs(self) -> list[tuple[float, float, int, bool]]:
        """Calls in a row with the same outcome, as (first, last, how many, ok)."""
        found: list[tuple[float, float, int, bool]] = []
        start, size = 0, len(self._ok)
        while start < size:
            ok = self._ok[start]
            end = self._ok.find(1 - ok, start)
            end = size if end < 0 else end
            found.append((self._times[start], self._times[end - 1], end - start, bool(ok)))
            start = end
        return found

    def __len__(self) -> int:
        return len(self._ok)

    def __iter__(self) -> Iterator[SimulatedCall]:
        return (SimulatedCall(at, bool(ok)) for at, ok in zip(self._times, self._ok, strict=True))
