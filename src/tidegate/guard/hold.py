"""Holds: the reasons why a call may not go now, and their order."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import Held


class HoldReason(StrEnum):
    """Why a gate holds calls, in gate order."""

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
    """What ends a hold."""

    TIME = "time"
    PERSON = "person"
    PROBE = "probe"
    CALL = "call"  # when a call in progress ends
    JOB = "job"  # when another job ends
    WORKER = "worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One reason why a call may not go now. *until* is None if time does not end it."""

    reason: HoldReason
    since: float
    until: float | None
    ended_by: EndedBy = EndedBy.TIME
    operation: str | None = None
    code: str | None = None
    message: str = ""  # for users

    def error(self, target: str, key: Hashable, now: float) -> Held:
        """Returns the exception for a held call."""
        left = None if self.until is None else max(0.0, self.until - now)
        return Held(target, key, str(self.reason), self.since, self.until, left)


_RANKS = {reason: rank for rank, reason in enumerate(HoldReason)}


def rank(hold: Hold) -> int:
    """The position in the order of the gates."""
    return _RANKS[hold.reason]
