"""A loop that runs each key when it is due: groups in parallel, the keys of one group in sequence."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from tidegate.guard.limits import Rate

__all__ = ["DueLoop"]

K = TypeVar("K", bound=Hashable)
_MIN_WAIT = 0.001  # seconds; timers may fire a little early, and must not turn into a busy loop
_MAX_STALE = 64  # replaced times in the heap
_STOP_CHECK = 1.0  # seconds between two calls of `stop`


class MonotonicClock(Protocol):
    """What the loop needs of a clock."""

    def monotonic(self) -> float: ...


class DueLoop(Generic[K]):
    """Calls `run(key)` when the key is due. It returns when the key is due next, or None to forget the key.

        loop = DueLoop(clock, sync, group=lambda key: key.user)
        loop.schedule(key, clock.monotonic() + 60)
        await loop.run(lambda: stopping)

    Times are monotonic seconds, infinite for a key that waits for `wake`. Groups take turns. Use it on one event loop.
    """

    def __init__(
        self,
        clock: MonotonicClock,
        run: Callable[[K], Coroutine[Any, Any, float | None]],
        *,
        group: Callable[[K], Hashable] | None = None,
        concurrency: int | None = None,
        rate: Rate | None = None,
    ) -> None:
        """*rate* limits how many runs start; change the attribute to change it. Without *group*, each key is one."""
        self.rate = rate
        self._monotonic, self._run, self._concurrency = clock.monotonic, run, concurrency or math.inf
        self._group: Callable[[K], Hashable] = group or (lambda key: key)
        self._due: dict[K, float] = {}  # keys that are not ready yet
        self._later: list[tuple[float, int, K]] = []  # a heap; an entry counts while `_due` has the same time
        self._order = count()
        self._lines: dict[Hashable, deque[K]] = {}  # ready keys, by group
        self._turns: deque[Hashable] = deque()  # groups with ready keys and none in flight
        self._ready: dict[K, Hashable] = {}  # the keys in `_lines`, and their group
        self._woken: set[K] = set()  # those that precede others
        self._in_flight: dict[K, asyncio.Task[float | None]] = {}
        self._busy: set[Hashable] = set()  # groups with a key in flight
        self._next: dict[K, float] = {}  # set during a run, which it precedes
        self._paid_until = self._monotonic() + (0.0 if rate is None else (rate.burst - 1) * rate.spacing)
        self._changed = asyncio.Event()
        self._error: BaseException | None = None

    @property
    def ready(self) -> int:
        """The number of groups that could run now."""
        return len(self._turns)

    def __contains__(self, key: K) -> bool:
        """Whether a key is scheduled, and not in flight."""
        return key in self._due or key in self._ready

    def schedule(self, key: K, due: float) -> None:
        """Runs a key at *due*, which replaces an earlier time. A key in flight runs again then."""
        if key in self._in_flight:
            self._next[key] = due
            return
        self._drop(key)
        if due <= self._monotonic():
            self._put(key)
        else:
            self._due[key] = due
            heapq.heappush(self._later, (due, next(self._order), key))
        self._changed.set()

    def wake(self, key: K | None = None) -> None:
        """Runs a key now, before all others. Without a key, only calls `stop` now."""
        if key is not None:
            self._woken.add(key)
            self.schedule(key, -math.inf)
        self._changed.set()

    def remove(self, key: K) -> None:
        """Forgets a key, and cancels it if it is in flight."""
        self._drop(key)
        self._next.pop(key, None)
        self._woken.discard(key)
        if key in self._in_flight:
            self._in_flight[key].cancel()

    async def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Runs keys until *stop* returns true, then cancels those in flight. Raises what a run raises.

        *stop* is called after each change, and every second.
        """
        try:
            while not stop() and self._error is None:
                self._changed.clear()
                wait = self._start()
                try:
                    async with asyncio.timeout(max(_MIN_WAIT, min(wait, _STOP_CHECK))):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            tasks = list(self._in_flight.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._error is not None:
            raise self._error

    def _start(self) -> float:
        """Starts what may start now, and returns the seconds until more may."""
        now = self._monotonic()
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self._put(key)
        while self._turns and len(self._in_flight) < self._concurrency:
            if self.rate is not None:
                wait = self.rate.wait(self._paid_until, now)
                if wait > 0:
                    return wait
                self._paid_until = self.rate.pay(self._paid_until, now)
            group = self._turns.popleft()
            line = self._lines[group]
            key = line.popleft()
            if not line:
                del self._lines[group]
            del self._ready[key]
            self._woken.discard(key)
            self._busy.add(group)
            task = self._in_flight[key] = asyncio.create_task(self._run(key))
            task.add_done_callback(partial(self._ended, key, group))
        return self._later[0][0] - now if self._later else math.inf

    def _ended(self, key: K, group: Hashable, task: asyncio.Task[float | None]) -> None:
        del self._in_flight[key]
        self._busy.discard(group)
        if group in self._lines:
            self._take_turn(group)
        due = self._next.pop(key, None)
        if not task.cancelled():
            error = task.exception()
            self._error = self._error or error
            due = task.result() if due is None and error is None else due
        if due is not None:
            self.schedule(key, due)
        self._changed.set()

    def _put(self, key: K) -> None:
        group, woken = self._group(key), key in self._woken
        line = self._lines.setdefault(group, deque())
        line.insert(0 if woken else len(line), key)
        self._ready[key] = group
        if group in self._busy or (len(line) > 1 and not woken):
            return
        if len(line) > 1:
            self._turns.remove(group)
        self._take_turn(group)

    def _take_turn(self, group: Hashable) -> None:
        """Queues a group that is not queued yet: in front if its next key was woken."""
        self._turns.insert(0 if self._lines[group][0] in self._woken else len(self._turns), group)

    def _drop(self, key: K) -> None:
        self._due.pop(key, None)
        if len(self._later) > _MAX_STALE + 2 * len(self._due):  # most entries no longer count
            self._later = [entry for entry in self._later if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._later)
        if key in self._ready:
            group = self._ready.pop(key)
            line = self._lines[group]
            line.remove(key)
            if not line:
                del self._lines[group]
                if group not in self._busy:
                    self._turns.remove(group)
