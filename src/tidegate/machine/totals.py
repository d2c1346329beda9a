"""How many calls a breaker has seen in all, by result. These numbers only grow."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tidegate.machine.epoch import Epoch

# A call may have read its epoch and not yet entered it when the epoch ends, so the last few are kept in any case;
# and no more than so many for calls that never settle.
_ALWAYS_KEPT = 8
_MOST_KEPT = 72


class Totals:
    """Kept beside the counts of the interval; whoever owns it holds the breaker's lock, but to reject."""

    __slots__ = ("_retired", "failures", "reject", "rejected", "successes")

    def __init__(self) -> None:
        self.successes = self.failures = 0  # of half-open calls, and of epochs that are over
        self.rejected = Epoch(math.inf)
        self.reject = self.rejected.admit
        self._retired: list[tuple[Epoch, int, int]] = []

    def retire(self, epoch: Epoch) -> None:
        """The epoch is over; results of its calls that are still out will be found in it."""
        self._retired.append((epoch, 0, 0))
        self._fold()

    def results(self, live: Iterable[Epoch]) -> dict[str, int]:
        """Success, failure and rejected; *live* are the epochs that are not over."""
        self._fold()
        good = bad = 0
        for epoch in live:
            good += epoch.successes
            bad += epoch.failures
        return {"success": self.successes + good, "failure": self.failures + bad, "rejected": self.rejected.requests}

    def _fold(self) -> None:
        kept = []
        fresh = len(self._retired) - _ALWAYS_KEPT
        for at, (epoch, good, bad) in enumerate(self._retired):
            now_good, now_bad = epoch.successes, epoch.failures
            self.successes += now_good - good
            self.failures += now_bad - bad
            if at >= fresh or epoch.outstanding > 0:
                kept.append((epoch, now_good, now_bad))
        self._retired = kept[-_MOST_KEPT:]
