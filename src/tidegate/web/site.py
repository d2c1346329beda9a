"""`Site`: the queue, the installed applications and the settings that the server is built from."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePolicy:
    """Timing and limits of event streams, in seconds unless noted.

    A page shows as stale after 12 s of silence.
    """

    poll_interval: float = 0.5  # upper bound; the store usually signals a write earlier
    soonest: float = 0.25  # minimum between two reads, however often the store is written
    beat: float = 4.0  # between two heartbeats
    behind: float = 10.0  # for a client to read what was sent; a slower one is dropped
    longest: float = 120.0  # then the browser reconnects and its permission is checked again
    linger: float = 60.0  # keeps polling this long after the last client left
    kept: int = 500  # messages kept for replay
    queued: int = 64  # snapshots and heartbeats that may queue for one client
    max_subscribers: int = 2000  # concurrent browsers
    longest_follow: float = 900.0  # of a program that follows /api/v1/events; then it reconnects and resumes
    max_followers: int = 64  # concurrent programs that follow


T = TypeVar("T")

LOOPBACK = ("127.0.0.1", "::1", "localhost")
TRUSTED_PROXIES = ("127.0.0.1", "::1")
MAX_BODY = 1_000_000
_SOONEST, _LATEST = 1.0, 60.0


class StoreOutage:
    """How long the database has been unreachable. The suggested retry delay equals that time, up to one minute."""

    __slots__ = ("_clock", "_lock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None

    def seen(self) -> float:
        """Record that the database is unreachable. Return the seconds after which a retry makes sense."""
        with self._lock:
            now = self._clock()
            if self._since is None:
                self._since = now
            return float(math.ceil(min(max(now - self._since, _SOONEST), _LATEST)))

    def over(self) -> None:
        if self._since is not None:
            self._since = None


def acting(request: Request) -> Actor:
    """Return the actor for events and the audit log, and whether it used a page or the API."""
    principal = request.scope.get("tidegate.who")
    path = str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", "")))
    origin = Origin.API if path.startswith("/api/") else Origin.PAGE
    return Actor("nobody" if principal is None else str(principal.name), origin)


def _access() -> Authenticator:
    from tidegate.web.auth import Authenticator

    return Authenticator()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Site:
    """Everything that `build` needs to make a server.

    site = Site(queue=Queue("sqlite:///jobs.db"))
    app = build(site)

    *config* returns the effective settings: one mapping each with name, value and origin, secrets masked. *hosts* are
    host names that requests may use, in addition to loopback. *base* is the path prefix behind a proxy.
    *trusted_proxies* are addresses and networks whose X-Forwarded-For and X-Forwarded-Proto headers are used.
    *simulated* maps an application's name to the URL of its simulator, which is called instead of the real services.
    """

    queue: Queue
    telling: NoticeDispatcher | None = None
    apps: Sequence[Installed[Any]] = ()
    version: str = tidegate.__version__
    config: Callable[[], list[dict[str, object]]] = list
    hosts: Sequence[str] = ()
    trusted_proxies: Sequence[str] = TRUSTED_PROXIES
    simulated: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    actor_of: Callable[[Request], str] = acting
    access: Authenticator = field(default_factory=_access)
    max_body: int = MAX_BODY
    visitor: str = ""  # one id for all anonymous visitors; empty: each browser has its own
    live: LivePolicy = field(default_factory=LivePolicy)
    outage: StoreOutage = field(init=False, repr=False)
    codes: CodeBook = field(init=False, repr=False)  # core codes and those of the applications

    def __post_init__(self) -> None:
        if self.base and (not self.base.startswith("/") or self.base.endswith("/")):
            raise ValueError(f"base: {self.base!r} is not allowed; give a path such as '/tidegate', or nothing")
        object.__setattr__(self, "outage", StoreOutage(self.queue.clock.monotonic))
        theirs = {code.name: code for installed in self.apps for code in installed.app.codes if code.name not in CORE}
        object.__setattr__(self, "codes", CORE.extend(*theirs.values()))

    @property
    def names(self) -> frozenset[str]:
        """Return the host names that a request may use."""
        return frozenset(name.lower().strip("[]").rstrip(".") for name in (*LOOPBACK, *self.hosts))

    @property
    def is_named(self) -> bool:
        """Whether the server has a host name that other machines can reach.

        Then no request is trusted for being local.
        """
        return any(not is_loopback_name(name.lower().strip("[]").rstrip(".")) for name in self.hosts)

    def strips(self) -> list[StatusStrip]:
        """Return the status strips that every page shows at the top."""
        strips = (app.app.strip(app) for app in self.apps if app.app.strip is not None)
        return [strip for strip in strips if strip is not None]

    def read(self, work: Callable[[Tx], T]) -> T:
        """Run *work* in a read transaction.

        Raises StoreError when the database is unreachable, and records the outage.
        """
        return self._run_blocking(lambda: self.queue.store.read(work))

    def write(self, work: Callable[[Tx], T]) -> T:
        """Run *work* in a write transaction, committed on return, and wake the workers."""
        return self._run_blocking(lambda: self.queue.run_in_transaction(work))

    def _run_blocking(self, work: Callable[[], T]) -> T:
        try:
            result = work()
        except StoreError:
            self.outage.seen()
            raise
        self.outage.over()
        return result


def site_of(request: Request) -> Site:
    """Return the site that serves *request*."""
    site = request.app.state.site
    assert isinstance(site, Site)  # noqa: S101 - `build` put it there
    return site
