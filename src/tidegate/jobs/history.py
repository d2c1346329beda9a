"""History of queues and targets: rollups and the charts made from them."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

from tidegate.jobs import settle
from tidegate.jobs.settle import BUCKETS
from tidegate.store.base import Tx, now_of
from tidegate.targets.table import RawTarget

# -- rollups ---------------------------------------------------------------------------------------------------------
# The counters of each queue and breaker are stored every five minutes, so a job costs nothing extra. After a day only
# full hours are kept.

SLOT = 300
HOUR = 3600
FINE_RETENTION = 25 * HOUR
RETENTION = 8 * 24 * HOUR
QUEUE, TARGET = "queue", "target"
MAX_NAMES = 200  # queues, and as many targets
Figured = dict[str, dict[str, Any]]  # by name

NOTHING: Mapping[str, Mapping[str, Any]] = {
    QUEUE: {"depth": 0, "oldest": 0.0, "gave_up": 0, "bad": 0, "took": [0] * (len(settle.BUCKETS) + 1)},
    TARGET: {"calls": [0, 0, 0]},
}
_LOOKED = ("all", "")
_QUEUED = ("blocked", "waiting", "ready")


@dataclass(frozen=True, slots=True)
class Rollup:
    """The counters of one queue or target at the end of a slot."""

    at: int
    figures: Mapping[str, Any]


def slot_of(now: float) -> int:
    """The end of the last complete slot."""
    return math.floor(now / SLOT) * SLOT


def take(tx: Tx, now: float) -> int:
    """Stores the rollups of the slot that has just ended, unless another worker has. Returns the slot."""
    at = slot_of(now)
    if not looks_since(tx, at):
        found = {_LOOKED: {}, **_named(QUEUE, _queues(tx, now)), **_named(TARGET, _targets(tx))}
        tx.query_many(
            "rollups_put",
            [
                {"scope": scope, "name": name, "figures": json.dumps(figures)}
                for (scope, name), figures in found.items()
            ],
            {"at": at},
        )
    return at


def _named(scope: str, found: Figured) -> dict[tuple[str, str], dict[str, Any]]:
    return {(scope, name): figures for name, figures in found.items()}


def looks_since(tx: Tx, since: float) -> list[int]:
    """The slots since then that have rollups. A name without a rollup in such a slot had no counters."""
    return [rollup.at for rollup in read(tx, *_LOOKED, since)]


def at_this_moment(tx: Tx, scope: str, name: str, now: float) -> Mapping[str, Any] | None:
    """The current counters of a queue or target; None when there are none yet."""
    return (_queues(tx, now, name) if scope == QUEUE else _targets(tx, name)).get(name)


def read(tx: Tx, scope: str, name: str, since: float) -> list[Rollup]:
    rows = tx.query("rollups", {"scope": scope, "name": name, "since": math.floor(since)})
    return [Rollup(int(at), json.loads(figures)) for at, figures in rows]


def hours(tx: Tx, scope: str, names: Sequence[str], since: float) -> dict[str, dict[int, Mapping[str, Any]]]:
    """The counters of several queues or targets at each full hour since then, by name and hour."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {name: {} for name in names}
    given = [{"name": name} for name in found]
    for name, at, figures in tx.query_many("rollups_hours", given, {"scope": scope, "since": math.floor(since)}):
        found[name][int(at)] = json.loads(figures)
    return found


def all_of(tx: Tx, scope: str, since: float, step: int) -> dict[str, dict[int, Rollup]]:
    """The counters of all queues or targets since then at the ends of slots of *step* seconds, by name and time."""
    found: dict[str, dict[int, Rollup]] = {}
    for name, at, figures in tx.query("rollups_all", {"scope": scope, "since": math.floor(since), "step": step}):
        found.setdefault(name, {})[int(at)] = Rollup(int(at), json.loads(figures))
    return found


def now_of_queues(tx: Tx, now: float) -> Figured:
    """The current counters of all queues."""
    return _queues(tx, now)


def now_of_targets(tx: Tx) -> Figured:
    """The current counters of all targets."""
    return _targets(tx)


def prune(tx: Tx, older_than: Callable[[float], float], limit: int) -> int:
    """Removes a batch of rollups: those older than a day except full hours, and all those past their retention."""
    ends = {"fine_before": math.floor(older_than(FINE_RETENTION)), "hours_before": math.floor(older_than(RETENTION))}
    return len(tx.query("rollups_prune", {**ends, "n": limit}))


