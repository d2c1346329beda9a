"""Feeds whose poll is due and has not begun: one of a host after the other, the hosts in turns. Pure."""

from __future__ import annotations

from collections import deque

from tidegate_apps.feeds import dues
from tidegate_apps.feeds.verdicts import FeedState

Place = tuple[FeedState, float]  # a feed, and when what is known of it was read


class HostQueues:
    """A line for each host, and a line of the hosts that nobody asks at the moment."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Place]] = {}
        self._hosts: deque[str] = deque()  # that have something waiting, and nothing under way
        self._asked: set[str] = set()  # that have something under way

    @property
    def hosts(self) -> int:
        """Hosts that can be asked now."""
        return len(self._hosts)

    def put(self, state: FeedState, read: float) -> None:
        line = self._lines.setdefault(state.host, deque())
        line.append((state, read))
        if len(line) == 1 and state.host not in self._asked:
            self._hosts.append(state.host)

    def put_first(self, state: FeedState, read: float) -> None:
        """Before all others, because somebody waits for it; one that is in line already comes forward."""
        line = self._lines.setdefault(state.host, deque())
        old = next((each for each in line if each[0].source_id == state.source_id), None)
        if old is not None and old[0].due_at == dues.POLL_NOW:
            return
        if old is not None:
            line.remove(old)
        line.appendleft((state, read))
        if state.host not in self._asked:
            if state.host in self._hosts:
                self._hosts.remove(state.host)
            self._hosts.appendleft(state.host)

    def __contains__(self, state: FeedState) -> bool:
        return any(each.source_id == state.source_id for each, _ in self._lines.get(state.host, ()))

    def take(self) -> Place:
        """The next one, if there are `hosts`; nothing else of its host is given out before that is `free`."""
        host = self._hosts.popleft()
        line = self._lines[host]
        found = line.popleft()
        if not line:
            del self._lines[host]
        self._asked.add(host)
        return found

    def free(self, host: str) -> None:
        """What was under way at this host has ended."""
        self._asked.discard(host)
        if host in self._lines:
            first = self._lines[host][0][0].due_at == dues.POLL_NOW
            (self._hosts.appendleft if first else self._hosts.append)(host)
