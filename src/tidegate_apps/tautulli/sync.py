"""One sync of the history: what is new since the last one, and a day of overlap.

Tautulli can be asked for days only, and they are those of its own time zone. A play gets its row when it ends, so one
that began earlier may come later. Both are what the overlap is for.

Tautulli also says how many rows it has in all. When that grew by more than was found, a play of many days ended, or old
rows were imported: the sync looks farther back.
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
from tidegate_apps.tautulli.store import PlayBatch, PlayBuffer, Stored, SyncState, state_of, store

_log = logging.getLogger("tidegate.tautulli")

T = TypeVar("T")
Get = Callable[[HistoryQuery, HistoryQuery | None], PlayHistory]  # a page, and what is likely to be wanted next

DOUBT = 30.0  # seconds between two looks at a history that is empty all of a sudden
_OVERLAP = timedelta(days=1)
_FARTHER = timedelta(days=30)


class Doubtful(Exception):
    """There were rows, and now there are none. It is looked at once more before that is believed."""


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync found."""

    new: int = 0
    changed: int = 0
    seen: int = 0
    pages: int = 0
    passed_over: int = 0  # rows that are no finished plays: streams that go on, and what has no id or no time

    def and_then(self, more: Synced) -> Synced:
        return Synced(*map(add, astuple(self), astuple(more)))


@dataclass(frozen=True, slots=True)
class HistorySync:
    """*stop* says whether to end at the next page; *told* hears how many rows were seen, and how many there are."""

    db: Db
    client: Tautulli
    page: int
    now: Callable[[], float]
    stop: Callable[[], bool] = lambda: False
    told: Callable[[int, int], object] = lambda seen, filtered: None
    # Rows that are written in one transaction, where so many come. Others wait for it on SQLite: more are not quicker.
    lot: int = 10_000
    threads: bool = (
        True  # in virtual time there are none: pages are fetched one after the other, and stops wait for them
    )

    def run(self) -> Synced:
        """Reads page by page, the oldest rows first, so that whatever ends it loses nothing that was stored."""
        state = state_of(self.db.one("state"))
        found, missing = Synced(), 0
        for after in first_days(state, self.now()):
            with PlayBuffer(self._store, self.lot, self.now) as gathering:
                read, total = self._read(state, after, gathering)
            new, changed, passed_over = gathering.stored.new, gathering.stored.changed, read.seen - gathering.plays
            found = found.and_then(replace(read, new=new, changed=changed, passed_over=passed_over))
            before, here = self.db.all("missing")[0]
            missing = total - int(here)
            if before is None or missing <= before:
                break
        self.db.all("is_missing", missing=missing)
        return found

    def asked(self, call: Callable[[], T]) -> T:
        """What a call of the client returns; Stopped when this is to stop before it does."""
        return stoppable(self.client, self.stop, call) if self.threads else call()

    def _read(self, state: SyncState, after: date | None, gathering: PlayBuffer) -> tuple[Synced, int]:
        """All rows from a day on; and how many there are in all."""
        found, start, filtered = Synced(), 0, 0
        with self._pages() as pages:
            while True:
                if self.stop():
                    raise SyncStopped
                asked = HistoryQuery(
                    start=start,
                    length=self.page,
                    oldest_first=True,
                    after=after,
                    expected=found.seen > 0 or (state.started is not None and not state.empty_believed),
                )
                more = start + self.page < filtered
                try:
                    page = pages(asked, replace(asked, start=start + self.page) if more else None)
                except EmptyHistory as error:
                    if found.seen:
                        raise  # there were some a moment ago
                    self._empty(state, error)
                    return found, 0
                gone, filtered = filtered - page.filtered, page.filtered
                if gone > 0:
                    # Somebody deleted rows, and those behind them have moved up: some may have moved past this page.
                    start = max(0, start - gone - self.page)
                    continue
                gathering.add(page)
                found, start = _more(found, page), start + page.rows
                self.told(start, filtered)
                if start >= filtered or not page.rows:
                    return found, page.total

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
        """Believes an empty history at the second look, and only if the database of Tautulli is sound."""
        now = self.now()
        if state.empty_at is None or now - state.empty_at < DOUBT:
            self.db.write(lambda tx: _looked_empty(tx, now, believed=False))
            raise Doubtful from error
        if not self._sound():
            raise error
        self.db.write(lambda tx: _looked_empty(tx, now, believed=True))

    def _sound(self) -> bool:
        """Whether Tautulli says that its database is; an old version says nothing of it."""
        try:
            return self.asked(lambda: self.client.status("database")).integrity in ("ok", None)
        except TautulliError as error:
            if error.unknown_command:
                return True
            _log.warning("database of tautulli not sound error=%s", error)
            return False


def first_day(state: SyncState, now: float) -> date | None:
    """The day from which on rows are asked for; None for all of them.

    No zone is more than 14 hours from UTC, so a day before that of the watermark in UTC is early enough anywhere.
    """
    if state.started is None:
        return None
    return datetime.fromtimestamp(min(state.started, now), UTC).date() - _OVERLAP


def first_days(state: SyncState, now: float) -> list[date | None]:
    """The day of each look, until one of them accounts for all that came."""
    first, farther = first_day(state, now), datetime.fromtimestamp(now, UTC).date() - _FARTHER
    if first is None:
        return [None]
    return [first, farther, None] if farther < first else [first, None]


def _looked_empty(tx: DbTx, now: float, *, believed: bool) -> None:
    tx.all("looked_empty", at=now, believed=int(believed))


def _more(found: Synced, page: PlayHistory) -> Synced:
    return Synced(seen=found.seen + page.rows, pages=found.pages + 1)
