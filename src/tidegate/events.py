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


# -- events and notices ---------------------------------------------------------------------------------------------


class EventKind(StrEnum):
    """All kinds of events."""

    CALL_FAILED = "call_failed"  # one call failed, with its fault
    BREAKER_STATE_CHANGED = "breaker_state_changed"
    TARGET_FATAL = "target_fatal"  # no further call until an operator acts
    TARGET_RECOVERED = "target_recovered"
    TARGET_DISABLED = "target_disabled"
    TARGET_ENABLED = "target_enabled"
    TARGET_PAUSED = "target_paused"
    TARGET_RESUMED = "target_resumed"
    TARGET_CLEARED = "target_cleared"  # the user reconnected: all state of the key is removed
    OWN_LINK_LOST = "own_link_lost"  # many hosts fail together, so the local network is down
    OWN_LINK_BACK = "own_link_back"
    NOTICE = "notice"


class NoticeKind(StrEnum):
    FATAL = "fatal"
    CAP = "cap"
    DISABLED = "disabled"  # suspended after too many failures
    RECOVERED = "recovered"
    OWN_LINK = "own_link"
    CLOCK = "clock"  # the clock of a machine was set forward or back


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
    """A message for a user, once per episode. The start of an episode identifies it."""

    kind: NoticeKind
    target: str
    key: Hashable = None
    operation: str | None = None
    episode: float
    title: str
    message: str
    advice: str = ""  # what the user can do; the message ends with it
    code: str = ""

    @property
    def icon(self) -> str:
        return _ICONS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a target."""

    kind: EventKind
    at: float  # UNIX time
    target: str
    key: Hashable = None
    operation: str | None = None
    user: Hashable = None  # the recipient; None: no particular user
    fault: Fault | None = None
    notice: Notice | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


# -- bus ------------------------------------------------------------------------------------------------------------

_log = logger("tidegate.bus")

_PRUNE_EVERY = 100  # new subscribers, or the number of users if that is larger

Sink = Callable[[Event], object]


class Subscription:
    """The events of one user, or of all users, since `with` was entered.

    `for` and `async for` wait for the next event until it is closed. `drain()` returns the waiting events.
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
        """Stops the subscription. A loop over it ends after the waiting events."""
        self._bus._remove(self._user, self)
        with self._ready:
            self._open = False
            self._wake()

    def drain(self) -> list[Event]:
        """Returns the waiting events."""
        with self._ready:
            events = list(self._events)
            self._events.clear()
            return events

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
            with suppress(RuntimeError):  # its loop is closed, so its waiter is gone
                loop.call_soon_threadsafe(signal.set)


class Bus:
    """The in-process bus: delivers each event to the sinks and to the subscribers of its user and of all users.

    Publishing never waits. A slow subscriber loses its oldest events.
    """

    def __init__(self) -> None:
        # Reentrant: garbage collection may run here, and a finalizer may publish.
        self._lock = threading.RLock()
        self._subscribers: dict[Hashable, WeakSet[Subscription]] = {}
        self._sinks: tuple[Sink, ...] = ()
        self._to_prune = _PRUNE_EVERY

    def subscribe(self, user: Hashable = None, *, limit: int = 100) -> Subscription:
        """Returns the events of *user*, or of all users, from `with` on. Up to *limit* events wait to be read."""
        return Subscription(self, user, whole(limit, field="limit"))

    def attach(self, sink: Sink) -> None:
        """Calls *sink* with every event, in the publishing thread. Attaching it again has no effect."""
        with self._lock:
            if sink not in self._sinks:
                self._sinks = (*self._sinks, sink)

    def detach(self, sink: Sink) -> None:
        with self._lock:
            self._sinks = tuple(other for other in self._sinks if other != sink)

    def publish(self, event: Event) -> None:
        """Delivers the event. Never waits and never raises."""
        for sink in self._sinks:
            try:
                sink(event)
            except Exception:  # a failing sink must not affect the guarded call
                _log.exception("sink_raised event=%s", event.kind)
        for subscription in self._interested(event.user):
            subscription._put(event)

    def _interested(self, user: Hashable) -> list[Subscription]:
        with self._lock:
            subscriptions = list(self._subscribers.get(None, ()))
            if user is not None:
                subscriptions += self._subscribers.get(user, ())
            return subscriptions

    def _add(self, user: Hashable, subscription: Subscription) -> None:
        with self._lock:
            self._to_prune -= 1
            if self._to_prune <= 0:
                self._prune_groups()
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
            self._prune_groups()
            return sum(len(group) for group in self._subscribers.values())

    def _prune_groups(self) -> None:
        """Removes the empty groups of subscribers that were dropped without being closed."""
        for user in [user for user, group in self._subscribers.items() if not group]:
            del self._subscribers[user]
        self._to_prune = max(_PRUNE_EVERY, len(self._subscribers))


DEFAULT = Bus()
subscribe = DEFAULT.subscribe
