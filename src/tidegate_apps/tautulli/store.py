"""Stores plays in batches with their totals, and reads how current they are.

Preparing a batch (rows, JSON, totals) is slow, and only one Python thread runs at a time. It is done per page, while
Tautulli builds the next page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Self, TypeVar

from pydantic_core import to_json

from tidegate.apps import DbTx
from tidegate_apps.tautulli.models import HistoryPlay, PlayHistory
from tidegate_apps.tautulli.settings import TautulliSettings, next_time

Row = tuple[Any, ...]  # in the order of the columns
Counted = tuple[int, int, str, str, str]  # start, duration, user, title, platform
Sum = list[int]  # plays and seconds
Names = tuple[dict[str, Sum], ...]  # one per kind

KINDS = ("person", "show", "platform")
QUARTER, HOUR, DAY = 900, 3600, 86400
STARTED = HistoryPlay._fields.index("started")  # column number
_COLUMNS = HistoryPlay._fields.index("watched_status") + 1
counted = itemgetter(STARTED, 4, 7, 13, 8)  # what a row counts for
K = TypeVar("K")


class PlayBatch:
    """Plays in the order of arrival. They are stored only as JSON, which needs the least memory."""

    __slots__ = ("_pieces", "ids", "started", "sums", "twice")

    def __init__(self) -> None:
        self.ids = set[int]()
        self.started = 0  # the latest start
        self.sums = PlayTotals()
        self.twice = False  # a row was on two pages, so the totals are too high
        self._pieces: list[str] = []

    def take(self, plays: Sequence[HistoryPlay]) -> None:
        """Add one page."""
        come: dict[int, Row] = {play.row_id: play[:_COLUMNS] for play in plays}
        if come:
            self.twice = self.twice or not self.ids.isdisjoint(come)
            self.ids.update(come)
            self.started = max(self.started, *(row[STARTED] for row in come.values()))
            self.sums.add(1, map(counted, come.values()))
            self._pieces.append(table(come)[1:-1])

    def table(self) -> str:
        """Return all rows as one JSON document."""
        return f"{{{','.join(self._pieces)}}}"

    def rows(self) -> dict[int, Row]:
        """Return rows by id. The later one of duplicates counts."""
        return {int(row_id): tuple(row) for row_id, row in json.loads(self.table()).items()}

    def __len__(self) -> int:
        return len(self.ids)


class PlayTotals:
    """Plays and seconds by quarter of an hour, and by name per week and per month."""

    __slots__ = ("_days", "_times", "_weeks")

    def __init__(self) -> None:
        self._times: dict[int, Sum] = {}
        self._weeks: dict[tuple[int, int], Names] = {}  # by week and month: a week may belong to two months
        self._days: dict[int, Names] = {}  # by day; each refers to the entry of its week and month

    def add(self, sign: int, some: Iterable[Counted]) -> None:
        """Add values of `counted`, or subtract them with sign -1."""
        days = self._days
        for started, duration, person, show, platform in some:
            day, seconds = started // DAY, sign * duration
            if day not in days:
                days[day] = self._weeks.setdefault((week_of(day), month_of(started)), ({}, {}, {}))
            persons, shows, platforms = days[day]
            _count(self._times, started // QUARTER, sign, seconds)
            _count(persons, person, sign, seconds)
            _count(shows, show, sign, seconds)
            _count(platforms, platform or "unknown", sign, seconds)

    def times(self) -> Iterator[Row]:
        """Yield quarter, plays and seconds."""
        return ((quarter, *totals) for quarter, totals in self._times.items())

    def tallies(self) -> Iterator[Row]:
        """Yield kind, name, week, month, plays and seconds."""
        for (week, month), kinds in self._weeks.items():
            for kind, names in zip(KINDS, kinds, strict=True):
                for name, (plays, seconds) in names.items():
                    yield kind, name, week, month, plays, seconds


def _count(sums: dict[K, Sum], place: K, sign: int, seconds: int) -> None:
    totals = sums.get(place)
    if totals is None:
        sums[place] = [sign, seconds]
    else:
        totals[0] += sign
        totals[1] += seconds


def week_of(day: int) -> int:
    """Return the number of the week of a day since 1970. Weeks begin on Monday."""
    return (day + 3) // 7


def month_of(moment: float) -> int:
    """Return the number of months since year 0, in UTC."""
    then = datetime.fromtimestamp(moment, UTC)
    return then.year * 12 + then.month - 1


def table(rows: Mapping[int, Row]) -> str:
    """Return rows as one JSON document {"1": [...], "2": ...}.

    SQLite expands it much faster than it runs a statement per row.
    """
    return to_json(rows).decode()


# -- writing -----------------------------------------------------------------------------------------------------------
# Every play counts once, however often it is received.


@dataclass(frozen=True, slots=True)
class SyncState:
    """The progress of the sync, and the outcome of the last attempt. The fields are the columns."""

    row_id: int = 0
    started: int | None = None
    synced_at: float | None = None
    empty_at: float | None = None
    empty_believed: int = 0
    tried_at: float | None = None
    outcome: str | None = None
    code: str | None = None
    message: str | None = None
    breaker_json: str | None = None

    @property
    def breaker(self) -> Mapping[str, Any]:
        """Return the breaker state after that attempt; empty before the first."""
        return dict(json.loads(self.breaker_json)) if self.breaker_json else {}


@dataclass(frozen=True, slots=True)
class Stored:
    """What a batch added."""

    new: int = 0
    changed: int = 0


def store(tx: DbTx, batch: PlayBatch) -> Stored:
    """Write plays in the order of their start, and advance the watermark."""
    watermark = tx.scalar_or_none(int, "lock_state") or 0
    if not batch:
        return Stored()
    # No row above the watermark was stored before, so a first sync does not look for duplicates.
    asked = [{"row_id": row_id} for row_id in batch.ids if row_id <= watermark]
    known = {row_id: (row_id, *columns) for row_id, *columns in tx.many("known", asked)}
    new, changed = len(batch), 0
    if not known and not batch.twice:
        tx.all("put", rows=batch.table())
        _add(tx, batch.sums)
    else:
        rows = batch.rows().items()
        come = {row_id: row for row_id, row in rows if known.get(row_id) != row}
        gone = [counted(known[row_id]) for row_id in come if row_id in known]
        new, changed = len(come) - len(gone), len(gone)
        if come:
            sums = PlayTotals()
            sums.add(1, map(counted, come.values()))
            sums.add(-1, gone)
            tx.all("put", rows=table(come))
            _add(tx, sums)
    tx.all("seen", row_id=max(batch.ids), started=batch.started)
    return Stored(new, changed)


def _add(tx: DbTx, sums: PlayTotals) -> None:
    times = table(dict(enumerate(sums.times())))
    tx.all("add_times", rows=times)
    tx.all("add_clock", rows=times)
    tx.all("add_tallies", rows=table(dict(enumerate(sums.tallies()))))


# -- buffer ------------------------------------------------------------------------------------------------------------
# Batches are written while the next pages are fetched, so a long sync takes only as long as the fetching.

Write = Callable[[PlayBatch], Stored]

_MAX_BUFFER_SECONDS = 5.0  # seconds that plays wait for more, if Tautulli is slow


class PlayBuffer:
    """Passes plays to *write* in order, in batches of *limit* rows or more.

    Leaving the block stores everything that was added before. Errors of *write* are raised by the next call.
    """

    def __init__(self, write: Write, limit: int, now: Callable[[], float]) -> None:
        self._write, self._limit, self._now = write, limit, now
        self._lot, self._held = PlayBatch(), 0  # the batch, and its number of rows including those being prepared
        self._since = now()
        self._ready: list[Future[None]] = []  # pages of the batch that are being prepared
        self._threads = ExitStack()
        self._readying: ThreadPoolExecutor | None = None  # a short sync needs no threads
        self._storing: ThreadPoolExecutor | None = None
        self._under_way: Future[Stored] | None = None
        self.stored = Stored()
        self.plays = 0  # number of plays on the pages

    def add(self, page: PlayHistory) -> None:
        """Add a page. Blocks while two batches are being written, to limit memory."""
        if not self._held:
            self._since = self._now()
        self._held += page.rows
        if self._readying is None:
            self._take(self._lot, page)
        else:
            self._ready.append(self._readying.submit(self._take, self._lot, page))
        if self._held >= self._limit or (self._held and self._now() - self._since >= _MAX_BUFFER_SECONDS):
            self._settle()
            if self._storing is None:
                self._readying = self._threads.enter_context(ThreadPoolExecutor(1, "tautulli-ready"))
                self._storing = self._threads.enter_context(ThreadPoolExecutor(1, "tautulli-store"))
            self._under_way = self._storing.submit(self._written, *self._taken())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._threads:
            self._settle()
            if self._held:
                self._count(self._written(*self._taken()))

    def _take(self, batch: PlayBatch, page: PlayHistory) -> None:
        self.plays += len(page.plays)
        batch.take(page.plays)

    def _settle(self) -> None:
        """Wait for the batch that is being written. After a failure nothing more is stored: no row may be skipped."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            try:
                self._count(under_way.result())
            except BaseException:
                self._taken()
                raise

    def _taken(self) -> tuple[PlayBatch, list[Future[None]]]:
        taken = self._lot, self._ready
        self._lot, self._held, self._ready = PlayBatch(), 0, []
        return taken

    def _written(self, batch: PlayBatch, ready: Sequence[Future[None]]) -> Stored:
        for page in ready:
            page.result()
        return self._write(batch)

    def _count(self, found: Stored) -> None:
        self.stored = Stored(self.stored.new + found.new, self.stored.changed + found.changed)


# -- freshness ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Freshness:
    """How current the stored plays are. *stale_since* is None while they are up to date."""

    state: SyncState
    breaker: str  # the current state: "closed", "open" or "half-open"
    next_trial: float | None  # when an open breaker allows a probe
    stale_since: float | None


def freshness(tx: DbTx, settings: TautulliSettings, now: float) -> Freshness:
    """Return the freshness. Stale: the last attempt was incomplete, or two due syncs since then were not run."""
    state = tx.first(SyncState, "state") or SyncState()
    said, until = state.breaker.get("state", "closed"), state.breaker.get("until")
    # An open breaker gets no calls, so the recorded state does not show that its delay is over.
    now_it_is = "half-open" if said == "open" and until is not None and until <= now else said
    late = state.synced_at is not None and now > next_time(settings, state.synced_at, 2)
    stale = state.outcome != "synced" or now_it_is != "closed" or late
    return Freshness(state, now_it_is, until if said == "open" else None, state.synced_at if stale else None)
