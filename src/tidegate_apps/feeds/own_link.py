"""Whether it is our own network that is down, and no feed's fault."""

from __future__ import annotations

from dataclasses import replace

from tidegate import net
from tidegate.guard import Endpoint, NetworkGuard, NetworkGuardPolicy
from tidegate_apps.feeds.matrix import PollError, fault_of
from tidegate_apps.feeds.telling import TARGET
from tidegate_apps.feeds.verdicts import FeedState

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
