"""Whether it is our own network that is down, and no feed's fault."""

from __future__ import annotations

from dataclasses import replace

from tidegate import Fault, OwnLink, Place, SelfGuard
from tidegate_apps.feeds.telling import TARGET
from tidegate_apps.feeds.verdicts import FeedState

_ENOUGH = 2.0  # times as many polls in the window as there must be hosts
_LONGEST = 1800.0


class Link:
    """The core's guard, for feeds: their polls may be far apart.

    What was found to be lost stays so until something answers. And where so few feeds are polled that the usual window
    would never see enough hosts, it is as long as it must be, up to half an hour.
    """

    def __init__(self, guard: SelfGuard | None) -> None:
        self._guard = guard
        self._link = None if guard is None else OwnLink(guard)
        self._within = 0.0 if guard is None else float(guard.within)  # type: ignore[arg-type]  # it made a number of it
        self.lost = False

    def usual(self, polls_per_second: float) -> None:
        """So many polls there are when all goes well."""
        if self._guard is None or polls_per_second <= 0:
            return
        usual = float(self._guard.within)  # type: ignore[arg-type]
        within = min(max(usual, _ENOUGH * self._guard.hosts / polls_per_second), max(usual, _LONGEST))
        if not 0.5 < within / self._within < 2:
            self._within = within
            self._link = OwnLink(replace(self._guard, within=within))

    def failed(self, state: FeedState, fault: Fault, now: float) -> bool:
        """Whether this failure is our own."""
        if self._link is None:
            return False
        before = self._link.failed(_place(state), fault, now)
        if fault.code != "network":
            self.lost = self._link.lost
            return False
        self.lost = self.lost or before
        return self.lost

    def answered(self, state: FeedState, now: float) -> None:
        if self._link is not None:
            self._link.answered(_place(state), now)
            self.lost = self._link.lost


def _place(state: FeedState) -> Place:
    return Place(TARGET, state.source_id, state.host)
