"""Writes polls that have ended: many in one transaction, and again until the database takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from tidegate.apps import Db, DbTx
from tidegate.errors import StoreError
from tidegate_apps.feeds import poll_log, telling
from tidegate_apps.feeds.blaming import FailureAttribution
from tidegate_apps.feeds.matrix import ErrorType
from tidegate_apps.feeds.recording import PollResult, SourceManager, record

BATCH = 200  # polls in one transaction
RETRY_DELAYS = (0.5, 10.0)  # seconds between tries at a database that is away, first and longest
UNEXPECTED = str(ErrorType.UNEXPECTED)


class PollStorage(NamedTuple):
    """Where polls are written: a database, and whoever keeps the sources. Of one feed, *items* entries stay."""

    db: Db
    manager: SourceManager
    items: int


class PollResultWriter:
    """Takes polls that have ended. *recorded* hears of each, and whether it counted."""

    def __init__(
        self,
        place: PollStorage,
        attribution: FailureAttribution,
        now: Callable[[], float],
        recorded: Callable[[PollResult, bool], None],
    ) -> None:
        self._place, self._attribution, self._now, self._recorded = place, attribution, now, recorded
        self._finished: list[PollResult] = []
        self._ended = asyncio.Event()
        self._closing = False
        self.odd: bool | None = None  # whether something unexpected was told; None: not by this one

    @property
    def busy(self) -> bool:
        """Whether it should be given no more for now."""
        return len(self._finished) >= 2 * BATCH

    def put(self, finished: PollResult) -> None:
        self._finished.append(finished)
        self._ended.set()

    def close(self) -> None:
        """What was put is still written."""
        self._closing = True
        self._ended.set()

    async def run(self) -> None:
        patience = RETRY_DELAYS[0]
        while not self._closing or self._finished:
            await self._ended.wait()
            self._ended.clear()
            while self._finished:
                try:
                    await self._write(self._finished[:BATCH])
                    patience = RETRY_DELAYS[0]
                except StoreError as error:
                    poll_log.log.error("polls_not_recorded n=%s error=%s", len(self._finished), type(error).__name__)
                    await asyncio.sleep(patience)
                    patience = min(patience * 2, RETRY_DELAYS[1])

    async def _write(self, batch: list[PollResult]) -> None:
        place, news = self._place, self._attribution.report()
        odd = any(each.outcome == UNEXPECTED for each in batch)

        def work(tx: DbTx) -> set[int]:
            news.tell(tx, self._now())
            if odd:
                tx.tell(telling.unclassified(self._now()))
            return record(tx, batch, place.manager, place.items)

        kept = await place.db.awrite(work)
        del self._finished[: len(batch)]
        news.told()
        self.odd = odd or self.odd
        for each in batch:
            counted = each.before.source_id in kept
            if counted:
                poll_log.say(each)
            self._recorded(each, counted)
