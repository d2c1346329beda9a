"""Whose fault it is that polls fail: our own network's, a host's, or the feed's; and what people are told of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.apps import DbTx
from tidegate.guard import SelfGuard
from tidegate_apps.feeds import poll_log, telling
from tidegate_apps.feeds.hosts import Hosts
from tidegate_apps.feeds.matrix import PollError
from tidegate_apps.feeds.own_link import Link
from tidegate_apps.feeds.verdicts import FeedState


@dataclass(slots=True)
class News:
    """What people have not heard: `tell` it in a transaction, and say that they were `told` when that has ended."""

    _link: Link
    _hosts: Hosts
    lost: bool
    of_link: bool
    of_hosts: list[tuple[str, str]]
    _heard: list[tuple[str, str]] = field(default_factory=list)  # what they did not know

    def tell(self, tx: DbTx, at: float) -> None:
        self._heard = [each for each in self.of_hosts if tx.tell(telling.host(*each, at))]
        if self.of_link and self.lost:
            tx.tell(telling.own_link(at))
        elif self.of_link:
            tx.settled(telling.TARGET, "")

    def told(self) -> None:
        self._hosts.told(self.of_hosts)
        for name, kind in self._heard:
            poll_log.host(name, kind)
        if self.of_link:
            first, self._link.told = self._link.told is None, self.lost
            if self.lost or not first:  # that it is well is news only to whom it was said to be lost
                poll_log.link(self.lost)


class Blame:
    """What is known of our own network and of hosts, from one turn of polling to the next."""

    def __init__(self, guard: SelfGuard | None, *, hosts: bool) -> None:
        self._link, self._hosts = Link(guard), Hosts(on=hosts)

    def usual(self, polls_per_second: float) -> None:
        self._link.usual(polls_per_second)

    def answered(self, state: FeedState, now: float) -> None:
        self._link.answered(state, now)
        self._hosts.answered(state, now)

    def failed(self, state: FeedState, error: PollError, now: float) -> tuple[bool, bool]:
        """Whether this failure is our own, and else whether it is its host's."""
        own = self._link.failed(state, error, now)
        return own, not own and self._hosts.failed(state, error, now)

    def news(self) -> News:
        return News(self._link, self._hosts, self._link.lost, self._link.news, self._hosts.news())
