"""Whether it is a host that fails, and not the feeds on it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidegate_apps.feeds.matrix import ErrorType, PollError
from tidegate_apps.feeds.verdicts import FeedState

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
