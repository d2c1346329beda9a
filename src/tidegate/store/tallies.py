"""How many jobs there are, without counting them: every change appends its difference, the leader adds them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidegate.store.tx import Tx


def add(tx: Tx, changes: Counter[tuple[str, str]]) -> None:
    """Differences by (queue, stage)."""
    rows = [{"queue": queue, "what": stage, "delta": delta} for (queue, stage), delta in changes.items() if delta]
    if rows:
        tx.many("tally", rows)


def moved(tx: Tx, moves: Mapping[tuple[str, str, str], int]) -> None:
    """So many jobs of (queue, from this stage, to that one)."""
    changes: Counter[tuple[str, str]] = Counter()
    for (queue, old, new), n in moves.items():
        changes[queue, old] -= n
        changes[queue, new] += n
    add(tx, changes)


def failed(tx: Tx, codes: Counter[tuple[str, str]]) -> None:
    """Failures by (queue, code), which only grow."""
    add(tx, Counter({(queue, f"failed_total:{code}"): n for (queue, code), n in codes.items()}))


def retried(tx: Tx, queue: str, times: int = 1) -> None:
    add(tx, Counter({(queue, "manual_retry_total"): times}))


def read(tx: Tx) -> dict[tuple[str, str], int]:
    return {(queue, what): int(total) for queue, what, total in tx.all("tallies")}


def fold(tx: Tx) -> int:
    """Adds up what was appended; returns how many rows it took away. Only the leader does this."""
    rows = tx.all("tally_take")
    totals: Counter[tuple[str, str]] = Counter()
    for queue, what, delta in rows:
        totals[queue, what] += int(delta)
    add(tx, totals)
    return len(rows)
