"""Events and notices: what changed, and what a user should read.

from tidegate.events import EventKind, subscribe
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from tidegate.faults.fault import Fault
from tidegate.logs import logger
from tidegate.validation import whole

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "Bus",
    "Event",
    "EventKind",
    "Notice",
    "NoticeKind",
    "Subscription",
    "subscribe",
]


# What changed, in the past tense, and what a person should read of it.


class EventKind(StrEnum):
    """Every event there is."""

    CALL_FAILED = "call_failed"  # one call failed; its fault says how
    BREAKER_STATE_CHANGED = "breaker_state_changed"
    TARGET_FATAL = "target_fatal"  # no further call until a person acts
    TARGET_RECOVERED = "target_recovered"
    TARGET_DISABLED = "target_disabled"
    TARGET_ENABLED = "target_enabled"
    TARGET_PAUSED = "target_paused"
    TARGET_RESUMED = "target_resumed"
    TARGET_CLEARED = "target_cleared"  # a person reconnected: all state of the key is forgotten
    OWN_LINK_LOST = "own_link_lost"  # so many hosts fail at once that it must be our own network
    OWN_LINK_BACK = "own_link_back"
    NOTICE = "notice"


class NoticeKind(StrEnum):
    FATAL = "fatal"
    CAP = "cap"
    DISABLED = "disabled"  # it rests, because it failed too often
    RECOVERED = "recovered"
    OWN_LINK = "own_link"
    CLOCK = "clock"  # of a machine, which was set ahead or back


_ICONS = {
    NoticeKind.FATAL: "error",
    NoticeKind.CAP: "warning",
    NoticeKind.DISABLED: "warning",
    NoticeKind.OWN_LINK: "warning",
    NoticeKind.CLOCK: "warning",
    NoticeKind.RECOVERED: "success",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a person should read, once per episode. An episode is named by when it began."""

    kind: NoticeKind
    target: str
    key: Hashable = None
    operation: str | None = None
    episode: float
    title: str
    message: str
    advice: str = ""  # what can be done; the message ends with it
    code: str = ""

    @property
    def icon(self) -> str:
        return _ICONS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a target, with what belongs to it."""

    kind: EventKind
    at: float  # UNIX time
    target: str
    key: Hashable = None
    operation: str | None = None
    user: Hashable = None  # who is told; None: nobody in particular
    fault: Fault | None = None
    notice: Notice | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


# The in-process bus: publishing never waits, a slow subscriber loses its oldest events, a gone one is forgotten.

_log = logger("tidegate.bus")

_TIDY_EVERY = 100  # new subscribers, or as many as there are

Sink = Callable[[Event], object]


class Subscription:
    """The events of one user, or of everybody, since `with` was entered.

    `for` and `async for` wait for the next one until it is closed; `drain()` takes what is there.
    """

    def __init__(self, bus: Bus, user: Hashable, limit: int) -> None:
        self._bus = bus
        self._user = user
        self._events: deque[Event] = deque(maxlen=limit)
        self._ready = threading.Condition()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self._open = False
        self.dropped = 0

    def __enter__(self) -> Self:
        self._open = True
        self._bus._add(self._user, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """No more events; a loop over it ends after the ones that are there."""
        self._bus._remove(self._user, self)
        with self._ready:
            self._open = False
            self._wake()

    def drain(self) -> list[Event]:
        """What has arrived and was not taken yet."""
        with self._ready:
            found = list(self._events)
            self._events.clear()
            return found

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        with self._ready:
            while not self._events:
                if not self._open:
                    raise StopIteration
                self._ready.wait()
            return self._events.popleft()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        import asyncio

        while True:
            with self._ready:
                if self._events:
                    return self._events.popleft()
                if not self._open:
                    raise StopAsyncIteration
                signal = asyncio.Event()
                waiter = (asyncio.get_running_loop(), signal)
                self._waiters.append(waiter)
            try:
                await signal.wait()
            finally:
                with self._ready, suppress(ValueError):
                    self._waiters.remove(waiter)

    def _put(self, event: Event) -> None:
        with self._ready:
            if len(self._events) == self._events.maxlen:
                self.dropped += 1
            self._events.append(event)
            self._wake()

    def _wake(self) -> None:
        self._ready.notify_all()
        waiters, self._waiters = self._waiters, []
        for loop, signal in waiters:
            with suppress(RuntimeError):  # its loop is closed: whoever waited there is gone
                loop.call_soon_threadsafe(signal.set)


class Bus:
    """Delivers each event to the sinks, to the subscribers of its user and to those of everybody."""

    def __init__(self) -> None:
        # Reentrant: the collector may run in here, and what it ends may have something to tell.
        self._lock = threading.RLock()
        self._subscribers: dict[Hashable, WeakSet[Subscription]] = {}
        self._sinks: tuple[Sink, ...] = ()
        self._to_tidy = _TIDY_EVERY

    def subscribe(self, user: Hashable = None, *, limit: int = 100) -> Subscription:
        """The events of *user*, or everybody's, from `with` on; at most *most* are kept until they are taken."""
        return Subscription(self, user, whole(limit, field="limit"))

    def attach(self, sink: Sink) -> None:
        """Calls *sink* with every event, in the thread that publishes; attaching it again changes nothing."""
        with self._lock:
            if sink not in self._sinks:
                self._sinks = (*self._sinks, sink)

    def detach(self, sink: Sink) -> None:
        with self._lock:
            self._sinks = tuple(each for each in self._sinks if each != sink)

    def publish(self, event: Event) -> None:
        """Never waits and never raises."""
        for sink in self._sinks:
            try:
                sink(event)
            except Exception:  # a sink that fails must not harm the call that it hears of
                _log.exception("sink_raised event=%s", event.kind)
        for subscription in self._interested(event.user):
            subscription._put(event)

    def _interested(self, user: Hashable) -> list[Subscription]:
        with self._lock:
            found = list(self._subscribers.get(None, ()))
            if user is not None:
                found += self._subscribers.get(user, ())
            return found

    def _add(self, user: Hashable, subscription: Subscription) -> None:
        with self._lock:
            self._to_tidy -= 1
            if self._to_tidy <= 0:
                self._tidy()
            self._subscribers.setdefault(user, WeakSet()).add(subscription)

    def _remove(self, user: Hashable, subscription: Subscription) -> None:
        with self._lock:
            group = self._subscribers.get(user)
            if group is not None:
                group.discard(subscription)
                if not group:
                    del self._subscribers[user]

    @property
    def subscribers(self) -> int:
        with self._lock:
            self._tidy()
            return sum(len(group) for group in self._subscribers.values())

    def _tidy(self) -> None:
        """A subscriber that was dropped without being closed leaves an empty group behind."""
        for user in [user for user, group in self._subscribers.items() if not group]:
            del self._subscribers[user]
        self._to_tidy = max(_TIDY_EVERY, len(self._subscribers))


DEFAULT = Bus()
subscribe = DEFAULT.subscribe