def _queues(tx: Tx, now: float, only: str | None = None) -> Figured:
    by_queue: dict[str, dict[str, int]] = {}
    for (queue, what), n in settle.read(tx).items():
        if only in {None, queue}:
            by_queue.setdefault(queue, {})[what] = n
    return {name: _queue(tx, name, by_queue[name], now) for name in sorted(by_queue)[:MAX_NAMES]}


def _queue(tx: Tx, name: str, tally: Mapping[str, int], now: float) -> dict[str, Any]:
    oldest = tx.scalar_or_none(float, "oldest_ready", {"queue": name}) if tally.get("ready", 0) > 0 else None
    return {
        "depth": max(0, sum(tally.get(stage, 0) for stage in _QUEUED)),
        "oldest": 0.0 if oldest is None else round(max(0.0, now - oldest), 1),
        "gave_up": sum(n for what, n in tally.items() if what.startswith(settle.FAILED)),
        "bad": tally.get(settle.BAD, 0),
        "took": [tally.get(f"{settle.TOOK}{n}", 0) for n in range(len(settle.BUCKETS) + 1)],
    }


def _targets(tx: Tx, only: str | None = None) -> Figured:
    rows = tx.query_as(RawTarget, "targets") if only is None else tx.query_as(RawTarget, "target", {"name": only})
    totals = {row.name: row.parsed().breaker.totals for row in rows[:MAX_NAMES]}
    return {name: {"calls": list(calls)} for name, calls in totals.items() if any(calls)}


# -- charts ----------------------------------------------------------------------------------------------------------

# Length and slot of each span, in seconds.
SPANS: Mapping[str, tuple[int, int]] = {
    "3h": (3 * HOUR, SLOT),
    "24h": (24 * HOUR, 3 * SLOT),
    "7d": (7 * 24 * HOUR, HOUR),
}
BEATS = 24  # hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One slot of a queue. A missing slot means that no worker ran."""

    at: int  # its end
    attempts: int
    bad: int  # of these
    gave_up: int
    p95: float | None  # duration of an attempt in seconds; None when there was none
    depth: int  # at the end of the slot
    oldest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCounts:
    """One slot of a target."""

    at: int
    good: int
    bad: int
    rejected: int


P = TypeVar("P", Point, CallCounts)


@dataclass(frozen=True, kw_only=True)  # no slots: on Python 3.11 they break generic classes
class History(Generic[P]):
    """The slots of one queue or target, oldest first. The last one is incomplete."""

    start: int
    end: int
    step: int
    points: Sequence[P]

    def as_json(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "end": self.end,
            "step": self.step,
            "points": [asdict(point) for point in self.points],
        }


def of_queue(tx: Tx, name: str, span: str = "24h") -> History[Point]:
    """The history of one queue. Raises ValueError for a span that is not in `SPANS`."""
    return _history(tx, QUEUE, name, span, _point)


def of_queues(tx: Tx, span: str = "24h") -> tuple[History[Point], dict[str, History[Point]]]:
    """The history of all queues together, and of each by name."""
    now, start, step = _looked_at(tx, span)
    known = all_of(tx, QUEUE, start, step)
    standing = now_of_queues(tx, now)
    every = looks_since(tx, start)
    looks = [at for at in every if at % step == 0]
    first = _first_of_the_last(every, now, step)
    if first is not None and first % step:  # the rollups started in the middle of a slot
        looks = sorted([*looks, first])
        for name, rows in all_of(tx, QUEUE, first, 1).items():
            known.setdefault(name, {}).update({at: row for at, row in rows.items() if at == first})
    each = {
        name: _points(known.get(name, {}), standing.get(name), looks, (now, start, step), QUEUE, _point)
        for name in sorted({*known, *standing})
    }
    together = {at: _summed([rows[at].figures for rows in known.values() if at in rows]) for at in looks}
    rows = {at: Rollup(at, figures) for at, figures in together.items()}
    summed = _summed(list(standing.values())) if standing else None
    return _points(rows, summed, looks, (now, start, step), QUEUE, _point), each


def _first_of_the_last(looks: Sequence[int], now: float, step: int) -> int | None:
    """The first rollup in the current slot, or else in the one before it; None when there is none."""
    begun = slot_of(now) // step * step
    return next((at for since in (begun, begun - step) for at in looks if at >= since), None)


