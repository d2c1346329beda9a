"""How many calls a target may get in a time."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.duration import Duration, seconds


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
        if isinstance(self.count, bool) or not isinstance(self.count, (int, float)) or not 0 < self.count < 1e9:
            raise ValueError(f"Rate.count: {self.count!r} is not allowed; give a number above 0")
        if isinstance(self.burst, bool) or not isinstance(self.burst, int) or self.burst < 1:
            raise ValueError(f"Rate.burst: {self.burst!r} is not allowed; give a whole number from 1")
        object.__setattr__(self, "per", seconds(self.per, field="Rate.per", least=0.001))

    @property
    def spacing(self) -> float:
        """Seconds from one call to the next when they come evenly."""
        return seconds(self.per) / self.count

    def wait(self, paid_until: float, now: float) -> float:
        """Seconds until the next call may go; *paid_until* is what the calls so far have used up."""
        return max(0.0, paid_until - (self.burst - 1) * self.spacing - now)

    def pay(self, paid_until: float, now: float) -> float:
        """The new *paid_until* after one more call."""
        return max(paid_until, now) + self.spacing
