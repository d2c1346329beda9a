"""How many calls a target may get in a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.core.checks import number, whole
from tidegate.core.duration import Duration, seconds

MIN_RATE, MAX_RATE = 1e-6, 1e9  # calls
_SET_BACK = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Rate:
    """*count* calls per *per*, of which *burst* may come at once.

    Rate(1, "1.1s")        # MusicBrainz
    Rate(120, "1m", burst=5)
    """

    count: float
    per: Duration = "1s"
    burst: int = 1

    def __post_init__(self) -> None:
        number(self.count, field="Rate.count", minimum=MIN_RATE, maximum=MAX_RATE)
        whole(self.burst, field="Rate.burst")
        object.__setattr__(self, "per", seconds(self.per, field="Rate.per", minimum=0.001))

    @property
    def spacing(self) -> float:
        """Seconds from one call to the next when they come evenly."""
        return seconds(self.per) / self.count

    def wait(self, paid_until: float, now: float) -> float:
        """Seconds until the next call may go; *paid_until* is what the calls so far have used up."""
        left = paid_until - (self.burst - 1) * self.spacing - now
        # Sums of spacings are not exact: a call that comes at its very time must not be late by a rounding.
        return left if left > 1e-6 * self.spacing else 0.0

    def used(self, kept: float | None, now: float) -> float:
        """The *paid_until* that a row has kept; None: no call has used anything yet.

        Nobody pays further ahead than a burst. What goes far beyond is from before the clock was set back, and would
        hold everything until it is there again; a little beyond is waited for, since a call too early is the worse one.
        """
        return -math.inf if kept is None or kept > now + self.burst * self.spacing + _SET_BACK else kept

    def pay(self, paid_until: float, now: float) -> float:
        """The new *paid_until* after one more call."""
        return max(paid_until, now) + self.spacing
