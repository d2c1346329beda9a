"""What the past looked like: the numbers of each queue and breaker, put down every five minutes.

They are read off what is added up anyway, so a job costs nothing more for it. After a day only whole hours are kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.store import gate_rows, tallies
from tidegate.store.tx import Tx

SLOT = 300
HOUR = 3600
FINE_RETENTION = 25 * HOUR
RETENTION = 8 * 24 * HOUR
QUEUE, TARGET = "queue", "target"
MAX_NAMES = 200  # queues, and as many targets
Figured = dict[str, dict[str, Any]]  # by name

NOTHING: Mapping[str, Mapping[str, Any]] = {
    QUEUE: {"depth": 0, "oldest": 0.0, "gave_up": 0, "bad": 0, "took": [0] * (len(tallies.BUCKETS) + 1)},
    TARGET: {"calls": [0, 0, 0]},
}
_LOOKED = ("all", "")
_QUEUED = ("blocked", "waiting", "ready")


@dataclass(frozen=True, slots=True)
class Rollup:
    """The numbers of one queue or target at the end of a slot."""

    at: int
    figures: Mapping[str, Any]


def slot_of(now: float) -> int:
    """The end of the last whole slot."""
    return math.floor(now / SLOT) * SLOT


def take(tx: Tx, now: float) -> int:
    """Puts the numbers down under the slot that has just ended, unless somebody has; returns the slot."""
    at = slot_of(now)
    if not looks(tx, at):
        found = {_LOOKED: {}, **_named(QUEUE, _queues(tx, now)), **_named(TARGET, _targets(tx))}
        tx.query_many("rollups_put", [
            {"scope": scope, "name": name, "figures": json.dumps(figures)} for (scope, name), figures in found.items()
        ], {"at": at})  # fmt: skip
    return at


def _named(scope: str, found: Figured) -> dict[tuple[str, str], dict[str, Any]]:
    return {(scope, name): figures for name, figures in found.items()}


def looks(tx: Tx, since: float) -> list[int]:
    """The slots since then under which somebody has put numbers down. Who has none there had none."""
    return [each.at for each in read(tx, *_LOOKED, since)]


def at_this_moment(tx: Tx, scope: str, name: str, now: float) -> Mapping[str, Any] | None:
    """The numbers as they stand; None when there are none yet."""
    return (_queues(tx, now, name) if scope == QUEUE else _targets(tx, name)).get(name)


def read(tx: Tx, scope: str, name: str, since: float) -> list[Rollup]:
    rows = tx.query("rollups", {"scope": scope, "name": name, "since": math.floor(since)})
    return [Rollup(int(at), json.loads(figures)) for at, figures in rows]


def hours(tx: Tx, scope: str, names: Sequence[str], since: float) -> dict[str, dict[int, Mapping[str, Any]]]:
    """The numbers of several queues or targets at each whole hour since then, by name and hour."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {name: {} for name in names}
    given = [{"name": name} for name in found]
    for name, at, figures in tx.query_many("rollups_hours", given, {"scope": scope, "since": math.floor(since)}):
        found[name][int(at)] = json.loads(figures)
    return found


def all_of(tx: Tx, scope: str, since: float, step: int) -> dict[str, dict[int, Rollup]]:
    """The numbers of all queues or all targets since then at the ends of slots of *step*, by name and time."""
    found: dict[str, dict[int, Rollup]] = {}
    for name, at, figures in tx.query("rollups_all", {"scope": scope, "since": math.floor(since), "step": step}):
        found.setdefault(name, {})[int(at)] = Rollup(int(at), json.loads(figures))
    return found


def now_of_queues(tx: Tx, now: float) -> Figured:
    """The numbers of all queues as they stand."""
    return _queues(tx, now)


def now_of_targets(tx: Tx) -> Figured:
    """The numbers of all targets as they stand."""
    return _targets(tx)


def prune(tx: Tx, older_than: Callable[[float], float], limit: int) -> int:
    """Thins out a slice of what is older than a day, and removes what is older than a week."""
    ends = {"fine_before": math.floor(older_than(FINE_RETENTION)), "hours_before": math.floor(older_than(RETENTION))}
    return len(tx.query("rollups_prune", {**ends, "n": limit}))


def _queues(tx: Tx, now: float, only: str | None = None) -> Figured:
    by_queue: dict[str, dict[str, int]] = {}
    for (queue, what), n in tallies.read(tx).items():
        if only in {None, queue}:
            by_queue.setdefault(queue, {})[what] = n
    return {name: _queue(tx, name, by_queue[name], now) for name in sorted(by_queue)[:MAX_NAMES]}


def _queue(tx: Tx, name: str, tally: Mapping[str, int], now: float) -> dict[str, Any]:
    oldest = tx.query("oldest_ready", {"queue": name}) if tally.get("ready", 0) > 0 else []
    return {
        "depth": max(0, sum(tally.get(stage, 0) for stage in _QUEUED)),
        "oldest": round(max(0.0, now - oldest[0][0]), 1) if oldest else 0.0,
        "gave_up": sum(n for what, n in tally.items() if what.startswith(tallies.FAILED)),
        "bad": tally.get(tallies.BAD, 0),
        "took": [tally.get(f"{tallies.TOOK}{n}", 0) for n in range(len(tallies.BUCKETS) + 1)],
    }


def _targets(tx: Tx, only: str | None = None) -> Figured:
    rows = tx.query("targets")[:MAX_NAMES] if only is None else tx.query("target", {"name": only})
    found = map(gate_rows.target_of, rows)
    return {row.name: {"calls": list(row.breaker.totals)} for row in found if any(row.breaker.totals)}
