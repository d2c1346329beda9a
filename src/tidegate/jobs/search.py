"""Searches jobs: chooses the indexes for a filter and limits the scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.jobs import settle
from tidegate.jobs.reports import JobSummary
from tidegate.store.base import END, Tx

# -- plans -----------------------------------------------------------------------------------------------------------

FINAL = ("done", "failed", "cancelled")
LIVE = ("ready", "waiting", "blocked", "running")
QUEUED = ("ready", "waiting", "blocked")

NEVER = 1e18
_MAX_LIVE = 5000  # rows of live jobs that are filtered here
_ROUGHLY = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """A filter whose times are converted to id ranges."""

    queue: str = ""
    state: str = ""
    kind: str = ""
    target: str = ""
    code: str = ""
    failure: str = ""
    above: int = 0  # exclusive
    below: int = END  # exclusive
    earliest: float = 0.0  # creation time
    latest: float = NEVER

    @property
    def params(self) -> dict[str, object]:
        names = ("queue", "state", "kind", "target", "code", "failure", "above", "earliest", "latest")
        return {"last_code": self.code, **{name: getattr(self, name) for name in names}}

    @property
    def dated(self) -> bool:
        return self.earliest > 0 or self.latest < NEVER

    def most(self, n: int, candidates: int) -> int:
        """How many rows to scan for *n* results. With a date some more, as id order is only roughly time order."""
        return max(n, candidates) + (_ROUGHLY if self.dated else 0)

    def fits(self, job: JobSummary) -> bool:
        """Whether a job has the requested code and age."""
        return (not self.code or job.code == self.code) and self.earliest <= job.created_at <= self.latest

    def states(self, among: Sequence[str]) -> list[str]:
        if not self.state:
            return list(among)
        wanted = QUEUED if self.state == "queued" else (self.state,)
        return [state for state in wanted if state in among]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Rows, newest first, complete down to the id *floor*; 0 means to the end."""

    rows: list[JobSummary]
    floor: int = 0


class SearchPlan(Protocol):
    """One way to find all matching jobs."""

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        """Up to *n* next rows. If each row must be filtered, scans up to *candidates* rows."""

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        """The number of matches, counted up to *n*, and the floor of the scan."""


@dataclass(frozen=True, slots=True)
class IndexScan:
    """A scan of one index in id order. *narrowed*: each row must be filtered."""

    name: str
    search: JobQuery
    narrowed: bool

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        given = {**self.search.params, "before": before}
        floor = self._floor(tx, given, candidates)
        rows = tx.query_as(JobSummary, self.name, {**given, "floor": max(floor, self.search.above + 1), "n": n})
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        given = {**self.search.params, "before": self.search.below, "n": n}
        if not self.narrowed:
            return tx.scalar(int, f"{self.name}_all", given), 0
        floor = self._floor(tx, given, candidates)
        given["floor"] = max(floor, self.search.above + 1)
        return tx.scalar(int, f"{self.name}_count", given), floor

    def _floor(self, tx: Tx, given: Mapping[str, object], candidates: int) -> int:
        if not self.narrowed:
            return 0
        return tx.scalar_or_none(int, f"{self.name}_floor", {**given, "last": candidates - 1}) or 0


@dataclass(frozen=True, slots=True)
class FinalScan:
    """A scan of final jobs by queue, kind and state."""

    search: JobQuery
    places: Sequence[Mapping[str, str]]

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        given = {**self.search.params, "before": before}
        limit = self.search.most(n, candidates if self.search.target or self.search.code else n)
        floors = tx.query_many("list_ended_floors", self.places, {**given, "last": limit - 1})
        floor = max((last for _, _, _, _, last in floors if last is not None), default=0)
        given |= {"floor": max(floor, self.search.above + 1), "n": n}
        rows: list[JobSummary] = []
        for queue, kind, state, newest, _ in floors:
            if newest is not None and newest >= floor:
                rows += tx.query_as(JobSummary, "list_ended", {**given, "queue": queue, "kind": kind, "state": state})
        rows = sorted(rows, reverse=True)[:n]
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        if self.search.target or self.search.code:
            seen = self.look(tx, self.search.below, min(n, candidates), candidates)
            return len(seen.rows), seen.floor
        given = {**self.search.params, "before": self.search.below, "n": n}
        return sum(n for (n,) in tx.query_many("list_ended_counts", self.places, given)), 0


