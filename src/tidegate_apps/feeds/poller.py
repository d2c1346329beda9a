"""Polls due feeds: hosts in parallel, feeds of one host in sequence, results in batches.

A poll writes nothing before it has finished. If the process is killed, the feed is still due.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.apps import Db
from tidegate.errors import StoreError
from tidegate.guard import NetworkGuardPolicy
from tidegate_apps.feeds import notices
from tidegate_apps.feeds import state as feed_state
from tidegate_apps.feeds.client import Fetching
from tidegate_apps.feeds.codes import PollError, untyped
from tidegate_apps.feeds.host_guard import FailureAttribution
from tidegate_apps.feeds.parsing import Feed
from tidegate_apps.feeds.poll_results import (
    RETRY_DELAYS,
    UNEXPECTED,
    PollResultWriter,
    PollStorage,
    SourceManager,
    state_of,
)
from tidegate_apps.feeds.state import FeedState, PollResult, PollVerdict

# -- queue of due feeds, by host ---------------------------------------------------------------------------------------

QueuedFeed = tuple[FeedState, float]  # a feed, and when its state was read


class HostQueues:
    """One queue per host, and a queue of the idle hosts."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[QueuedFeed]] = {}
        self._hosts: deque[str] = deque()  # with feeds queued and none in flight
        self._asked: set[str] = set()  # with a feed in flight

    @property
    def hosts(self) -> int:
        """Return the number of hosts that can be polled now."""
        return len(self._hosts)

    def put(self, state: FeedState, read: float) -> None:
        line = self._lines.setdefault(state.host, deque())
        line.append((state, read))
        if len(line) == 1 and state.host not in self._asked:
            self._hosts.append(state.host)

    def put_first(self, state: FeedState, read: float) -> None:
        """Queue a feed first, because a user waits for it. A queued feed moves to the front."""
        line = self._lines.setdefault(state.host, deque())
        old = next((queued for queued in line if queued[0].source_id == state.source_id), None)
        if old is not None and old[0].due_at == feed_state.POLL_NOW:
            return
        if old is not None:
            line.remove(old)
        line.appendleft((state, read))
        if state.host not in self._asked:
            if state.host in self._hosts:
                self._hosts.remove(state.host)
            self._hosts.appendleft(state.host)

    def __contains__(self, state: FeedState) -> bool:
        return any(queued.source_id == state.source_id for queued, _ in self._lines.get(state.host, ()))

    def take(self) -> QueuedFeed:
        """Return the next feed, if there are `hosts`. Its host is blocked until `free`."""
        host = self._hosts.popleft()
        line = self._lines[host]
        queued = line.popleft()
        if not line:
            del self._lines[host]
        self._asked.add(host)
        return queued

    def free(self, host: str) -> None:
        """Unblock a host after its poll."""
        self._asked.discard(host)
        if host in self._lines:
            first = self._lines[host][0][0].due_at == feed_state.POLL_NOW
            (self._hosts.appendleft if first else self._hosts.append)(host)


# -- rate of overdue feeds, so that our downtime does not cause a burst of requests ------------------------------------

_MIN_RATE = 2.0  # polls per second
_CATCH_UP = 2.5  # times the mean


