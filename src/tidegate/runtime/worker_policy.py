"""The numbers of a worker, and what it has done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.job import StoredState


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPolicy:
    """The numbers of a worker."""

    concurrency: int = 20
    lease: float = 30.0
    renew_every: float = 10.0
    margin: float = 5.0  # stops touching the outside so long before the lease ends
    poll_every: float = 1.0  # looks even if nobody woke it
    sweep_every: float = 5.0
    listen_every: float = 1.0  # between two looks for jobs that a person wants stopped
    grace: float = 20.0  # how long running handlers may finish after a stop
    retention: Mapping[str, Mapping[StoredState, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("lease", "renew_every", "margin", "poll_every", "sweep_every", "listen_every"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: {getattr(self, name)!r} is no number of seconds above 0")
        if not 0 <= self.grace < math.inf:
            raise ValueError(f"grace: {self.grace!r} is no number of seconds")
        if self.renew_every + self.margin >= self.lease:
            raise ValueError(
                f"lease: {self.lease:g} s end before a renewal every {self.renew_every:g} s and "
                f"{self.margin:g} s of margin; give a longer one"
            )

    @property
    def unwind(self) -> float:
        """Seconds that a cancelled handler has to clean up, before its job is given back without it."""
        return min(5.0, max(0.5, self.grace / 4))

    @property
    def longest_stop(self) -> float:
        """Seconds after which a stop is over, whatever hangs."""
        return self.grace + self.unwind + 2.0


@dataclass(slots=True)
class WorkerStats:
    """What a worker has done."""

    done: int = 0
    again: int = 0
    failed: int = 0
    cancelled: int = 0
    given_back: int = 0
    held: int = 0  # of those given back: a gate inside the handler was shut
    lost: int = 0