@dataclass(frozen=True, slots=True)
class LiveScan:
    """A scan of live jobs by state and queue, where the counters show any. Results are cached."""

    search: JobQuery
    totals: Mapping[tuple[str, str], int]
    asked: dict[tuple[int, ...], Any] = field(default_factory=dict)

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        limit = self.search.most(n, min(candidates, _MAX_LIVE) if self.search.code else n)
        if (before, n, limit) not in self.asked:
            self.asked[before, n, limit] = self._looked(tx, before, n, limit)
        found: SearchPage = self.asked[before, n, limit]
        return found

    def _looked(self, tx: Tx, before: int, n: int, limit: int) -> SearchPage:
        ids: list[int] = []
        floor = 0
        for state, queue in self._parts():
            given = {**self.search.params, "queue": queue, "before": before, "n": limit}
            some = tx.scalars(int, f"list_{state}", given)
            ids += some
            floor = max(floor, some[-1] if len(some) >= limit else 0)
        ids = sorted((id_ for id_ in ids if id_ >= floor), reverse=True)[:limit]
        jobs = tx.query_many_as(JobSummary, "list_rows", [{"id": id_} for id_ in ids])
        floor = max(floor, ids[-1]) if len(ids) >= limit else floor
        rows = sorted(filter(self.search.fits, jobs), reverse=True)[:n]
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        if self.search.code:
            seen = self.look(tx, self.search.below, _ROUGHLY, _ROUGHLY)
            return len(seen.rows), seen.floor
        if (n,) not in self.asked:
            given = {**self.search.params, "before": self.search.below, "n": n}
            self.asked[(n,)] = sum(
                tx.scalar(int, f"list_{state}_count", {**given, "queue": queue}) for state, queue in self._parts()
            )
        return int(self.asked[(n,)]), 0

    def _parts(self) -> Iterator[tuple[str, str]]:
        for state in self.search.states(LIVE):
            for queue, what in sorted(self.totals):
                if what == state and self.totals[queue, what] and self.search.queue in ("", queue):
                    yield state, queue


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """Plans that together find all matching jobs."""

    parts: Sequence[SearchPlan]

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        looks = [part.look(tx, before, n, candidates) for part in self.parts]
        floor = max((look.floor for look in looks), default=0)
        rows = sorted((row for look in looks for row in look.rows if row.id >= floor), reverse=True)[:n]
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        counts = [part.count(tx, n, candidates) for part in self.parts]
        return sum(seen for seen, _ in counts), max((floor for _, floor in counts), default=0)


def _reached(rows: Sequence[JobSummary], n: int, floor: int) -> int:
    """The floor of a result: the last row's id when there may be more rows."""
    return max(floor, rows[-1].id) if len(rows) >= n else floor


# -- choice of plans -------------------------------------------------------------------------------------------------
# Frequent matches are among the newest jobs, so a short scan of these comes first. Rare matches have an index: final
# jobs by queue, kind and state, by target or by code; live jobs by state. Each plan reports the floor down to which it
# is complete. Only rows above the highest floor are returned, so that no page has a gap.

MAX_PLACES = 1000  # pairs of queue and kind that are scanned one by one


@dataclass(frozen=True, slots=True)
class Effort:
    """How many rows a plan scans before the next plan is tried, and before the search ends."""

    short: int = 2000
    long: int = 20_000


USUAL = Effort()


@dataclass(frozen=True, slots=True)
class SearchPlans:
    """*short* is for frequent matches and ends early. *others* are for rare matches, best first."""

    short: SearchPlan
    others: Sequence[SearchPlan]
    effort: Effort = USUAL

    def found(self, tx: Tx, before: int, n: int) -> SearchPage:
        """Up to *n* next rows, by the first plan that finds them all or reaches the end."""
        tries = [(way, self.effort.short) for way in (self.short, *self.others)]
        tries += [(way, self.effort.long) for way in self.others or [self.short]]
        best = SearchPage([], before)
        for way, candidates in tries:
            tried = way.look(tx, before, n, max(candidates, n))
            if len(tried.rows) >= n or not tried.floor:
                return tried
            best = min(best, tried, key=lambda page: page.floor)
        return best

    def counted(self, tx: Tx, n: int) -> tuple[int, bool]:
        """The number of matches, and whether it is a lower bound: more than *n*, or not all rows were scanned."""
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
    """The plans for a search."""
    if search.failure:  # the most selective index
        return SearchPlans(IndexScan("list_of_failure", search, narrowed=_narrowed(search, "failure")), (), effort)
    totals = settle.read(tx)
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
    """Whether the search has other conditions than *by*."""
    return search.dated or any(
        getattr(search, name) for name in ("queue", "state", "kind", "target", "code") if name != by
    )


def _places(tx: Tx, search: JobQuery, totals: Mapping[tuple[str, str], int]) -> list[dict[str, str]] | None:
    """Each queue, kind and state with final jobs; None when there are too many to scan one by one."""
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
