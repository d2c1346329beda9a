"""Plays that are written together, made ready page by page: as rows, as JSON, and added up.

That takes longer than one would like, and only one thread of Python runs at a time. Done for each page as it comes, it
falls into the time in which Tautulli makes the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Self

from pydantic_core import to_json

from tidegate.apps import DbTx
from tidegate_apps.tautulli.models import HistoryPlay, PlayHistory
from tidegate_apps.tautulli.settings import TautulliSettings, next_time

Row = tuple[Any, ...]  # in the order of the columns
Sum = list[int]  # plays and seconds
Names = tuple[dict[str, Sum], ...]  # for each of the kinds

KINDS = ("person", "show", "platform")
QUARTER, HOUR, DAY = 900, 3600, 86400
STARTED = HistoryPlay._fields.index("started")  # of a row
_COLUMNS = HistoryPlay._fields.index("watched_status") + 1
counted = itemgetter(STARTED, 4, 7, 13, 8)  # of a row, what it counts for: start, duration, user, title, platform


class PlayBatch:
    """Plays in the order in which they came. They are kept as JSON alone, which takes the least memory."""

    __slots__ = ("_pieces", "ids", "started", "sums", "twice")

    def __init__(self) -> None:
        self.ids = set[int]()
        self.started = 0  # the latest beginning
        self.sums = PlayTotals()
        self.twice = False  # some came on two pages: what is added up is too much
        self._pieces: list[str] = []

    def take(self, plays: Sequence[HistoryPlay]) -> None:
        """One page more."""
        come: dict[int, Row] = {play.row_id: play[:_COLUMNS] for play in plays}
        if come:
            self.twice = self.twice or not self.ids.isdisjoint(come)
            self.ids.update(come)
            self.started = max(self.started, *(row[STARTED] for row in come.values()))
            self.sums.add(1, map(counted, come.values()))
            self._pieces.append(table(come)[1:-1])

    def table(self) -> str:
        """All rows as one piece of JSON."""
        return f"{{{','.join(self._pieces)}}}"

    def rows(self) -> dict[int, Row]:
        """By their ids; of one that came twice, the later."""
        return {int(row_id): tuple(row) for row_id, row in json.loads(self.table()).items()}

    def __len__(self) -> int:
        return len(self.ids)


class PlayTotals:
    """Plays and seconds by quarter, and by the names of a week and of a month."""

    __slots__ = ("_days", "_times", "_weeks")

    def __init__(self) -> None:
        self._times: dict[int, Sum] = {}
        self._weeks: dict[tuple[int, int], Names] = {}  # and months: a week may have days of two
        self._days: dict[int, Names] = {}  # the same; each day has those of its week and month

    def add(self, sign: int, some: Iterable[Sequence[Any]]) -> None:
        """Adds what was `counted`, or with the sign -1 takes it out."""
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
        """Quarter, plays and seconds."""
        return ((quarter, *found) for quarter, found in self._times.items())

    def tallies(self) -> Iterator[Row]:
        """Kind, name, week, month, plays and seconds."""
        for (week, month), kinds in self._weeks.items():
            for kind, names in zip(KINDS, kinds, strict=True):
                for name, (plays, seconds) in names.items():
                    yield kind, name, week, month, plays, seconds


def _count(sums: dict[Any, Sum], place: object, sign: int, seconds: int) -> None:
    found = sums.get(place)
    if found is None:
        sums[place] = [sign, seconds]
    else:
        found[0] += sign
        found[1] += seconds


def week_of(day: int) -> int:
    """The week of a day since 1970; it begins on a Monday."""
    return (day + 3) // 7


def month_of(moment: float) -> int:
    """Months since year 0, in UTC."""
    then = datetime.fromtimestamp(moment, UTC)
    return then.year * 12 + then.month - 1


def table(rows: Mapping[int, Row]) -> str:
    """One piece of JSON, {"1": [...], "2": ...}: SQLite takes it apart much quicker than it runs as many statements."""
    return to_json(rows).decode()


# Lots of plays become rows, and the numbers of charts and lists: each play counts once, however often it comes.


@dataclass(frozen=True, slots=True)
class SyncState:
    """How far the sync is, and how its last attempt went. The fields are the columns."""

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
        """The breaker as it was after that attempt; empty before the first."""
        found: Mapping[str, Any] = json.loads(self.breaker_json) if self.breaker_json else {}
        return found


@dataclass(frozen=True, slots=True)
class Stored:
    """What a page brought."""

    new: int = 0
    changed: int = 0


def state_of(row: Sequence[Any] | None) -> SyncState:
    return SyncState() if row is None else SyncState(*row)


def store(tx: DbTx, batch: PlayBatch) -> Stored:
    """Writes plays, and moves the watermark over them. They come in the order of their beginnings."""
    watermark = (tx.one("lock_state") or (0,))[0]
    if not batch:
        return Stored()
    # Nothing above the watermark was ever seen, so a first sync need not look for what is known.
    asked = [{"row_id": row_id} for row_id in batch.ids if row_id <= watermark]
    known = {row[0]: tuple(row) for row in tx.many("known", asked)}
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


# Pages are stored several at a time, and while the next ones are fetched: a long history takes as long as that.

Write = Callable[[PlayBatch], Stored]

_MAX_BUFFER_SECONDS = 5.0  # seconds that plays wait for others, where Tautulli is slow


class PlayBuffer:
    """Hands the plays of pages to *write* in the order in which they come, *most* rows or more of them at a time.

    However its block is left, what came before is stored then. What *write* raises comes out of the next call.
    """

    def __init__(self, write: Write, limit: int, now: Callable[[], float]) -> None:
        self._write, self._limit, self._now = write, limit, now
        self._lot, self._held = PlayBatch(), 0  # and how many rows it has, or is to have
        self._since = now()
        self._ready: list[Future[None]] = []  # pages of the lot that are being made ready
        self._threads = ExitStack()
        self._readying: ThreadPoolExecutor | None = None  # a short sync needs no threads
        self._storing: ThreadPoolExecutor | None = None
        self._under_way: Future[Stored] | None = None
        self.stored = Stored()
        self.plays = 0  # that were on the pages

    def add(self, page: PlayHistory) -> None:
        """Takes a page. It waits while two lots are on their way: they are held in memory."""
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
        """Waits for the lot that is under way. After one that failed nothing is stored: no row may be left out."""
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


# What is stored, as pages, answers and commands show it: how fresh it is, and how the breaker is.


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old what is stored is. *stale_since* is None while it is as new as it should be."""

    state: SyncState
    breaker: str  # "closed", "open", "half-open": as it is now
    next_trial: float | None  # when the open breaker lets a call through
    stale_since: float | None


def freshness(tx: DbTx, settings: TautulliSettings, now: float) -> Freshness:
    """Stale: the last attempt did not bring all, or two that were due since have not been made."""
    state = state_of(tx.one("state"))
    said, until = state.breaker.get("state", "closed"), state.breaker.get("until")
    # Nobody calls an open breaker, so nobody told that its time is over.
    now_it_is = "half-open" if said == "open" and until is not None and until <= now else said
    late = state.synced_at is not None and now > next_time(settings, state.synced_at, 2)
    stale = state.outcome != "synced" or now_it_is != "closed" or late
    return Freshness(state, now_it_is, until if said == "open" else None, state.synced_at if stale else None)
