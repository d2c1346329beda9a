"""Stores poll results: many polls in one transaction, each all or nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from tidegate.apps import Db, DbTx
from tidegate.errors import StoreError
from tidegate.guard import CooldownChange, CooldownState
from tidegate_apps.feeds import notices
from tidegate_apps.feeds.codes import ErrorType
from tidegate_apps.feeds.host_guard import FailureAttribution
from tidegate_apps.feeds.state import FeedState, Hints, PollResult, host_of, name_of, usual_wait

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


def record(tx: DbTx, batch: Sequence[PollResult], manager: SourceManager, keep: int = 5000) -> set[int]:
    """Write polls and return the sources whose poll counted. A poll does not count if the feed was changed meanwhile.

    *keep* entries per feed are retained.
    """
    recorded_ids = {row[0] for row in tx.many("record", [_row(poll, manager) for poll in batch])}
    counted = [poll for poll in batch if poll.before.source_id in recorded_ids]
    read = [poll for poll in counted if poll.feed is not None]
    fresh = _items(tx, read)
    if read:
        tx.many("read_feed", [_about(poll) for poll in read])
        _named(tx, read, elsewhere=manager.elsewhere)
    if fresh:
        by_source = {poll.before.source_id: poll for poll in read}
        grown = [{"source_id": id_, "n": n, "at": by_source[id_].at} for id_, n in fresh.items()]
        for source_id, items in tx.many("grown", grown):
            if items > keep:
                _forget(tx, by_source[source_id], min(items - keep, _PRUNE_BATCH_SIZE))
    if counted:
        tx.many("add_beats", [_beat(poll, fresh) for poll in counted])
        tx.many("count_polls", _counts(counted, fresh))
    for poll in counted:
        state, verdict = poll.verdict.state, poll.verdict
        if verdict.change is CooldownChange.DISABLED:
            manager.disabled(tx, state, state.rest.reason or "")
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


def _items(tx: DbTx, read: Sequence[PollResult]) -> dict[int, int]:
    """Return the number of new entries by source."""
    rows = [{"source_id": poll.before.source_id, "entries": poll.feed.rows} for poll in read if poll.feed is not None]
    new_items: dict[int, int] = {}
    if rows:
        for source_id, new in tx.many("put_items", rows, at=max(poll.at for poll in read)):
            new_items[source_id] = new_items.get(source_id, 0) + new
    return {source_id: n for source_id, n in new_items.items() if n}


def _forget(tx: DbTx, each: PollResult, n: int) -> None:
    """Delete a batch of the oldest entries."""
    source_id, listed = each.before.source_id, "{}" if each.feed is None else each.feed.rows
    gone = tx.all("forget_items", source_id=source_id, entries=listed, n=n)
    tx.all("shrunk", source_id=source_id, n=len(gone))


def _named(tx: DbTx, read: Sequence[PollResult], *, elsewhere: bool) -> None:
    """Give a feed without a name the title that it sends."""
    names = [
        {"source_id": poll.before.source_id, "name": poll.feed.title[:_MAX_NAME], "was": poll.before.name}
        for poll in read
        if poll.feed is not None and poll.feed.title and poll.before.name == name_of(poll.before.feed_url)
    ]
    if names and not elsewhere:
        tx.many("name_source", names)
        tx.many("name_state", names)


def _about(each: PollResult) -> dict[str, Any]:
    feed = each.feed
    return {
        "source_id": each.before.source_id,
        "title": None if feed is None else feed.title,
        "link": None if feed is None else feed.link,
        "malformed": None if feed is None else feed.malformed,
    }


def _beat(each: PollResult, fresh: dict[int, int]) -> dict[str, Any]:
    error = each.verdict.error
    return {
        "source_id": each.before.source_id,
        "at": each.at,
        "outcome": each.outcome,
        "ms": each.ms,
        "status": each.verdict.state.last_status or 0,
        "fresh": fresh.get(each.before.source_id, 0),
        "detail": None if error is None else error.shown[:200],
    }


def _counts(counted: Sequence[PollResult], fresh: dict[int, int]) -> list[dict[str, Any]]:
    """Return counts by outcome, sorted, so that concurrent writers lock rows in the same order."""
    counts: dict[str, dict[str, Any]] = {}
    for poll in sorted(counted, key=lambda poll: poll.outcome):
        row = counts.setdefault(poll.outcome, {"outcome": poll.outcome, "polls": 0, "ms": 0, "fresh": 0})
        row["polls"] += 1
        row["ms"] += poll.ms
        row["fresh"] += fresh.get(poll.before.source_id, 0)
    return list(counts.values())


def _row(each: PollResult, manager: SourceManager) -> dict[str, Any]:
    state = each.verdict.state
    rest = state.rest
    return {
        "source_id": state.source_id,
        "fence": each.before.fence,
        "feed_url": state.feed_url,
        "host": state.host,
        "due_at": state.due_at,
        "due_why": state.due_why,
        "consecutive_errors": state.consecutive_errors,
        "run_type": rest.failing_code,
        "run_length": rest.failing_count,
        "rest_at": rest.disabled_at,
        "rest_until": rest.until,
        "rest_reason": rest.reason,
        "rest_by": rest.by,
        "last_error": state.last_error,
        "last_error_type": state.last_error_type,
        "last_status": state.last_status,
        "etag": state.etag,
        "last_modified": state.last_modified,
        "validated_at": state.validated_at,
        "body_hash": state.body_hash,
        "moved_to": state.moved_to,
        "moved_times": state.moved_times,
        "hints": hints_text(state.hints),
        "last_polled_at": state.last_polled_at,
        "last_success_at": state.last_success_at,
        "every_s": None if state.last_success_at is None else usual_wait(state.interval, state.hints),
        "untold": int(
            manager.elsewhere and (each.verdict.change is not CooldownChange.NONE or bool(each.verdict.adopt))
        ),
    }


def hints_text(hints: Hints) -> str | None:
    if hints == Hints():
        return None
    return json.dumps([hints.not_before, sorted(hints.skip_hours), sorted(hints.skip_days)])


def state_of(row: tuple[Any, ...]) -> FeedState:
    """Return the state in a row of `due` or `states`."""
    (
        source_id,
        name,
        url,
        host,
        interval,
        fence,
        due_at,
        due_why,
        errors,
        run_type,
        run_length,
        rest_at,
        rest_until,
        rest_reason,
        rest_by,
        last_error,
        last_type,
        status,
        etag,
        modified,
        validated,
        digest,
        moved_to,
        moved_times,
        hints,
        polled,
        success,
    ) = row
    rest = CooldownState(
        failing_code=run_type,
        failing_count=run_length,
        disabled_at=rest_at,
        until=rest_until,
        reason=rest_reason,
        by=rest_by,
    )
    wait, hours, days = json.loads(hints) if hints else (0.0, (), ())
    return FeedState(
        source_id=source_id,
        name=name,
        feed_url=url,
        host=host,
        interval=interval,
        fence=fence,
        due_at=due_at,
        due_why=due_why,
        consecutive_errors=errors,
        rest=rest,
        last_error=last_error,
        last_error_type=last_type,
        last_status=status,
        etag=etag,
        last_modified=modified,
        validated_at=validated,
        body_hash=digest,
        moved_to=moved_to,
        moved_times=moved_times,
        last_polled_at=polled,
        last_success_at=success,
        hints=Hints(not_before=wait, skip_hours=frozenset(hours), skip_days=frozenset(days)),
    )


# -- writer ------------------------------------------------------------------------------------------------------------

BATCH = 200  # polls in one transaction
RETRY_DELAYS = (0.5, 10.0)  # seconds between retries while the database is unavailable: first and longest
UNEXPECTED = str(ErrorType.UNEXPECTED)


class PollStorage(NamedTuple):
    """Where polls are written: a database and the source manager. *items* entries per feed are retained."""

    db: Db
    manager: SourceManager
    items: int


class PollResultWriter:
    """Writes finished polls in batches, and retries until the database accepts them. Calls *recorded* for each poll."""

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
        self.odd: bool | None = None  # whether the notice of unexpected errors is open; None: unknown to this writer

    @property
    def busy(self) -> bool:
        """Return whether the poller should pause."""
        return len(self._finished) >= 2 * BATCH

    def put(self, finished: PollResult) -> None:
        self._finished.append(finished)
        self._ended.set()

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
        place, news = self._place, self._attribution.report()
        odd = any(poll.outcome == UNEXPECTED for poll in batch)

        def work(tx: DbTx) -> set[int]:
            news.tell(tx, self._now())
            if odd:
                tx.tell(notices.unclassified(self._now()))
            return record(tx, batch, place.manager, place.items)

        recorded_ids = await place.db.awrite(work)
        del self._finished[: len(batch)]
        news.told()
        self.odd = odd or self.odd
        for poll in batch:
            counted = poll.before.source_id in recorded_ids
            if counted:
                notices.log_poll(poll)
            self._recorded(poll, counted)
