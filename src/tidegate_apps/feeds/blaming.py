"""Whose fault it is that polls fail: our own network's, a host's, or the feed's; and what people are told of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.apps import DbTx
from tidegate.guard import NetworkGuardPolicy
from tidegate_apps.feeds import poll_log, telling
from tidegate_apps.feeds.hosts import HostGuard
from tidegate_apps.feeds.matrix import PollError
from tidegate_apps.feeds.own_link import FeedNetworkGuard
from tidegate_apps.feeds.verdicts import FeedState


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
        self._heard = [host for host in self.of_hosts if tx.tell(telling.host(*host, at))]
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
