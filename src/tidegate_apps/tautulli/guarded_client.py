"""Calls in threads of their own: whoever is to stop need not wait for Tautulli, and the next page comes beside one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeVar

import httpx2

from tidegate import Breaker, Target
from tidegate.apps import Installed
from tidegate_apps.tautulli.client import PACK, TARGET, ClientTiming, HistoryQuery, Tautulli
from tidegate_apps.tautulli.models import PlayHistory
from tidegate_apps.tautulli.settings import TautulliSettings

# The client behind its breaker, made when it is first needed: whoever only looks at the store has none.


class BreakerClock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Api:
    """Every call of Tautulli in this process goes through here, and so through one breaker."""

    def __init__(self, app: Installed[TautulliSettings], transport: httpx2.BaseTransport | None = None) -> None:
        self._app, self._transport = app, transport

    @cached_property
    def target(self) -> Target:
        queue = self._app.queue
        return Target(
            TARGET,
            "sync",
            rules=PACK,
            backoff=None,
            breaker=self._app.settings.breaker,
            clock=queue.clock,
            # Its page shows it to people; a virtual clock has no threads that could tell of it.
            store=None if queue.inline else queue.url,
        )

    def begin(self) -> None:
        """The numbers of the breaker are there from now on, not only from the first call on."""
        _ = self.target

    @cached_property
    def client(self) -> Tautulli:
        return self.target.wrap(bare_client(self._app, self._transport))

    @property
    def breaker(self) -> Breaker:
        found = self.target.breaker
        if found is None:  # the settings always have its numbers
            raise RuntimeError(f"the target {TARGET} has no breaker")
        return found

    def let_try(self) -> None:
        """A person asked: what stands in the way is forgotten, and the next call is a trial."""
        if self.target.unhealthy():
            self.target.clear()
        self.breaker.half_open()


def bare_client(app: Installed[TautulliSettings], transport: httpx2.BaseTransport | None = None) -> Tautulli:
    """The client without a gate. *transport*: for a Tautulli without sockets."""
    settings = app.settings
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it says every address, and the key is in it
    times = ClientTiming(begin=float(settings.timeout), total=float(settings.total), clock=app.queue.clock.monotonic)
    client = Tautulli(settings.url, settings.api_key.get_secret_value(), times, transport)
    app.closing.callback(client.close)
    return client


def picture(breaker: Breaker, clock: BreakerClock) -> dict[str, Any]:
    """The breaker in plain values, its times as UNIX time; what pages and commands read from the store."""
    offset, until = clock.now() - clock.monotonic(), breaker.until
    return {
        "state": breaker.state,
        "since": breaker.since + offset,
        "until": None if until is None else until + offset,
        "failures_in_a_row": breaker.run,
        **breaker.counts._asdict(),
    }


T = TypeVar("T")

_STOP_POLL_INTERVAL = 0.25  # seconds between two looks at whether to stop
_UNWIND = 1.0  # seconds for calls that were cut to end; one that cannot connect is left alone then


class SyncStopped(Exception):
    """The worker is to end; what was stored stays, and the next sync goes on from there."""


class BackgroundCall(Generic[T]):
    """A call in a thread. The program does not wait for it when it ends."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.come = Future[T]()
        threading.Thread(target=self._run, name="tautulli-call", daemon=True).start()

    def _run(self) -> None:
        try:
            found = self._call()
        except BaseException as error:
            self.come.set_exception(error)
        else:
            self.come.set_result(found)


def stoppable(client: Tautulli, stop: Callable[[], bool], call: Callable[[], T]) -> T:
    """What a call of the client returns or raises; Stopped as soon as it is to stop, and the call is cut then."""
    under_way = BackgroundCall(call).come
    try:
        return _waited(under_way, stop)
    finally:
        _cut(client, under_way)


class HistoryPage:
    """One that was asked for. Another may follow it, which is asked for when the answer to this one begins.

    So Tautulli makes one page at a time, and makes one while we read the one before.
    """

    def __init__(self, client: Tautulli, query: HistoryQuery, following: HistoryQuery | None = None) -> None:
        self.wanted, self.next = query, None
        self._client, self._following = client, following
        self._lock, self._begun = threading.Lock(), False
        self.come = BackgroundCall(lambda: client.get_history(query, self._begins)).come

    next: HistoryPage | None

    def followed_by(self, following: HistoryQuery | None) -> None:
        """By none, if none has been asked for yet."""
        with self._lock:
            self._following = following
            self._go_on()

    def _begins(self) -> None:
        with self._lock:
            self._begun = True
            self._go_on()

    def _go_on(self) -> None:
        if self._begun and self._following is not None and self.next is None:
            self.next = HistoryPage(self._client, self._following)


class HistoryPages:
    """Pages of the history, one after the other. Leaving the block cuts what is under way: its answer is dropped."""

    def __init__(self, client: Tautulli, stop: Callable[[], bool]) -> None:
        self._client, self._stop = client, stop
        self._last: HistoryPage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def get(self, query: HistoryQuery, following: HistoryQuery | None = None) -> PlayHistory:
        """What the client returns or raises, or Stopped. *following* is what is likely to be wanted next."""
        ahead = None if self._last is None else self._last.next
        if ahead is not None and ahead.wanted == query:
            self._last = ahead
            ahead.followed_by(following)
        else:
            self._drop()
            self._last = HistoryPage(self._client, query, following)
        return _waited(self._last.come, self._stop)

    def _drop(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.followed_by(None)
            _cut(self._client, last.come, *([] if last.next is None else [last.next.come]))


def _waited(come: Future[T], stop: Callable[[], bool]) -> T:
    while not come.done():
        if stop():
            raise SyncStopped
        wait((come,), _STOP_POLL_INTERVAL)
    return come.result()


def _cut(client: Tautulli, *calls: Future[T]) -> None:
    under_way = [call for call in calls if not call.done()]
    if under_way:
        client.lines.cut()
        wait(under_way, _UNWIND)
