"""Running totals of breakers by name, read when somebody scrapes."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakSet, WeakValueDictionary

if TYPE_CHECKING:
    from tidegate.machine.breaker import Breaker

_lock = threading.Lock()
_ledgers: WeakValueDictionary[str, Ledger] = WeakValueDictionary()


class Ledger:
    """The totals of all breakers of one name; it lives as long as one of them does."""

    __slots__ = ("__weakref__", "breakers", "name", "results", "transitions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.breakers: WeakSet[Breaker] = WeakSet()
        self.results: Counter[str] = Counter()  # of breakers that are gone: a counter never goes back
        self.transitions: Counter[tuple[str, str]] = Counter()

    def absorb(self, results: dict[str, int]) -> None:
        with _lock:
            self.results.update(results)

    def moved(self, old: str, new: str) -> None:
        with _lock:
            self.transitions[old, new] += 1

    def totals(self) -> dict[str, int]:
        found = Counter(self.results)
        for breaker in list(self.breakers):
            found.update(breaker.totals)
        return dict(found)


def ledger_of(name: str) -> Ledger:
    with _lock:
        found = _ledgers.get(name)
        if found is None:
            found = _ledgers[name] = Ledger(name)
        return found


def ledgers() -> list[Ledger]:
    """Every ledger with a living breaker, by name."""
    with _lock:
        return sorted(_ledgers.values(), key=lambda ledger: ledger.name)
