"""Calls behind the breaker, in threads: a stop need not wait for Tautulli, and the next page is prefetched."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cached_property
from typing import Generic, Protocol, Self, TypeVar

import httpx2

from tidegate import Breaker, Target
from tidegate.apps import Installed
from tidegate_apps.tautulli.client import PACK, TARGET, ClientTiming, HistoryQuery, Tautulli
from tidegate_apps.tautulli.models import PlayHistory
from tidegate_apps.tautulli.settings import TautulliSettings

# -- client and breaker, created at the first use ----------------------------------------------------------------------


class BreakerClock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class Api:
    """All calls to Tautulli in this process, behind one breaker."""

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
            # The page shows this target. In virtual time there are no threads that could report it.
            store=None if queue.inline else queue.url,
        )

    def begin(self) -> None:
        """Create the breaker, so that its metrics exist before the first call."""
        _ = self.target

    @cached_property
    def client(self) -> Tautulli:
        return self.target.wrap(bare_client(self._app, self._transport))

    @property
    def breaker(self) -> Breaker:
        breaker = self.target.breaker
        if breaker is None:  # the settings always define a breaker
            raise RuntimeError(f"the target {TARGET} has no breaker")
        return breaker

    def let_try(self) -> None:
        """Allow a probe: a user requested a sync, so the next call passes an open breaker."""
        if self.target.unhealthy():
            self.target.clear()
        self.breaker.half_open()


def bare_client(app: Installed[TautulliSettings], transport: httpx2.BaseTransport | None = None) -> Tautulli:
    """Return the client without a breaker. *transport* replaces sockets in tests."""
    settings = app.settings
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # httpx2 logs every URL, which contains the key
    times = ClientTiming(begin=float(settings.timeout), total=float(settings.total), clock=app.queue.clock.monotonic)
    client = Tautulli(settings.url, settings.api_key.get_secret_value(), times, transport)
    app.closing.callback(client.close)
    return client


def picture(breaker: Breaker, clock: BreakerClock) -> dict[str, object]:
    """Return the breaker as plain values with UNIX times, for pages and commands that read the store."""
    offset, until = clock.now() - clock.monotonic(), breaker.until
    return {
        "state": breaker.state,
        "since": breaker.since + offset,
        "until": None if until is None else until + offset,
        "failures_in_a_row": breaker.run,
        **breaker.counts._asdict(),
    }


T = TypeVar("T")

_STOP_POLL_INTERVAL = 0.25  # seconds between two checks for a stop
_UNWIND = 1.0  # seconds for aborted calls to end; a call that is still connecting is abandoned


class SyncStopped(Exception):
    """The worker stops. Stored rows stay, and the next sync continues from there."""


class BackgroundCall(Generic[T]):
    """A call in a daemon thread, which does not delay the exit of the program."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.come = Future[T]()
        threading.Thread(target=self._run, name="tautulli-call", daemon=True).start()

    def _run(self) -> None:
        try:
            result = self._call()
        except BaseException as error:
            self.come.set_exception(error)
        else:
            self.come.set_result(result)


def stoppable(client: Tautulli, stop: Callable[[], bool], call: Callable[[], T]) -> T:
    """Return the result of a call. On stop, abort the call and raise SyncStopped."""
    under_way = BackgroundCall(call).come
    try:
        return _waited(under_way, stop)
    finally:
        _abort(client, under_way)


class HistoryPage:
    """A requested page. The next one is requested when the response to this one begins.

    So Tautulli builds one page at a time, while we read the page before.
    """

    def __init__(self, client: Tautulli, query: HistoryQuery, following: HistoryQuery | None = None) -> None:
        self.wanted, self.next = query, None
        self._client, self._following = client, following
        self._lock, self._begun = threading.Lock(), False
        self.come = BackgroundCall(lambda: client.get_history(query, self._begins)).come

    next: HistoryPage | None

    def followed_by(self, following: HistoryQuery | None) -> None:
        """Set the page to prefetch, unless one was requested already."""
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
    """Pages of the history in sequence. Leaving the block aborts calls in flight and drops their responses."""

    def __init__(self, client: Tautulli, stop: Callable[[], bool]) -> None:
        self._client, self._stop = client, stop
        self._last: HistoryPage | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def get(self, query: HistoryQuery, following: HistoryQuery | None = None) -> PlayHistory:
        """Return a page, or raise the client's error or SyncStopped. *following* is the page to prefetch."""
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
            _abort(self._client, last.come, *([] if last.next is None else [last.next.come]))


def _waited(come: Future[T], stop: Callable[[], bool]) -> T:
    while not come.done():
        if stop():
            raise SyncStopped
        wait((come,), _STOP_POLL_INTERVAL)
    return come.result()


def _abort(client: Tautulli, *calls: Future[T]) -> None:
    under_way = [call for call in calls if not call.done()]
    if under_way:
        client.connections.abort()
        wait(under_way, _UNWIND)
