"""How jobs that match a filter are found: by which index, and how far to look before giving up for this time.

What many jobs match is among the newest: a short look there comes first. What few match has an index: jobs that have
ended, by queue, kind and state, by target or by code; jobs that have not, by state. Each part says how far down it is
complete; only what lies above the highest of these floors is shown, so that no order of reading can leave a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.ops.searching import FINAL, FinalScan, IndexScan, JobQuery, LiveScan, SearchPage, SearchPlan, UnionPlan
from tidegate.store import tallies
from tidegate.store.tx import Tx

MAX_PLACES = 1000  # pairs of queue and kind that are looked through one by one


@dataclass(frozen=True, slots=True)
class Effort:
    """How many candidates are looked at before another way is tried, and before it is enough for this time."""

    short: int = 2000
    long: int = 20_000


USUAL = Effort()


@dataclass(frozen=True, slots=True)
class SearchPlans:
    """*short* is for what many match, and gives up early; the others are for what few match, the best one first."""

    short: SearchPlan
    others: Sequence[SearchPlan]
    effort: Effort = USUAL

    def found(self, tx: Tx, before: int, n: int) -> SearchPage:
        """The next *n*, by the first way that has them or comes to the end; fewer when none does within its steps."""
        tries = [(way, self.effort.short) for way in (self.short, *self.others)]
        tries += [(way, self.effort.long) for way in self.others or [self.short]]
        best = SearchPage([], before)
        for way, candidates in tries:
            tried = way.look(tx, before, n, max(candidates, n))
            if len(tried.rows) >= n or not tried.floor:
                return tried
            best = min(best, tried, key=lambda each: each.floor)
        return best

    def counted(self, tx: Tx, n: int) -> tuple[int, bool]:
        """How many there are, and whether that is the least: more than *n*, or not all of them were looked at."""
        short, enough = self.effort.short, n + self.effort.short
        tries = [(self.short, enough), *((way, short) for way in self.others)]
        tries[2:2] = [(way, enough) for way in self.others[:1]]
        limit = 0
        for way, candidates in tries:
            seen, floor = way.count(tx, n + 1, candidates)
            if seen > n or not floor:
                return min(seen, n), seen > n
            limit = max(limit, seen)
        return limit, True


def ways(tx: Tx, search: JobQuery, effort: Effort = USUAL) -> SearchPlans:
    """The ways that make sense for a search."""
    if search.failure:  # nothing else is as narrow
        return SearchPlans(IndexScan("list_of_failure", search, narrowed=_narrowed(search, "failure")), (), effort)
    totals = tallies.read(tx)
    live = LiveScan(search, totals)
    found: list[SearchPlan] = []
    if search.code:
        found.append(IndexScan("list_of_last_code", search, narrowed=_narrowed(search, "code")))
    if search.target:
        ended = IndexScan("list_of_target", search, narrowed=_narrowed(search, "target"))
        found.append(UnionPlan([*([ended] if search.states(FINAL) else []), live]))
    if search.queue or search.kind or search.state:
        places = _places(tx, search, totals)
        if places is not None:
            found.append(UnionPlan([FinalScan(search, places), live]))
    return SearchPlans(IndexScan("list_any", search, narrowed=_narrowed(search, "")), found, effort)


def _narrowed(search: JobQuery, by: str) -> bool:
    """Whether more is asked than this one thing."""
    return search.dated or any(
        getattr(search, name) for name in ("queue", "state", "kind", "target", "code") if name != by
    )


def _places(tx: Tx, search: JobQuery, totals: Mapping[tuple[str, str], int]) -> list[dict[str, str]] | None:
    """Each queue, kind and state in which jobs may have ended; None when there are too many to look at each."""
    states = search.states(FINAL)
    if search.kind:
        queues = [search.queue] if search.queue else sorted({queue for queue, _ in totals})
        pairs = [(queue, search.kind) for queue in queues]
    elif states:
        rows = tx.query("list_places", {"queue": search.queue, "most": MAX_PLACES + 1})
        if len(rows) > MAX_PLACES:
            return None
        pairs = [(queue, kind) for queue, kind in rows]
    else:
        pairs = []
    return [
        {"queue": queue, "kind": kind, "state": state}
        for queue, kind in pairs
        for state in states
        if totals.get((queue, state))
    ]
