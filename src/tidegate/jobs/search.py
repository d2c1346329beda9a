"""Searches jobs: picks an index for each filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidegate.jobs import settle
from tidegate.store.base import END, Row, Tx

# What is looked for among the jobs, and the ways to find it, each by an index of its own.

FINAL = ("done", "failed", "cancelled")
LIVE = ("ready", "waiting", "blocked", "running")
QUEUED = ("ready", "waiting", "blocked")

NEVER = 1e18
_MAX_LIVE = 5000  # candidates that are brought here to be looked at
_ROUGHLY = 500
_CREATED, _CODE = 7, 11  # columns


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """What is looked for, with its times turned into ids."""

    queue: str = ""
    state: str = ""
    kind: str = ""
    target: str = ""
    code: str = ""
    failure: str = ""
    above: int = 0  # ids are larger than this one
    below: int = END  # and smaller than that one
    earliest: float = 0.0  # when they were made
    latest: float = NEVER

    @property
    def params(self) -> dict[str, Any]:
        names = ("queue", "state", "kind", "target", "code", "failure", "above", "earliest", "latest")
        return {"last_code": self.code, **{name: getattr(self, name) for name in names}}

    @property
    def dated(self) -> bool:
        return self.earliest > 0 or self.latest < NEVER

    def most(self, n: int, candidates: int) -> int:
        """How many to look at for *n*; with a date some more, because ids say only roughly when."""
        return max(n, candidates) + (_ROUGHLY if self.dated else 0)

    def fits(self, row: Row) -> bool:
        """Whether a row has the code and the age."""
        return bool((not self.code or row[_CODE] == self.code) and self.earliest <= row[_CREATED] <= self.latest)

    def states(self, among: Sequence[str]) -> list[str]:
        if not self.state:
            return list(among)
        wanted = QUEUED if self.state == "queued" else (self.state,)
        return [state for state in wanted if state in among]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Rows, the newest first, that are complete down to *floor*; 0: to the end."""

    rows: list[Row]
    floor: int = 0


class SearchPlan(Protocol):
    """One way to find all that match."""

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        """The next *n* at most, of so many *candidates* where each must be looked at."""

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        """How many there are, counted no further than *n*, and the floor to which they were."""


@dataclass(frozen=True, slots=True)
class IndexScan:
    """One index in the order of ids. *narrowed*: each candidate must be looked at."""

    name: str
    search: JobQuery
    narrowed: bool

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        given = {**self.search.params, "before": before}
        floor = self._floor(tx, given, candidates)
        rows = tx.query(self.name, {**given, "floor": max(floor, self.search.above + 1), "n": n})
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        given = {**self.search.params, "before": self.search.below, "n": n}
        if not self.narrowed:
            return int(tx.query(f"{self.name}_all", given)[0][0]), 0
        floor = self._floor(tx, given, candidates)
        return int(tx.query(f"{self.name}_count", {**given, "floor": max(floor, self.search.above + 1)})[0][0]), floor

    def _floor(self, tx: Tx, given: Mapping[str, Any], candidates: int) -> int:
        rows = tx.query(f"{self.name}_floor", {**given, "last": candidates - 1}) if self.narrowed else ()
        return int(rows[0][0]) if rows else 0


@dataclass(frozen=True, slots=True)
class FinalScan:
    """Jobs that have ended, by queue, kind and state."""

    search: JobQuery
    places: Sequence[Mapping[str, str]]

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        given = {**self.search.params, "before": before}
        limit = self.search.most(n, candidates if self.search.target or self.search.code else n)
        floors = tx.query_many("list_ended_floors", self.places, {**given, "last": limit - 1})
        floor = max((int(row[-1]) for row in floors if row[-1] is not None), default=0)
        given |= {"floor": max(floor, self.search.above + 1), "n": n}
        rows: list[Row] = []
        for queue, kind, state, newest, _ in floors:
            if newest is not None and newest >= floor:
                rows += tx.query("list_ended", {**given, "queue": queue, "kind": kind, "state": state})
        rows = sorted(rows, reverse=True)[:n]
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        if self.search.target or self.search.code:
            seen = self.look(tx, self.search.below, min(n, candidates), candidates)
            return len(seen.rows), seen.floor
        given = {**self.search.params, "before": self.search.below, "n": n}
        return sum(int(row[0]) for row in tx.query_many("list_ended_counts", self.places, given)), 0


@dataclass(frozen=True, slots=True)
class LiveScan:
    """Jobs that have not ended, state by state and queue by queue, where there are any; each question is asked once."""

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
            some = [int(row[0]) for row in tx.query(f"list_{state}", given)]
            ids += some
            floor = max(floor, some[-1] if len(some) >= limit else 0)
        ids = sorted((id_ for id_ in ids if id_ >= floor), reverse=True)[:limit]
        rows = [row for row in tx.query_many("list_rows", [{"id": id_} for id_ in ids]) if self.search.fits(row)]
        floor = _reached([(id_,) for id_ in ids], limit, floor)
        rows = sorted(rows, reverse=True)[:n]
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        if self.search.code:
            seen = self.look(tx, self.search.below, _ROUGHLY, _ROUGHLY)
            return len(seen.rows), seen.floor
        if (n,) not in self.asked:
            given = {**self.search.params, "before": self.search.below, "n": n}
            self.asked[(n,)] = sum(
                int(tx.query(f"list_{state}_count", {**given, "queue": queue})[0][0]) for state, queue in self._parts()
            )
        return int(self.asked[(n,)]), 0

    def _parts(self) -> Iterator[tuple[str, str]]:
        for state in self.search.states(LIVE):
            for queue, what in sorted(self.totals):
                if what == state and self.totals[queue, what] and self.search.queue in ("", queue):
                    yield state, queue


@dataclass(frozen=True, slots=True)
class UnionPlan:
    """Parts that together hold all that match."""

    parts: Sequence[SearchPlan]

    def look(self, tx: Tx, before: int, n: int, candidates: int) -> SearchPage:
        looks = [part.look(tx, before, n, candidates) for part in self.parts]
        floor = max((look.floor for look in looks), default=0)
        rows = sorted((row for look in looks for row in look.rows if row[0] >= floor), reverse=True)[:n]
        return SearchPage(rows, _reached(rows, n, floor))

    def count(self, tx: Tx, n: int, candidates: int) -> tuple[int, int]:
        counts = [part.count(tx, n, candidates) for part in self.parts]
        return sum(seen for seen, _ in counts), max((floor for _, floor in counts), default=0)


def _reached(rows: Sequence[Row], n: int, floor: int) -> int:
    """How far down the rows are complete: to the last of them when there may be more."""
    return max(floor, int(rows[-1][0])) if len(rows) >= n else floor


# How jobs that match a filter are found: by which index, and how far to look before giving up for this time.
#
# What many jobs match is among the newest: a short look there comes first. What few match has an index: jobs that have
# ended, by queue, kind and state, by target or by code; jobs that have not, by state. Each part says how far down it
# is complete; only what lies above the highest of these floors is shown, so that no order of reading can leave a gap.

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