class PollRateLimiter:
    """A token bucket with a capacity of one second."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rate = _MIN_RATE
        self._left, self._at = 1.0, monotonic()

    def usual(self, polls_per_second: float) -> None:
        """Set the normal number of polls per second."""
        self._rate = max(_MIN_RATE, _CATCH_UP * polls_per_second)

    def take(self) -> bool:
        """Return whether one more poll may start now."""
        now = self._monotonic()
        self._left = min(max(1.0, self._rate), self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


POLL_INTERVAL = 1.0  # seconds between two scans for due feeds
_PAGE_SIZE = 500
_MAX_KNOWN = 20_000
_STATE_MAX_AGE = 5.0  # seconds; older states are read again before the poll
_MAINTENANCE_EVERY = 60.0
_BATCH_SIZE = 5000  # rows deleted per transaction


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
    """Polls the feeds of one database. The lease of a job makes sure that only one poller runs."""

    def __init__(
        self,
        db: Db,
        manager: SourceManager,
        fetching: Fetching,
        times: PollClock,
        policy: PollPolicy | None = None,
        attribution: FailureAttribution | None = None,
    ) -> None:
        """*attribution* is the knowledge of the previous poller about our network and hosts."""
        self._db, self._manager, self._fetching, self._times = db, manager, fetching, times
        self._policy = policy or PollPolicy()
        self._attribution = attribution or FailureAttribution(self._policy.guard, hosts=self._policy.host_guard)
        self.tally = PollCounts()
        self._queues = HostQueues()
        self._in_flight: dict[str, asyncio.Task[None]] = {}  # by host
        self._known: set[int] = set()  # queued, in flight, or not recorded yet
        self._recorded: set[int] = set()  # since the last scan began: its rows may be older than these
        self._wakeup = asyncio.Event()
        self._after = (-1.0, 0)  # the position of the scan: due time and id
        self._look_at = self._asked_at = 0.0
        self._all_read = False
        self._rate_limiter = PollRateLimiter(times.monotonic)
        self._maintenance_at = 0.0
        self._writer = self._new_writer()

    async def run(self, stop: Callable[[], bool], *, drain: bool = False) -> PollCounts:
        """Poll until *stop* returns true; with *drain*, until nothing is due."""
        # they belong to this event loop
        self._wakeup, self._writer, self._look_at = asyncio.Event(), self._new_writer(), 0.0
        writing = asyncio.create_task(self._writer.run())
        try:
            while not stop():
                if writing.done():
                    writing.result()
                self._wakeup.clear()
                await self._look()
                self._start(paced=self._policy.paced and not drain)
                if drain and not self._known:
                    if self._all_read:
                        break
                    self._look_at = 0.0
                    continue
                await self._wait()
        finally:
            await self._end(writing)
        return self.tally

    # -- due feeds -----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Read more due feeds if few are queued."""
        # Count hosts, not feeds: one host with a long queue must not keep other hosts out of the scan.
        enough = self._queues.hosts > self._policy.concurrency or len(self._known) > _MAX_KNOWN
        try:
            await self._look_for_asked()
            if enough or self._times.monotonic() < self._look_at:
                return
            rows = await self._due(self._times.now(), self._after)
            await self._maintenance()
        except StoreError as error:
            notices.log.error("due_not_read error=%s", type(error).__name__)
            self._look_at = self._asked_at = self._times.monotonic() + RETRY_DELAYS[1]
            return
        read = self._times.monotonic()
        fresh = [row for row in rows if row[0] not in self._known]
        for row in fresh:
            if row[0] not in self._recorded:
                self._known.add(row[0])
                self._queues.put(state_of(row), read)
        if len(rows) < _PAGE_SIZE:
            self._after, self._look_at, self._all_read = (-1.0, 0), read + self._policy.poll_interval, not fresh
        else:
            self._after = (rows[-1][6], rows[-1][0])

    async def _due(self, at: float, after: tuple[float, int]) -> list[tuple[Any, ...]]:
        self._recorded.clear()
        return await self._db.aall("due", at=at, after_due=after[0], after=after[1], n=_PAGE_SIZE)

    async def _look_for_asked(self) -> None:
        """Read feeds that a user waits for. They precede all overdue feeds."""
        if not self._known or self._times.monotonic() < self._asked_at:
            return
        rows = await self._due(feed_state.POLL_NOW, (-1.0, 0))
        read = self._times.monotonic()
        self._asked_at = read + self._policy.poll_interval
        for row in reversed(rows):
            state = state_of(row)
            under_way = row[0] in self._known and state not in self._queues
            if not under_way and row[0] not in self._recorded:
                self._known.add(row[0])
                self._queues.put_first(state, read)

    async def _maintenance(self) -> None:
        """Update the normal poll rate and delete old rows."""
        if self._times.monotonic() < self._maintenance_at:
            return
        self._maintenance_at = self._times.monotonic() + _MAINTENANCE_EVERY
        await self._db.aall("move_back", now_is=self._times.now())
        usual = float((await self._db.aall("pace"))[0][0])
        self._rate_limiter.usual(usual)
        self._attribution.usual(usual)
        older_than, loop = self._times.older_than, asyncio.get_running_loop()
        for name, retention in (("prune_beats", self._policy.history), ("prune_events", self._policy.events)):
            await self._db.aall(name, before=await loop.run_in_executor(None, older_than, retention), n=_BATCH_SIZE)
        if self._writer.odd is not False and not await self._db.aall("feeds_by_error", type=UNEXPECTED, after=0, n=1):
            await self._db.awrite(lambda tx: tx.settled(notices.TARGET, notices.UNCLASSIFIED))
            self._writer.odd = False

    # -- polls ---------------------------------------------------------------------------------------------------------

    def _start(self, *, paced: bool) -> None:
        while len(self._in_flight) < self._policy.concurrency and not self._writer.busy:
            if not self._queues.hosts or (paced and not self._rate_limiter.take()):
                return
            state, read = self._queues.take()
            self._in_flight[state.host] = asyncio.create_task(self._run_poll(state, read))

    async def _run_poll(self, state: FeedState, read: float) -> None:
        finished: PollResult | None = None
        try:
            fresh = state if self._times.monotonic() - read <= _STATE_MAX_AGE else await self._again(state)
            if fresh is not None:
                finished = await self._poll(fresh)
                self._writer.put(finished)
        except StoreError as error:  # it is still due, so the next scan finds it
            notices.log.error("feed_not_read source_id=%s error=%s", state.source_id, type(error).__name__)
        finally:
            del self._in_flight[state.host]
            self._queues.free(state.host)
            if finished is None:
                self._known.discard(state.source_id)
            self._wakeup.set()

    async def _again(self, state: FeedState) -> FeedState | None:
        """Read the state of a feed again that was queued for long; None if it is no longer due."""
        rows = await self._db.aall("states", source_id=state.source_id)
        current = state_of(rows[0]) if rows else None
        due = current is not None and current.due_at is not None and current.due_at <= self._times.now()
        return current if due else None

    async def _poll(self, state: FeedState) -> PollResult:
        times, began = self._times, self._times.monotonic()
        feed: Feed | None = None
        try:
            success, feed = await self._fetching.poll(state, times.now())
            verdict = feed_state.record_success(state, success, times.now(), times.rng())
            self._attribution.record_answer(state, times.monotonic())
        except Exception as error:  # any exception is the outcome of this poll, and of this poll only
            verdict = self._failed(state, error)
        ms = round(1000 * (times.monotonic() - began))
        return PollResult(before=state, verdict=verdict, at=times.now(), ms=ms, feed=feed)

    def _failed(self, state: FeedState, error: Exception) -> PollVerdict:
        typed = error if isinstance(error, PollError) else untyped(error, state.feed_url)
        times = self._times
        own, spared = self._attribution.record_failure(state, typed, times.monotonic())
        return feed_state.record_failure(state, typed, times.now(), times.rng(), own_network=own, host_excused=spared)

    # -- loop ----------------------------------------------------------------------------------------------------------

    def _new_writer(self) -> PollResultWriter:
        place = PollStorage(self._db, self._manager, self._policy.items)
        return PollResultWriter(place, self._attribution, self._times.now, self._heard_of)

    def _heard_of(self, each: PollResult, counted: bool) -> None:
        """Release a feed whose poll was recorded or dropped."""
        self._known.discard(each.before.source_id)
        self._recorded.add(each.before.source_id)
        self.tally.polled += counted
        self.tally.failed += counted and each.verdict.error is not None
        self.tally.dropped += not counted
        self._wakeup.set()

    async def _wait(self) -> None:
        """Wait until a poll ends or is recorded, or until the next scan."""
        wait = max(0.01, min(self._policy.poll_interval, self._look_at - self._times.monotonic()))
        try:
            await asyncio.wait_for(self._wakeup.wait(), wait)
        except TimeoutError:
            return

    async def _end(self, writing: asyncio.Task[None]) -> None:
        """Cancel polls in flight; finished polls are still written."""
        flying = list(self._in_flight.values())
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
        self._writer.close()
        await writing
