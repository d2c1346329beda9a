"""Polls due feeds: hosts in parallel, feeds of one host in sequence, results in batches.

A poll writes nothing before it has finished. If the process is killed, the feed is still due.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate import Rate
from tidegate.apps import Db
from tidegate.errors import StoreError
from tidegate.guard import NetworkGuardPolicy
from tidegate.polling import DueLoop
from tidegate_apps.feeds import notices
from tidegate_apps.feeds import state as feed_state
from tidegate_apps.feeds.client import Get, Parse, fetch
from tidegate_apps.feeds.codes import PollError, untyped
from tidegate_apps.feeds.host_guard import FailureAttribution
from tidegate_apps.feeds.parsing import Feed
from tidegate_apps.feeds.poll_results import RETRY_DELAYS, UNEXPECTED, PollResultWriter, SourceManager
from tidegate_apps.feeds.state import POLL_NOW, FeedState, PollResult

POLL_INTERVAL = 1.0  # seconds between two scans for due feeds
_PAGE_SIZE = 500
_MAX_KNOWN = 20_000
_STATE_MAX_AGE = 5.0  # seconds; older states are read again before the poll
_MAINTENANCE_EVERY = 60.0
_BATCH_SIZE = 5000  # rows deleted per transaction
# Overdue feeds are polled at a limited rate, so that our downtime does not cause a burst of requests.
_MIN_RATE = 2.0  # polls per second
_CATCH_UP = 2.5  # times the usual rate
_START = (-1.0, 0)  # before all feeds, by due time and id


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPolicy:
    """Parameters of a poller."""

    concurrency: int = 32
    paced: bool = True  # limit the rate of overdue feeds
    guard: NetworkGuardPolicy | None = field(default_factory=NetworkGuardPolicy)
    host_guard: bool = False  # attribute failures to a host if most of its feeds fail
    history: float = 7 * 86400.0  # retention of polls, in seconds
    events: float = 365 * 86400.0  # retention of other events, in seconds
    items: int = 5000  # retention of entries, per feed
    poll_interval: float = POLL_INTERVAL


@dataclass(slots=True)
class PollCounts:
    """What a poller has done."""

    polled: int = 0
    failed: int = 0
    dropped: int = 0  # the feed was changed during the poll


@dataclass(frozen=True, slots=True, kw_only=True)
class PollClock:
    """Time and random numbers, handed in."""

    now: Callable[[], float]
    monotonic: Callable[[], float]
    older_than: Callable[[float], float]  # the time that lies this number of seconds in the past
    rng: Callable[[], float] = random.random


class Poller:
    """Polls the feeds of one database, once. The lease of a job makes sure that only one poller runs."""

    def __init__(
        self,
        db: Db,
        manager: SourceManager,
        get: Get,
        parse: Parse,
        times: PollClock,
        policy: PollPolicy,
        attribution: FailureAttribution | None = None,
    ) -> None:
        """*attribution* is the knowledge of the previous poller about our network and hosts."""
        self._db, self._get, self._parse, self._times, self._policy = db, get, parse, times, policy
        self._attribution = attribution or FailureAttribution(policy.guard, hosts=policy.host_guard)
        self._writer = PollResultWriter(db, manager, policy.items, self._attribution, times.now, self._on_recorded)
        self._polls = DueLoop(
            times,
            self._poll,
            group=lambda id_: self._known[id_][0].host,
            concurrency=policy.concurrency,
            rate=_catch_up_rate(0.0) if policy.paced else None,
        )
        # Feeds that are queued, in flight or not recorded yet: the state, and when it was read.
        self._known: dict[int, tuple[FeedState, float]] = {}
        self._recorded: set[int] = set()  # since the last scan began: its rows may be older than these
        self._wakeup = asyncio.Event()
        self._after = _START  # the position of the scan
        self._all_read = False
        self._scan_at = self._asked_at = self._maintenance_at = 0.0
        self.tally = PollCounts()

    async def run(self, stop: Callable[[], bool], *, drain: bool = False) -> PollCounts:
        """Poll until *stop* returns true; with *drain*, until nothing is due."""
        if drain:
            self._polls.rate = None
        writing, scanning = asyncio.create_task(self._writer.run()), asyncio.create_task(self._scan(drain=drain))
        for task in (writing, scanning):
            task.add_done_callback(lambda _: self._polls.wake())
        try:
            await self._polls.run(lambda: stop() or writing.done() or scanning.done())
        finally:
            scanning.cancel()
            self._writer.close()
            await writing
            with contextlib.suppress(asyncio.CancelledError):
                await scanning
        return self.tally

    # -- due feeds -----------------------------------------------------------------------------------------------------

    async def _scan(self, *, drain: bool) -> None:
        """Queue feeds as they fall due; with *drain*, until nothing is due."""
        while True:
            self._wakeup.clear()
            # Count hosts, not feeds: one host with a long queue must not keep other hosts out of the scan.
            enough = self._polls.ready > self._policy.concurrency or len(self._known) > _MAX_KNOWN
            try:
                if self._known and self._times.monotonic() >= self._asked_at:
                    await self._queue_asked()
                if not enough and self._times.monotonic() >= self._scan_at:
                    await self._queue_due()
                    await self._maintain()
            except StoreError as error:
                notices.log.error("due_not_read error=%s", type(error).__name__)
                await asyncio.sleep(RETRY_DELAYS[1])
                continue
            if drain and not self._known:
                if self._all_read:
                    return
                self._scan_at = 0.0
            wait = self._policy.poll_interval if enough else self._scan_at - self._times.monotonic()
            if wait > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(wait, self._policy.poll_interval)):
                        await self._wakeup.wait()

    async def _queue_due(self) -> None:
        """Queue the next page of due feeds."""
        self._recorded.clear()
        after_due, after = self._after
        states = await self._db.aquery_as(
            FeedState, "due", at=self._times.now(), after_due=after_due, after=after, n=_PAGE_SIZE
        )
        read = self._times.monotonic()
        fresh = [state for state in states if state.source_id not in self._known]
        for state in fresh:
            if state.source_id not in self._recorded:
                self._known[state.source_id] = state, read
                self._polls.schedule(state.source_id, read)
        if len(states) < _PAGE_SIZE:
            self._after, self._scan_at, self._all_read = _START, read + self._policy.poll_interval, not fresh
        else:
            self._after = states[-1].due_at or 0.0, states[-1].source_id

    async def _queue_asked(self) -> None:
        """Queue feeds that a user waits for. They precede all overdue feeds."""
        self._recorded.clear()
        states = await self._db.aquery_as(
            FeedState, "due", at=POLL_NOW, after_due=_START[0], after=_START[1], n=_PAGE_SIZE
        )
        read = self._times.monotonic()
        self._asked_at = read + self._policy.poll_interval
        for state in reversed(states):
            known = self._known.get(state.source_id)
            if known is None:
                is_new = state.source_id not in self._recorded
            else:
                is_new = state.source_id in self._polls and known[0].due_at != POLL_NOW
            if is_new:
                self._known[state.source_id] = state, read
                self._polls.wake(state.source_id)

    async def _maintain(self) -> None:
        """Update the usual poll rate and delete old rows."""
        if self._times.monotonic() < self._maintenance_at:
            return
        self._maintenance_at = self._times.monotonic() + _MAINTENANCE_EVERY
        await self._db.aall("move_back", now_is=self._times.now())
        ((usual,),) = await self._db.aall("pace")
        self._attribution.link.usual(usual)
        if self._polls.rate is not None:
            self._polls.rate = _catch_up_rate(usual)
        older_than, loop = self._times.older_than, asyncio.get_running_loop()
        for name, retention in (("prune_beats", self._policy.history), ("prune_events", self._policy.events)):
            await self._db.aall(name, before=await loop.run_in_executor(None, older_than, retention), n=_BATCH_SIZE)
        if self._writer.odd is not False and not await self._db.aall("feeds_by_error", type=UNEXPECTED, after=0, n=1):
            await self._db.awrite(lambda tx: tx.settled(notices.TARGET, notices.UNCLASSIFIED))
            self._writer.odd = False

    # -- polls ---------------------------------------------------------------------------------------------------------

    async def _poll(self, id_: int) -> None:
        """Poll a feed and hand the result to the writer. Without a result it stays due, so the next scan finds it."""
        result: PollResult | None = None
        try:
            await self._writer.room.wait()
            state = await self._current(*self._known[id_])
            if state is not None:
                result = await self._polled(state)
                self._writer.put(result)
        except StoreError as error:
            notices.log.error("feed_not_read source_id=%s error=%s", id_, type(error).__name__)
        finally:
            if result is None:
                del self._known[id_]
            self._wakeup.set()

    async def _current(self, state: FeedState, read: float) -> FeedState | None:
        """Return the state, read again if the feed was queued for long; None if it is no longer due."""
        if self._times.monotonic() - read <= _STATE_MAX_AGE:
            return state
        current = await self._db.afirst(FeedState, "states", source_id=state.source_id)
        due = current is not None and current.due_at is not None and current.due_at <= self._times.now()
        return current if due else None

    async def _polled(self, state: FeedState) -> PollResult:
        times, began = self._times, self._times.monotonic()
        feed: Feed | None = None
        try:
            success, feed = await fetch(self._get, self._parse, state, times.now())
            verdict = feed_state.record_success(state, success, times.now(), times.rng())
            self._attribution.record_answer(state, times.monotonic())
        except Exception as error:  # any exception is the outcome of this poll, and of this poll only
            typed = error if isinstance(error, PollError) else untyped(error, state.feed_url)
            own, host = self._attribution.record_failure(state, typed, times.monotonic())
            verdict = feed_state.record_failure(
                state, typed, times.now(), times.rng(), own_network=own, host_excused=host
            )
        ms = round(1000 * (times.monotonic() - began))
        return PollResult(before=state, verdict=verdict, at=times.now(), ms=ms, feed=feed)

    def _on_recorded(self, poll: PollResult, counted: bool) -> None:
        """Release a feed whose poll was recorded or dropped."""
        self._known.pop(poll.before.source_id, None)
        self._recorded.add(poll.before.source_id)
        self.tally.polled += counted
        self.tally.failed += counted and poll.verdict.error is not None
        self.tally.dropped += not counted
        self._wakeup.set()


def _catch_up_rate(usual: float) -> Rate:
    """Return the rate of polls; *usual* is the normal number per second."""
    polls = max(_MIN_RATE, _CATCH_UP * usual)
    return Rate(polls, burst=int(polls))
