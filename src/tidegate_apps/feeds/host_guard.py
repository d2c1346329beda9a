"""Whether it is a host that fails, and not the feeds on it. Pure."""

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
MAX_EXCUSED_SECONDS = 24 * 3600.0  # seconds that a host is blamed in place of its feeds
_MIN_HOSTS_KEPT = 1000
_EXCUSED_TYPES = frozenset({ErrorType.NETWORK, ErrorType.UPSTREAM})


@dataclass(slots=True)
class _Host:
    seen: dict[int, tuple[float, str]] = field(default_factory=dict)  # by source: when, and the type or ""
    since: float | None = None  # it has failed since then
    told: bool | None = None  # what people have heard of it; None: nothing since the start
    type: str = ""

    def judged(self, now: float) -> None:
        self.seen = {id_: each for id_, each in self.seen.items() if now - each[0] <= MAX_EXCUSED_SECONDS}
        failed = Counter(kind for _, kind in self.seen.values() if kind).most_common(1)
        if len(self.seen) >= LEAST and failed and failed[0][1] >= SHARE * len(self.seen):
            self.since, self.type = now if self.since is None else self.since, failed[0][0]
        else:
            self.since = None


class HostGuard:
    """What is known of hosts with several feeds. A host is its name and port."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._hosts: dict[str, _Host] = {}
        self._news: set[str] = set()
        self._limit = _MIN_HOSTS_KEPT  # hosts; then those that are gone are forgotten

    def __len__(self) -> int:
        return len(self._hosts)

    def record_failure(self, state: FeedState, error: PollError, now: float) -> bool:
        """Whether this failure is its host's: then nothing is counted against the feed."""
        if not self._on or error.untyped:
            return False
        host = self._noted(state, str(error.type), now)
        return host.since is not None and error.type in _EXCUSED_TYPES and now - host.since < MAX_EXCUSED_SECONDS

    def record_answer(self, state: FeedState, now: float) -> None:
        if self._on:
            self._noted(state, "", now)

    def news(self) -> list[tuple[str, str]]:
        """Hosts of which people have not heard how they are: the type that they fail with, or "" when they are well."""
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
        """Hosts that no feed was polled at for long, and of which nobody has heard."""
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


# Whether it is our own network that is down, and no feed's fault.

_MIN_POLLS_PER_HOST = 2.0  # times as many polls in the window as there must be hosts
_MAX_WINDOW = 1800.0
_NOT_REACHED = (net.Unreachable, net.TooSlow)
_SAYS_NOTHING = (net.Refused, net.Busy)  # nothing was sent, so the link was not tried


class FeedNetworkGuard:
    """The core's guard, for feeds: their polls may be far apart.

    What was found to be lost stays so until something answers. And where so few feeds are polled that the usual window
    would never see enough hosts, it is as long as it must be, up to half an hour.
    """

    def __init__(self, guard: NetworkGuardPolicy | None) -> None:
        self._guard = guard
        self._link = None if guard is None else NetworkGuard(guard)
        self._within = 0.0 if guard is None else float(guard.within)  # type: ignore[arg-type]  # it made a number of it
        self.lost = False
        self.known = False  # something has answered, or so much has failed that it is lost
        self.told: bool | None = None  # what people have heard last of it; None: nothing since the start

    @property
    def news(self) -> bool:
        """Whether people have not heard of it yet."""
        return self.known and self.lost is not self.told

    def usual(self, polls_per_second: float) -> None:
        """So many polls there are when all goes well."""
        if self._guard is None or polls_per_second <= 0:
            return
        usual = float(self._guard.within)  # type: ignore[arg-type]
        within = min(max(usual, _MIN_POLLS_PER_HOST * self._guard.hosts / polls_per_second), max(usual, _MAX_WINDOW))
        if not 0.5 < within / self._within < 2:
            self._within = within
            self._link = NetworkGuard(replace(self._guard, within=within))

    def record_failure(self, state: FeedState, error: PollError, now: float) -> bool:
        """Whether this failure is our own."""
        if self._link is None or isinstance(error.cause, _SAYS_NOTHING) or error.untyped:
            return False
        if not isinstance(error.cause, _NOT_REACHED):
            self.record_answer(state, now)
            return False
        before = self._link.record_failure(_place(state), fault_of(error), now)
        self.lost = self.lost or before
        self.known = self.known or self.lost
        return self.lost

    def record_answer(self, state: FeedState, now: float) -> None:
        """Something came back, whatever it was."""
        if self._link is not None:
            self._link.record_answer(_place(state), now)
            self.lost = self._link.lost
            self.known = True


def _place(state: FeedState) -> Endpoint:
    return Endpoint(TARGET, state.source_id, state.host)


# Whose fault it is that polls fail: our own network's, a host's, or the feed's; and what people are told of it.


@dataclass(slots=True)
class GuardReport:
    """What people have not heard: `tell` it in a transaction, and say that they were `told` when that has ended."""

    _link: FeedNetworkGuard
    _hosts: HostGuard
    lost: bool
    of_link: bool
    of_hosts: list[tuple[str, str]]
    _heard: list[tuple[str, str]] = field(default_factory=list)  # what they did not know

    def tell(self, tx: DbTx, at: float) -> None:
        self._heard = [host for host in self.of_hosts if tx.tell(notices.host(*host, at))]
        if self.of_link and self.lost:
            tx.tell(notices.own_link(at))
        elif self.of_link:
            tx.settled(notices.TARGET, "")

    def told(self) -> None:
        self._hosts.told(self.of_hosts)
        for name, kind in self._heard:
            notices.log_host(name, kind)
        if self.of_link:
            first, self._link.told = self._link.told is None, self.lost
            if self.lost or not first:  # that it is well is news only to whom it was said to be lost
                notices.log_network(self.lost)


class FailureAttribution:
    """What is known of our own network and of hosts, from one turn of polling to the next."""

    def __init__(self, guard: NetworkGuardPolicy | None, *, hosts: bool) -> None:
        self._link, self._hosts = FeedNetworkGuard(guard), HostGuard(on=hosts)

    def usual(self, polls_per_second: float) -> None:
        self._link.usual(polls_per_second)

    def record_answer(self, state: FeedState, now: float) -> None:
        self._link.record_answer(state, now)
        self._hosts.record_answer(state, now)

    def record_failure(self, state: FeedState, error: PollError, now: float) -> tuple[bool, bool]:
        """Whether this failure is our own, and else whether it is its host's."""
        own = self._link.record_failure(state, error, now)
        return own, not own and self._hosts.record_failure(state, error, now)

    def report(self) -> GuardReport:
        return GuardReport(self._link, self._hosts, self._link.lost, self._link.news, self._hosts.news())
