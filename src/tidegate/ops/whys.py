"""A reason why something is not running, and every reason that there is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.machine.gate import EndedBy, HoldReason
from tidegate.ops.words import spell_duration


class WaitsFor(StrEnum):
    """Reasons that no gate has: those of the job itself."""

    DEPENDENCY = "dependency"
    SCHEDULED = "scheduled"
    NO_WORKER = "no_worker"
    RUNS_ALONE = "runs_alone"
    NEXT = "next_in_line"


# Every reason there is, in the order in which they are told.
REASONS: tuple[HoldReason | WaitsFor, ...] = (*HoldReason, *WaitsFor)
_ORDER = {reason: rank for rank, reason in enumerate(REASONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitReason:
    """One reason. Times are UNIX time; *until* is None when no time ends it."""

    reason: HoldReason | WaitsFor
    subject: str  # what it is about: "queue mail", "target spotify", "key 7 of spotify", "job 12"
    since: float | None
    until: float | None
    ended_by: EndedBy
    message: str  # for people

    def as_json(self) -> dict[str, Any]:
        return {
            "reason": str(self.reason), "subject": self.subject, "since": self.since, "until": self.until,
            "ended_by": str(self.ended_by), "message": self.message,
        }  # fmt: skip


def in_order(reasons: list[WaitReason]) -> list[WaitReason]:
    """The first reason first."""
    return sorted(reasons, key=lambda why: _ORDER[why.reason])


def soon(left: float) -> str:
    """When that is: in 5 min."""
    return f"in {spell_duration(left)}"
