"""What a worker knows of a target: its numbers. Its state is in the store, for all workers alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidegate.core.backoff import Backoff
from tidegate.core.policy import Cooldown
from tidegate.core.rate import Rate
from tidegate.core.rule import Pack
from tidegate.machine.trip import BreakerPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRules:
    """The numbers of one target, for claims and for settling."""

    name: str
    pack: Pack | None = None
    backoff: Backoff | None = None  # None: a failing job waits by itself, its lane does not
    cooldown: Cooldown | None = None
    breaker: BreakerPolicy | None = None
    rate: Rate | None = None
    concurrency: int | None = None
    behind: str = "hold"
    most_asked: float = 3600.0
    reprobe: float | None = 3600.0
    probe: Callable[[], Any] | None = None
    probe_every: float = 10.0
    capacity: Any = None

    @property
    def limited(self) -> bool:
        """Whether its row must be read before a claim."""
        return self.breaker is not None or self.rate is not None or self.concurrency is not None
