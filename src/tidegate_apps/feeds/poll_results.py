"""Stores poll results: many polls in one transaction, each all or nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import NamedTuple, Protocol

from tidegate.apps import Db, DbTx
from tidegate.errors import StoreError
from tidegate.guard import CooldownChange
from tidegate_apps.feeds import notices
from tidegate_apps.feeds.codes import ErrorType
from tidegate_apps.feeds.host_guard import FailureAttribution
from tidegate_apps.feeds.state import FeedState, PollResult, host_of, name_of, usual_wait

_PRUNE_BATCH_SIZE = 500  # entries deleted per poll
_MAX_NAME = 200


class SourceManager(Protocol):
    """What the poller needs from the source manager. Each call is part of the poller's transaction."""

    elsewhere: bool  # the sources are on another server, which gets updates by a job

    async def refresh(self) -> None:
        """Update the list of feeds to poll."""

    def disabled(self, tx: DbTx, state: FeedState, reason: str) -> None: ...

    def enabled(self, tx: DbTx, state: FeedState) -> None: ...

    def moved(self, tx: DbTx, state: FeedState, url: str) -> bool:
        """Return whether the feed may move to *url*."""


class ItemCount(NamedTuple):
    """The entries of a feed that are stored."""

    source_id: int
    items: int


def record(tx: DbTx, batch: Sequence[PollResult], manager: SourceManager, keep: int) -> set[int]:
    """Write polls and return the sources whose poll counted. A poll does not count if the feed was changed meanwhile.

    *keep* entries per feed are retained.
    """
    recorded_ids = {id_ for (id_,) in tx.many("record", [_state_row(poll, manager) for poll in batch])}
    counted = [poll for poll in batch if poll.before.source_id in recorded_ids]
    read = {poll.before.source_id: (poll, poll.feed) for poll in counted if poll.feed is not None}
    new: Counter[int] = Counter()
    if read:
        entries = [{"source_id": id_, "entries": feed.rows} for id_, (_, feed) in read.items()]
        for source_id, is_new in tx.many("put_items", entries, at=max(poll.at for poll, _ in read.values())):
            new[source_id] += is_new
        about = [
            {"source_id": id_, "title": feed.title, "link": feed.link, "malformed": feed.malformed}
            for id_, (_, feed) in read.items()
        ]
        tx.many("read_feed", about)
        # A feed without a name gets the title that it sends.
        names = [
            {"source_id": id_, "name": feed.title[:_MAX_NAME], "was": poll.before.name}
            for id_, (poll, feed) in read.items()
            if feed.title and poll.before.name == name_of(poll.before.feed_url)
        ]
        if names and not manager.elsewhere:
            tx.many("name_source", names)
            tx.many("name_state", names)
    grown = [{"source_id": id_, "n": n, "at": read[id_][0].at} for id_, n in new.items() if n]
    for stored in tx.many_as(ItemCount, "grown", grown) if grown else ():
        if stored.items > keep:
            listed, n = read[stored.source_id][1].rows, min(stored.items - keep, _PRUNE_BATCH_SIZE)
            gone = tx.all("forget_items", source_id=stored.source_id, entries=listed, n=n)
            tx.all("shrunk", source_id=stored.source_id, n=len(gone))
    if counted:
        tx.many("add_beats", [_beat(poll, new) for poll in counted])
        tx.many("count_polls", _counts(counted, new))
    for poll in counted:
        state, verdict = poll.verdict.state, poll.verdict
        if verdict.change is CooldownChange.DISABLED:
            manager.disabled(tx, state, state.rest_reason or "")
        elif verdict.change is CooldownChange.ENABLED:
            manager.enabled(tx, state)
        if verdict.adopt is not None and manager.moved(tx, state, verdict.adopt):
            tx.all(
                "set_address",
                source_id=state.source_id,
                feed_url=verdict.adopt,
                host=host_of(verdict.adopt),
                due_at=state.due_at,
                due_why=state.due_why,
            )
    return recorded_ids


