"""Failure attribution: whether our network, a host or a single feed is failing. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from tidegate import net
from tidegate.apps import DbTx
from tidegate.guard import Endpoint, NetworkGuard, NetworkGuardPolicy
from tidegate_apps.feeds import notices
from tidegate_apps.feeds.codes import ErrorType, PollError, fault_of
from tidegate_apps.feeds.notices import TARGET
from tidegate_apps.feeds.state import FeedState

LEAST, SHARE = 3, 0.6  # feeds of one host, and the share of them that fails with the same type
MAX_EXCUSED_SECONDS = 24 * 3600.0  # how long failures count against a host instead of its feeds
_MIN_HOSTS_KEPT = 1000
_EXCUSED_TYPES = frozenset({ErrorType.NETWORK, ErrorType.UPSTREAM})


@dataclass(slots=True)
class _Host:
    seen: dict[int, tuple[float, str]] = field(default_factory=dict)  # by source: time, and error type or ""
    since: float | None = None  # start of the failure
    told: bool | None = None  # the state that operators were last notified of; None: not since the start
    type: str = ""

    def judged(self, now: float) -> None:
        self.seen = {id_: poll for id_, poll in self.seen.items() if now - poll[0] <= MAX_EXCUSED_SECONDS}
        failed = Counter(kind for _, kind in self.seen.values() if kind).most_common(1)
        if len(self.seen) >= LEAST and failed and failed[0][1] >= SHARE * len(self.seen):
            self.since, self.type = now if self.since is None else self.since, failed[0][0]
        else:
            self.since = None


class HostGuard:
    """The state of hosts with several feeds. A host is a name and a port."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._hosts: dict[str, _Host] = {}
        self._news: set[str] = set()
        self._limit = _MIN_HOSTS_KEPT  # above this number of hosts, inactive ones are dropped

    def __len__(self) -> int:
        return len(self._hosts)

    def record_failure(self, state: FeedState, error: PollError, now: float) -> bool:
        """Return whether the host causes this failure. If so, nothing is counted against the feed."""
        if not self._on or error.untyped:
            return False
        host = self._noted(state, str(error.type), now)
        return host.since is not None and error.type in _EXCUSED_TYPES and now - host.since < MAX_EXCUSED_SECONDS

    def record_answer(self, state: FeedState, now: float) -> None:
        if self._on:
            self._noted(state, "", now)

    def news(self) -> list[tuple[str, str]]:
        """Return the hosts whose state changed since the last notice: the error type, or "" if the host recovered."""
        return [(name, self._type_of(name)) for name in sorted(self._news)]

    def told(self, news: list[tuple[str, str]]) -> None:
        for name, kind in news:
            self._hosts[name].told = bool(kind)
            if self._type_of(name) == kind:
                self._news.discard(name)

    def _noted(self, state: FeedState, kind: str, now: float) -> _Host:
        if len(self._hosts) >= self._limit:
            self._forget(now)
        host = self._hosts.setdefault(state.host, _Host())
        host.seen[state.source_id] = now, kind
        host.judged(now)
        if len(host.seen) >= LEAST and (host.since is not None) is not host.told:
            self._news.add(state.host)
        return host

    def _forget(self, now: float) -> None:
        """Drop hosts that were not polled for long and that no notice mentioned."""
        self._hosts = {
            name: host
            for name, host in self._hosts.items()
            if host.told is not None
            or name in self._news
            or any(now - at <= MAX_EXCUSED_SECONDS for at, _ in host.seen.values())
        }
        self._limit = max(_MIN_HOSTS_KEPT, 2 * len(self._hosts))

    def _type_of(self, name: str) -> str:
        host = self._hosts[name]
        return host.type if host.since is not None else ""


# -- our own network ---------------------------------------------------------------------------------------------------

_MIN_POLLS_PER_HOST = 2.0  # polls in the window, per host that it must see
_MAX_WINDOW = 1800.0
_NOT_REACHED = (net.Unreachable, net.TooSlow)
_SAYS_NOTHING = (net.Refused, net.Busy)  # nothing was sent, so the network was not tested


