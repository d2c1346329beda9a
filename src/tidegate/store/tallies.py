"""How many jobs there are, without counting them: every change appends its difference, the leader adds them up."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping

from tidegate.store.tx import Tx

# Seconds that an attempt may take to be counted there; what takes longer is counted behind the last one.
BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
# What only grows has "total" in its name, so that nobody takes it for a stage.
FAILED, TOOK, TOOK_ALL = "failed_total:", "took_total:", "took_us_total"
RETRIED, EXPIRED = "manual_retry_total", "lease_expired_total"
DELIVERY = "delivery_total:"  # of notices, by outcome and channel
BAD = "bad_total"  # attempts that were made and did not succeed
_TOOK = tuple(f"{TOOK}{n}" for n in range(len(BUCKETS) + 1))


def add(tx: Tx, changes: Counter[tuple[str, str]]) -> None:
    """Differences by (queue, stage)."""
    rows = [{"queue": queue, "what": stage, "delta": delta} for (queue, stage), delta in changes.items() if delta]
    if rows:
        tx.query_many("tally", rows)


def count_moves(tx: Tx, moves: Mapping[tuple[str, str, str], int]) -> None:
    """So many jobs of (queue, from this stage, to that one)."""
    changes: Counter[tuple[str, str]] = Counter()
    for (queue, old, new), n in moves.items():
        changes[queue, old] -= n
        changes[queue, new] += n
    add(tx, changes)


def count_failures(tx: Tx, codes: Counter[tuple[str, str]]) -> None:
    """Failures by (queue, code), which only grow."""
    add(tx, Counter({(queue, FAILED + code): n for (queue, code), n in codes.items()}))


def count_durations(spans: Iterable[tuple[str, float]]) -> Counter[tuple[str, str]]:
    """Differences for attempts by (queue, seconds): one more in a bucket each, and their sum in microseconds."""
    by_queue: dict[str, list[float]] = {}
    for queue, span in spans:
        by_queue.setdefault(queue, []).append(span if span > 0 else 0.0)
    found: Counter[tuple[str, str]] = Counter()
    for queue, each in by_queue.items():
        found[queue, TOOK_ALL] = round(sum(each) * 1_000_000)
        counts = [0] * len(_TOOK)
        for span in each:
            counts[bisect_left(BUCKETS, span)] += 1
        found.update({(queue, what): n for what, n in zip(_TOOK, counts, strict=True) if n})
    return found


def count_retries(tx: Tx, queue: str, times: int = 1) -> None:
    add(tx, Counter({(queue, RETRIED): times}))


def read(tx: Tx) -> dict[tuple[str, str], int]:
    return {(queue, what): int(total) for queue, what, total in tx.query("tallies")}


def fold_counters(tx: Tx) -> int:
    """Adds up what was appended; returns how many rows it took away. Only the leader does this."""
    rows = tx.query("tally_take")
    totals: Counter[tuple[str, str]] = Counter()
    for queue, what, delta in rows:
        totals[queue, what] += int(delta)
    add(tx, totals)
    return len(rows)