def _summed(figures: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The sum of the counters of several queues."""
    if not figures:
        return NOTHING[QUEUE]
    found: dict[str, Any] = {name: sum(figure[name] for figure in figures) for name in ("depth", "gave_up", "bad")}
    found["oldest"] = max(figure["oldest"] for figure in figures)
    found["took"] = [sum(column) for column in zip(*(figure["took"] for figure in figures), strict=True)]
    return found


def of_target(tx: Tx, name: str, span: str = "24h") -> History[CallCounts]:
    return _history(tx, TARGET, name, span, _calls)


def beats(tx: Tx, names: Sequence[str]) -> dict[str, list[CallCounts | None]]:
    """The last 24 hours of several targets, hour by hour, oldest first; None for an hour without rollups.

    It includes only targets with a breaker that were called in that time.
    """
    now = now_of(tx)
    last = math.floor(now / HOUR) * HOUR  # the start of the current hour
    ends = [last + HOUR * (n - BEATS + 1) for n in range(BEATS + 1)]
    looked = set(looks_since(tx, ends[0]))
    nothing, standing = NOTHING[TARGET], now_of_targets(tx)
    found: dict[str, list[CallCounts | None]] = {}
    for name, rows in hours(tx, TARGET, names, ends[0]).items():
        known = {at: rows.get(at, nothing) for at in ends[:-1] if at in looked}
        if name in standing:
            known[ends[-1]] = standing[name]
        each = [
            _calls(Rollup(old, known[old]), Rollup(new, known[new]), new) if old in known and new in known else None
            for old, new in pairwise(ends)
        ]
        if any(beat is not None and beat.good + beat.bad + beat.rejected for beat in each):
            found[name] = each
    return found


def _history(tx: Tx, scope: str, name: str, span: str, made: Callable[[Rollup, Rollup, int], P]) -> History[P]:
    now, start, step = _looked_at(tx, span)
    known = {rollup.at: rollup for rollup in read(tx, scope, name, start)}
    figures = at_this_moment(tx, scope, name, now)
    return _points(known, figures, looks_since(tx, start), (now, start, step), scope, made)


def _looked_at(tx: Tx, span: str) -> tuple[float, int, int]:
    """The current time, the start of the span, and the length of its slots."""
    if span not in SPANS:
        raise ValueError(f"span: {span!r} is not allowed; give one of {', '.join(SPANS)}")
    back, step = SPANS[span]
    now = now_of(tx)
    return now, slot_of(now) // step * step + step - back, step


def _points(
    known: Mapping[int, Rollup],
    figures: Mapping[str, Any] | None,
    looks: Sequence[int],
    when: tuple[float, int, int],
    scope: str,
    made: Callable[[Rollup, Rollup, int], P],
) -> History[P]:
    """The slots between rollups, and the current slot, which ends in the current *figures*."""
    now, start, step = when
    begun = slot_of(now) // step * step  # the start of the current slot
    rows = [known.get(at) or Rollup(at, NOTHING[scope]) for at in looks]
    whole = [row for row in rows if row.at % step == 0]
    points = [made(old, new, new.at) for old, new in pairwise(whole) if new.at - old.at == step]
    first = _first_of_the_last(looks, now, step)
    if first is not None and figures is not None:
        # The current slot has no rollup at its end yet, nor may one that has just ended.
        end = begun + step if first >= begun else begun
        points.append(made(next(row for row in rows if row.at == first), Rollup(end, figures), end))
    return History(start=start, end=begun + step, step=step, points=points)


def _point(old: Rollup, new: Rollup, at: int) -> Point:
    took = [_grown(before, after) for before, after in zip(old.figures["took"], new.figures["took"], strict=True)]
    return Point(
        at=at,
        attempts=sum(took),
        bad=_grown(old.figures["bad"], new.figures["bad"]),
        gave_up=_grown(old.figures["gave_up"], new.figures["gave_up"]),
        p95=_quantile(took, 0.95),
        depth=new.figures["depth"],
        oldest=new.figures["oldest"],
    )


def _calls(old: Rollup, new: Rollup, at: int) -> CallCounts:
    good, bad, rejected = (_grown(*pair) for pair in zip(old.figures["calls"], new.figures["calls"], strict=True))
    return CallCounts(at=at, good=good, bad=bad, rejected=rejected)


def _grown(before: int, after: int) -> int:
    """The increase of a counter. After a restore from a backup it may be lower than before."""
    return max(0, after - before)


def _quantile(took: Sequence[int], q: float) -> float | None:
    """The upper bound of the bucket with the quantile; for the last bucket, its lower bound."""
    sums = list(accumulate(took))
    if not sums[-1]:
        return None
    return BUCKETS[min(bisect_left(sums, q * sums[-1]), len(BUCKETS) - 1)]
