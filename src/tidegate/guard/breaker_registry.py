"""Running totals of breakers by name, for metrics."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, ref

from tidegate.guard.breaker_state import BreakerMachine

if TYPE_CHECKING:
    from tidegate.guard.breaker import Breaker

_lock = threading.Lock()
_ledgers: WeakValueDictionary[str, BreakerTotals] = WeakValueDictionary()
# A new breaker with an old name continues its counts. The limit bounds memory if a program invents names.
_remembered: deque[BreakerTotals] = deque(maxlen=1000)


class BreakerTotals:
    """The totals of all breakers with one name, including deleted ones. A counter never decreases."""

    __slots__ = ("__weakref__", "_accounts", "_moves", "_results", "_sweep_at", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        # The totals own the state machines. So a breaker that is being deleted is never missing from the sum.
        self._accounts: list[tuple[ref[Breaker], BreakerMachine]] = []
        self._results: Counter[str] = Counter()  # of deleted breakers
        self._moves: Counter[tuple[str, str]] = Counter()
        self._sweep_at = 16

    def join(self, breaker: Breaker, states: BreakerMachine) -> None:
        with _lock:
            self._accounts.append((ref(breaker), states))
            if len(self._accounts) >= self._sweep_at:
                self._living()
                self._sweep_at = 2 * len(self._accounts) + 16

    def breakers(self) -> list[Breaker]:
        with _lock:
            return self._living()

    def totals(self) -> tuple[Counter[str], Counter[tuple[str, str]]]:
        """Calls by result, and transitions by (from, to)."""
        with _lock:
            living = self._living()
            results, moves = Counter(self._results), Counter(self._moves)
        for breaker in living:
            results.update(breaker.totals)
            moves.update(breaker.transitions)
        return results, moves

    def _living(self) -> list[Breaker]:
        """Returns the live breakers, and adds the counts of the deleted ones to the totals."""
        accounts, living = [], []
        for account in self._accounts:
            breaker = account[0]()
            if breaker is None:
                self._results.update(account[1].results())
                self._moves.update(account[1].transitions)
            else:
                accounts.append(account)
                living.append(breaker)
        self._accounts = accounts
        return living


def totals_for(name: str) -> BreakerTotals:
    with _lock:
        totals = _ledgers.get(name)
        if totals is None:
            totals = _ledgers[name] = BreakerTotals(name)
            _remembered.append(totals)
        return totals


def all_totals() -> list[BreakerTotals]:
    """Returns all totals, sorted by name."""
    with _lock:
        return sorted(_ledgers.values(), key=lambda ledger: ledger.name)