def _beat(poll: PollResult, new: Counter[int]) -> dict[str, object]:
    error = poll.verdict.error
    return {
        "source_id": poll.before.source_id,
        "at": poll.at,
        "outcome": poll.outcome,
        "ms": poll.ms,
        "status": poll.verdict.state.last_status or 0,
        "fresh": new[poll.before.source_id],
        "detail": None if error is None else error.shown[:200],
    }


def _counts(counted: Sequence[PollResult], new: Counter[int]) -> list[dict[str, object]]:
    """Return counts by outcome, sorted, so that concurrent writers lock rows in the same order."""
    polls: Counter[str] = Counter()
    ms: Counter[str] = Counter()
    fresh: Counter[str] = Counter()
    for poll in counted:
        polls[poll.outcome] += 1
        ms[poll.outcome] += poll.ms
        fresh[poll.outcome] += new[poll.before.source_id]
    return [{"outcome": name, "polls": polls[name], "ms": ms[name], "fresh": fresh[name]} for name in sorted(polls)]


# The columns of `record` that a state has under the same name.
_RECORDED = tuple(
    column.name for column in fields(FeedState) if column.name not in ("name", "interval", "fence", "hints_json")
)


def _state_row(poll: PollResult, manager: SourceManager) -> dict[str, object]:
    state, verdict = poll.verdict.state, poll.verdict
    return {
        **{name: getattr(state, name) for name in _RECORDED},
        "fence": poll.before.fence,
        "hints": state.hints_json,
        "every_s": None if state.last_success_at is None else usual_wait(state.interval, state.hints),
        "untold": int(manager.elsewhere and (verdict.change is not CooldownChange.NONE or bool(verdict.adopt))),
    }


# -- writer ------------------------------------------------------------------------------------------------------------

BATCH = 200  # polls in one transaction
RETRY_DELAYS = (0.5, 10.0)  # seconds between retries while the database is unavailable: first and longest
UNEXPECTED = str(ErrorType.UNEXPECTED)


class PollResultWriter:
    """Writes finished polls in batches, and retries until the database accepts them. Calls *recorded* for each poll."""

    def __init__(
        self,
        db: Db,
        manager: SourceManager,
        keep: int,
        attribution: FailureAttribution,
        now: Callable[[], float],
        recorded: Callable[[PollResult, bool], None],
    ) -> None:
        self._db, self._manager, self._keep, self._attribution = db, manager, keep, attribution
        self._now, self._recorded = now, recorded
        self._finished: list[PollResult] = []
        self._ended = asyncio.Event()
        self._closing = False
        self.room = asyncio.Event()  # while it is not set, pollers should pause
        self.room.set()
        self.odd: bool | None = None  # whether the notice of unexpected errors is open; None: unknown to this writer

    def put(self, finished: PollResult) -> None:
        self._finished.append(finished)
        self._ended.set()
        if len(self._finished) >= 2 * BATCH:
            self.room.clear()

    def close(self) -> None:
        """Write what is queued, then stop."""
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
                    notices.log.error("polls_not_recorded n=%s error=%s", len(self._finished), type(error).__name__)
                    await asyncio.sleep(patience)
                    patience = min(patience * 2, RETRY_DELAYS[1])

    async def _write(self, batch: list[PollResult]) -> None:
        news = self._attribution.report()
        odd = any(poll.outcome == UNEXPECTED for poll in batch)

        def work(tx: DbTx) -> set[int]:
            news.tell(tx, self._now())
            if odd:
                tx.tell(notices.unclassified(self._now()))
            return record(tx, batch, self._manager, self._keep)

        recorded_ids = await self._db.awrite(work)
        del self._finished[: len(batch)]
        self.room.set()
        news.told()
        self.odd = odd or self.odd
        for poll in batch:
            counted = poll.before.source_id in recorded_ids
            if counted:
                notices.log_poll(poll)
            self._recorded(poll, counted)
