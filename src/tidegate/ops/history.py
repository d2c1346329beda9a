"""How a queue or a target did over the last day or week, from what was put down meanwhile."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

from tidegate.store import rollups
from tidegate.store.now import now_of
from tidegate.store.rollups import HOUR, SLOT, Rollup
from tidegate.store.tallies import BUCKETS
from tidegate.store.tx import Tx

# How far back, in slots of how many seconds.
SPANS: Mapping[str, tuple[int, int]] = {
    "3h": (3 * HOUR, SLOT), "24h": (24 * HOUR, 3 * SLOT), "7d": (7 * 24 * HOUR, HOUR),
}  # fmt: skip
BEATS = 24  # hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One slot of a queue. Nobody put anything down for a slot that is missing: nothing ran then."""

    at: int  # its end
    attempts: int
    bad: int  # of these
    gave_up: int
    p95: float | None  # seconds that an attempt took; None when there was none
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


@dataclass(frozen=True, kw_only=True)  # no slots: it is generic
class History(Generic[P]):
    """The slots of one queue or target, the oldest first; the last one is not over yet."""

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
    """ValueError when the span is none of the table's."""
    return _history(tx, rollups.QUEUE, name, span, _point)


def of_queues(tx: Tx, span: str = "24h") -> tuple[History[Point], dict[str, History[Point]]]:
    """All queues together, and each by its name."""
    now, start, step = _looked_at(tx, span)
    known = rollups.all_of(tx, rollups.QUEUE, start, step)
    standing = rollups.now_of_queues(tx, now)
    every = rollups.looks(tx, start)
    looks = [at for at in every if at % step == 0]
    first = _first_of_the_last(every, now, step)
    if first is not None and first % step:  # it was begun in the midst of a slot of this length
        looks = sorted([*looks, first])
        for name, rows in rollups.all_of(tx, rollups.QUEUE, first, 1).items():
            known.setdefault(name, {}).update({at: row for at, row in rows.items() if at == first})
    each = {
        name: _points(known.get(name, {}), standing.get(name), looks, (now, start, step), rollups.QUEUE, _point)
        for name in sorted({*known, *standing})
    }
    together = {at: _summed([rows[at].figures for rows in known.values() if at in rows]) for at in looks}
    rows = {at: Rollup(at, figures) for at, figures in together.items()}
    summed = _summed(list(standing.values())) if standing else None
    return _points(rows, summed, looks, (now, start, step), rollups.QUEUE, _point), each


def _first_of_the_last(looks: Sequence[int], now: float, step: int) -> int | None:
    """When numbers were first put down in the slot that runs, or in the one before it; None when they were not."""
    begun = rollups.slot_of(now) // step * step
    return next((at for since in (begun, begun - step) for at in looks if at >= since), None)


def _summed(figures: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The numbers of several queues as if they were one."""
    if not figures:
        return rollups.NOTHING[rollups.QUEUE]
    found: dict[str, Any] = {name: sum(figure[name] for figure in figures) for name in ("depth", "gave_up", "bad")}
    found["oldest"] = max(figure["oldest"] for figure in figures)
    found["took"] = [sum(column) for column in zip(*(figure["took"] for figure in figures), strict=True)]
    return found


def of_target(tx: Tx, name: str, span: str = "24h") -> History[CallCounts]:
    return _history(tx, rollups.TARGET, name, span, _calls)


def beats(tx: Tx, names: Sequence[str]) -> dict[str, list[CallCounts | None]]:
    """The last 24 hours of several targets, hour by hour, the oldest first; None where nobody put numbers down.

    Only of those that were called in that time, as far as a breaker stands before them.
    """
    now = now_of(tx)
    last = math.floor(now / HOUR) * HOUR  # the hour that is not over yet
    ends = [last + HOUR * (n - BEATS + 1) for n in range(BEATS + 1)]
    looked = set(rollups.looks(tx, ends[0]))
    nothing, standing = rollups.NOTHING[rollups.TARGET], rollups.now_of_targets(tx)
    found: dict[str, list[CallCounts | None]] = {}
    for name, rows in rollups.hours(tx, rollups.TARGET, names, ends[0]).items():
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
    known = {each.at: each for each in rollups.read(tx, scope, name, start)}
    figures = rollups.at_this_moment(tx, scope, name, now)
    return _points(known, figures, rollups.looks(tx, start), (now, start, step), scope, made)


def _looked_at(tx: Tx, span: str) -> tuple[float, int, int]:
    """Now, when the span begins, and the length of its slots."""
    if span not in SPANS:
        raise ValueError(f"span: {span!r} is not allowed; give one of {', '.join(SPANS)}")
    back, step = SPANS[span]
    now = now_of(tx)
    return now, rollups.slot_of(now) // step * step + step - back, step


def _points(
    known: Mapping[int, Rollup],
    figures: Mapping[str, Any] | None,
    looks: Sequence[int],
    when: tuple[float, int, int],
    scope: str,
    made: Callable[[Rollup, Rollup, int], P],
) -> History[P]:
    """The slots between what was put down, and the one that runs, whose *figures* are those of this moment."""
    now, start, step = when
    begun = rollups.slot_of(now) // step * step  # the slot that is not over yet
    rows = [known.get(at) or Rollup(at, rollups.NOTHING[scope]) for at in looks]
    whole = [row for row in rows if row.at % step == 0]
    points = [made(old, new, new.at) for old, new in pairwise(whole) if new.at - old.at == step]
    first = _first_of_the_last(looks, now, step)
    if first is not None and figures is not None:
        # Of the slot that runs, or of one that ended a moment ago, nothing is put down.
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
    good, bad, rejected = (_grown(*each) for each in zip(old.figures["calls"], new.figures["calls"], strict=True))
    return CallCounts(at=at, good=good, bad=bad, rejected=rejected)


def _grown(before: int, after: int) -> int:
    """What was added; after a restore from a backup the count may be lower than it was."""
    return max(0, after - before)


def _quantile(took: Sequence[int], q: float) -> float | None:
    """The bound of the bucket that the quantile lies in; of the last one, its lower bound."""
    sums = list(accumulate(took))
    if not sums[-1]:
        return None
    return BUCKETS[min(bisect_left(sums, q * sums[-1]), len(BUCKETS) - 1)]
