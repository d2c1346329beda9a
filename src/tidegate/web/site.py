"""What the server shows: one queue, the applications on it, and the few settings that pages and API need."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Request

import tidegate
from tidegate.apps import Installed, StatusStrip
from tidegate.audit import Actor, Origin
from tidegate.errors import StoreError
from tidegate.faults.codes import CORE, CodeBook
from tidegate.jobs.queue import Queue
from tidegate.notices.dispatcher import NoticeDispatcher
from tidegate.store.base import Tx
from tidegate.web.proxies import is_loopback_name

if TYPE_CHECKING:
    from tidegate.web.auth import Authenticator


# The numbers of the stream that keeps pages up to date.


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePolicy:
    """Seconds, unless it says otherwise. A page calls itself stale after 12 s without a message."""

    poll_interval: float = 0.5  # at the latest; where the store tells that something was written, at once
    soonest: float = 0.25  # between two looks, however much is written
    beat: float = 4.0  # between two signs of life
    behind: float = 10.0  # for a client to take what it is sent; a slower one is dropped
    longest: float = 120.0  # then the browser connects again, and is checked again
    linger: float = 60.0  # goes on looking so long after the last client has left
    kept: int = 500  # messages that can be told again
    queued: int = 64  # looks and beats that may wait for one client
    max_subscribers: int = 2000  # clients at once


T = TypeVar("T")

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TRUSTED_PROXIES = ("127.0.0.1", "::1")
MAX_BODY = 1_000_000
_SOONEST, _LATEST = 1.0, 60.0


class StoreOutage:
    """How long the database has been away, and so when to ask again: as long as it already lasts, up to a minute."""

    __slots__ = ("_clock", "_lock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None

    def seen(self) -> float:
        """It is away; returns the seconds after which asking again makes sense."""
        with self._lock:
            now = self._clock()
            if self._since is None:
                self._since = now
            return float(math.ceil(min(max(now - self._since, _SOONEST), _LATEST)))

    def over(self) -> None:
        if self._since is not None:
            self._since = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPolicy:
    """The numbers of a stream of events, in seconds."""

    poll_interval: float = 0.5  # between two looks at the store
    heartbeat: float = 15.0  # between comments that keep the connection open
    send_within: float = 10.0  # for a client to take what it is sent; a slower one is dropped
    longest: float = 900.0  # then the browser connects again, and goes on where it was
    max_streams: int = 64  # streams at once


def acting(request: Request) -> Actor:
    """Who acts, as events name them, and whether on a page or through the API."""
    who = request.scope.get("tidegate.who")
    path = str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", "")))
    origin = Origin.API if path.startswith("/api/") else Origin.PAGE
    return Actor("nobody" if who is None else str(who.name), origin)


def _access() -> Authenticator:
    from tidegate.web.auth import Authenticator

    return Authenticator()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Site:
    """What `build` makes a server of.

    site = Site(queue=Queue("sqlite:///jobs.db"))
    app = build(site)

    *config*: the effective settings, one mapping each with name, value and origin, secrets masked. *hosts*: names that
    a request may be for, beside those of this machine. *base*: the path before everything, behind a proxy.
    *trusted_proxies*: addresses and networks whose X-Forwarded-For and X-Forwarded-Proto headers are used.
    *simulated*: where the services of an application are simulated, by its name; they are called instead.
    """

    queue: Queue
    telling: NoticeDispatcher | None = None
    apps: Sequence[Installed[Any]] = ()
    version: str = tidegate.__version__
    config: Callable[[], list[dict[str, Any]]] = list
    hosts: Sequence[str] = ()
    trusted_proxies: Sequence[str] = TRUSTED_PROXIES
    simulated: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    actor_of: Callable[[Request], str] = acting
    access: Authenticator = field(default_factory=_access)
    max_body: int = MAX_BODY
    visitor: str = ""  # who all are that come without a name; empty: each browser is somebody else
    streams: StreamPolicy = StreamPolicy()
    live: LivePolicy = field(default_factory=LivePolicy)
    outage: StoreOutage = field(init=False, repr=False)
    codes: CodeBook = field(init=False, repr=False)  # with those of every application

    def __post_init__(self) -> None:
        if self.base and (not self.base.startswith("/") or self.base.endswith("/")):
            raise ValueError(f"base: {self.base!r} is not allowed; give a path such as '/tidegate', or nothing")
        object.__setattr__(self, "outage", StoreOutage(self.queue.clock.monotonic))
        theirs = {code.name: code for there in self.apps for code in there.app.codes if code.name not in CORE}
        object.__setattr__(self, "codes", CORE.extend(*theirs.values()))

    @property
    def names(self) -> frozenset[str]:
        """The hosts that a request may be for."""
        return frozenset(name.lower().strip("[]").rstrip(".") for name in (*LOOPBACK, *self.hosts))

    @property
    def is_named(self) -> bool:
        """Whether it has a host that others may reach it by: then no request is trusted for being local."""
        return any(not is_loopback_name(name.lower().strip("[]").rstrip(".")) for name in self.hosts)

    def strips(self) -> list[StatusStrip]:
        """What stands above every page."""
        found = (app.app.strip(app) for app in self.apps if app.app.strip is not None)
        return [each for each in found if each is not None]

    def read(self, work: Callable[[Tx], T]) -> T:
        """What *work* reads; StoreError when the database is away, and then the page says since when."""
        return self._run_blocking(lambda: self.queue.store.read(work))

    def write(self, work: Callable[[Tx], T]) -> T:
        """What *work* changes, on disk when this returns; the workers are woken."""
        return self._run_blocking(lambda: self.queue.run_in_transaction(work))

    def _run_blocking(self, work: Callable[[], T]) -> T:
        try:
            found = work()
        except StoreError:
            self.outage.seen()
            raise
        self.outage.over()
        return found


def site_of(request: Request) -> Site:
    """The site that answers *request*."""
    site = request.app.state.site
    assert isinstance(site, Site)  # noqa: S101 - `build` put it there
    return site