class FeedNetworkGuard:
    """The network guard of the core, for feeds, whose polls may be far apart.

    A lost network stays lost until a host responds. If the usual window would contain too few hosts, it is longer, up
    to half an hour.
    """

    def __init__(self, guard: NetworkGuardPolicy | None) -> None:
        self._guard = guard
        self._link = None if guard is None else NetworkGuard(guard)
        self._within = 0.0 if guard is None else float(guard.within)  # type: ignore[arg-type]  # it made a number of it
        self.lost = False
        self.known = False  # a host has responded, or enough polls failed to call the network lost
        self.told: bool | None = None  # the state that operators were last notified of; None: not since the start

    @property
    def news(self) -> bool:
        """Return whether operators have not been notified of the current state."""
        return self.known and self.lost is not self.told

    def usual(self, polls_per_second: float) -> None:
        """Set the normal number of polls per second."""
        if self._guard is None or polls_per_second <= 0:
            return
        usual = float(self._guard.within)  # type: ignore[arg-type]
        within = min(max(usual, _MIN_POLLS_PER_HOST * self._guard.hosts / polls_per_second), max(usual, _MAX_WINDOW))
        if not 0.5 < within / self._within < 2:
            self._within = within
            self._link = NetworkGuard(replace(self._guard, within=within))

    def record_failure(self, state: FeedState, error: PollError, now: float) -> bool:
        """Return whether our own network causes this failure."""
        if self._link is None or isinstance(error.cause, _SAYS_NOTHING) or error.untyped:
            return False
        if not isinstance(error.cause, _NOT_REACHED):
            self.record_answer(state, now)
            return False
        seen_lost = self._link.record_failure(Endpoint(TARGET, state.source_id, state.host), fault_of(error), now)
        self.lost = self.lost or seen_lost
        self.known = self.known or self.lost
        return self.lost

    def record_answer(self, state: FeedState, now: float) -> None:
        """Record that a host responded, with any status."""
        if self._link is not None:
            self._link.record_answer(Endpoint(TARGET, state.source_id, state.host), now)
            self.lost = self._link.lost
            self.known = True


# -- attribution and its notices ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class GuardReport:
    """State changes that need a notice. Call `tell` in a transaction, and `told` after the commit."""

    _link: FeedNetworkGuard
    _hosts: HostGuard
    lost: bool
    of_link: bool
    of_hosts: list[tuple[str, str]]
    _heard: list[tuple[str, str]] = field(default_factory=list)  # hosts in the notices of this transaction

    def tell(self, tx: DbTx, at: float) -> None:
        self._heard = [host for host in self.of_hosts if tx.tell(notices.host(*host, at))]
        if self.of_link and self.lost:
            tx.tell(notices.own_link(at))
        elif self.of_link:
            tx.settled(notices.TARGET, "")

    def told(self) -> None:
        self._hosts.told(self.of_hosts)
        for name, kind in self._heard:
            if kind:
                notices.log.warning("host_failing host=%s error_type=%s", name, kind)
            else:
                notices.log.info("host_well host=%s", name)
        if self.of_link:
            first, self._link.told = self._link.told is None, self.lost
            if self.lost:
                notices.log.warning("own_link_lost")
            elif not first:  # a healthy network is only worth a line after it was lost
                notices.log.info("own_link_back")


class FailureAttribution:
    """The state of our network and of hosts, across poller restarts."""

    def __init__(self, guard: NetworkGuardPolicy | None, *, hosts: bool) -> None:
        self.link, self._hosts = FeedNetworkGuard(guard), HostGuard(on=hosts)

    def record_answer(self, state: FeedState, now: float) -> None:
        self.link.record_answer(state, now)
        self._hosts.record_answer(state, now)

    def record_failure(self, state: FeedState, error: PollError, now: float) -> tuple[bool, bool]:
        """Return whether our network causes this failure, and else whether its host does."""
        own = self.link.record_failure(state, error, now)
        return own, not own and self._hosts.record_failure(state, error, now)

    def report(self) -> GuardReport:
        return GuardReport(self.link, self._hosts, self.link.lost, self.link.news, self._hosts.news())
