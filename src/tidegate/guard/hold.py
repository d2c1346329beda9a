"""May we go now? The answers, and their order."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import Held


class HoldReason(StrEnum):
    """Why a gate is shut, in the order in which it is asked."""

    PAUSED = "paused"
    FATAL = "fatal"
    COOLDOWN = "cooldown"
    BACKOFF = "backoff"
    RETRY_AFTER = "retry_after"
    BREAKER = "breaker"
    CAPACITY = "capacity"
    RATE = "rate"
    CONCURRENCY = "concurrency"


class EndedBy(StrEnum):
    """Who or what lets it go on."""

    TIME = "time"
    PERSON = "person"
    PROBE = "probe"
    CALL = "call"  # when a call that is under way comes back
    JOB = "job"  # when another job is done
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One reason why a call may not go now. *until* is None when time alone does not end it."""

    reason: HoldReason
    since: float
    until: float | None
    ended_by: EndedBy = EndedBy.TIME
    operation: str | None = None
    code: str | None = None
    message: str = ""  # for people

    def error(self, target: str, key: Hashable, now: float) -> Held:
        """The exception that a held call raises."""
        left = None if self.until is None else max(0.0, self.until - now)
        return Held(target, key, str(self.reason), self.since, self.until, left)


_RANKS = {reason: rank for rank, reason in enumerate(HoldReason)}


def rank(hold: Hold) -> int:
    """Where it stands in the order of the gate."""
    return _RANKS[hold.reason]
