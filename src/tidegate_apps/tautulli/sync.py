"""One sync of the history: everything since the last sync, with one day of overlap.

Tautulli filters only by day, in its own time zone. A play gets its row when it ends, so an earlier start may appear
later. The overlap covers both.

Tautulli also reports its total number of rows. If that grew by more than the sync found, a very long play ended or old
rows were imported. Then the sync reads further back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from operator import add
from typing import TypeVar

from tidegate.apps import Db, DbTx
from tidegate_apps.tautulli.client import EmptyHistory, HistoryQuery, Tautulli, TautulliError
from tidegate_apps.tautulli.guarded_client import HistoryPages, SyncStopped, stoppable
from tidegate_apps.tautulli.models import PlayHistory
from tidegate_apps.tautulli.store import PlayBatch, PlayBuffer, Stored, SyncState, store

_log = logging.getLogger("tidegate.tautulli")

T = TypeVar("T")
Get = Callable[[HistoryQuery, HistoryQuery | None], PlayHistory]  # a query, and the one to prefetch

DOUBT = 30.0  # seconds between two checks of a history that is suddenly empty
_OVERLAP = timedelta(days=1)
_FARTHER = timedelta(days=30)


class Doubtful(Exception):
    """The history had rows and now has none. It is checked again before the sync accepts that."""


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync found."""

    new: int = 0
    changed: int = 0
    seen: int = 0
    pages: int = 0
    passed_over: int = 0  # rows that are not finished plays: running streams, or without id or time

    def and_then(self, more: Synced) -> Synced:
        return Synced(*map(add, astuple(self), astuple(more)))


@dataclass(frozen=True, slots=True)
class HistorySync:
    """*stop* ends the sync at the next page. *told* gets the number of rows read and the total."""

    db: Db
    client: Tautulli
    page: int
    now: Callable[[], float]
    stop: Callable[[], bool] = lambda: False
    told: Callable[[int, int], object] = lambda seen, filtered: None
    # Rows per transaction of a long sync. More are not faster, and other writers wait for it on SQLite.
    lot: int = 10_000
    threads: bool = (
        True  # in virtual time there are none: pages are fetched one after the other, and stops wait for them
    )

    def run(self) -> Synced:
        """Read page by page, oldest rows first, so that an interruption loses nothing that was stored."""
        state = self.db.first(SyncState, "state") or SyncState()
        synced, missing = Synced(), 0
        for after in first_days(state, self.now()):
            with PlayBuffer(self._store, self.lot, self.now) as gathering:
                read, total = self._read(state, after, gathering)
            new, changed, passed_over = gathering.stored.new, gathering.stored.changed, read.seen - gathering.plays
            synced = synced.and_then(replace(read, new=new, changed=changed, passed_over=passed_over))
            ((before, here),) = self.db.all("missing")
            missing = total - int(here)
            if before is None or missing <= before:
                break
        self.db.all("is_missing", missing=missing)
        return synced

    def asked(self, call: Callable[[], T]) -> T:
        """Return the result of a call. Raises SyncStopped on stop."""
        return stoppable(self.client, self.stop, call) if self.threads else call()

    def _read(self, state: SyncState, after: date | None, gathering: PlayBuffer) -> tuple[Synced, int]:
        """Read all rows from a day on, and return the total."""
        synced, start, filtered = Synced(), 0, 0
        with self._pages() as pages:
            while True:
                if self.stop():
                    raise SyncStopped
                asked = HistoryQuery(
                    start=start,
                    length=self.page,
                    oldest_first=True,
                    after=after,
                    expected=synced.seen > 0 or (state.started is not None and not state.empty_believed),
                )
                more = start + self.page < filtered
                try:
                    page = pages(asked, replace(asked, start=start + self.page) if more else None)
                except EmptyHistory as error:
                    if synced.seen:
                        raise  # there were rows a moment ago
                    self._empty(state, error)
                    return synced, 0
                gone, filtered = filtered - page.filtered, page.filtered
                if gone > 0:
                    # Rows were deleted, so later rows moved up, and some may have moved past this page.
                    start = max(0, start - gone - self.page)
                    continue
                gathering.add(page)
                synced = replace(synced, seen=synced.seen + page.rows, pages=synced.pages + 1)
                start += page.rows
                self.told(start, filtered)
                if start >= filtered or not page.rows:
                    return synced, page.total

    @contextmanager
    def _pages(self) -> Iterator[Get]:
        if self.threads:
            with HistoryPages(self.client, self.stop) as pages:
                yield pages.get
        else:
            yield lambda wanted, following: self.client.get_history(wanted)

    def _store(self, batch: PlayBatch) -> Stored:
        def write(tx: DbTx) -> Stored:
            stored = store(tx, batch)
            tx.all("seen_by_now", at=int(self.now()))
            return stored

        return self.db.write(write)

    def _empty(self, state: SyncState, error: EmptyHistory) -> None:
        """Accept an empty history at the second check, and only if Tautulli's database is intact."""
        now = self.now()
        if state.empty_at is None or now - state.empty_at < DOUBT:
            self.db.write(lambda tx: _looked_empty(tx, now, believed=False))
            raise Doubtful from error
        if not self._sound():
            raise error
        self.db.write(lambda tx: _looked_empty(tx, now, believed=True))

    def _sound(self) -> bool:
        """Return whether Tautulli reports an intact database. Old versions report nothing."""
        try:
            return self.asked(lambda: self.client.status("database")).integrity in ("ok", None)
        except TautulliError as error:
            if error.unknown_command:
                return True
            _log.warning("database of tautulli not sound error=%s", error)
            return False


def first_day(state: SyncState, now: float) -> date | None:
    """Return the first day to request; None for all rows.

    No zone is more than 14 hours from UTC, so one day before the UTC day of the watermark is early enough.
    """
    if state.started is None:
        return None
    return datetime.fromtimestamp(min(state.started, now), UTC).date() - _OVERLAP


def first_days(state: SyncState, now: float) -> list[date | None]:
    """Return the first day of each pass. A pass that finds all new rows is the last."""
    first, farther = first_day(state, now), datetime.fromtimestamp(now, UTC).date() - _FARTHER
    if first is None:
        return [None]
    return [first, farther, None] if farther < first else [first, None]


def _looked_empty(tx: DbTx, now: float, *, believed: bool) -> None:
    tx.all("looked_empty", at=now, believed=int(believed))
