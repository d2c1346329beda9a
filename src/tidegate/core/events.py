"""What changed, in the past tense, and what a person should read of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.core.fault import Fault


class EventKind(StrEnum):
    """Every event there is."""

    CALL_FAILED = "call_failed"  # one call failed; its fault says how
    BREAKER_STATE_CHANGED = "breaker_state_changed"
    TARGET_FATAL = "target_fatal"  # no further call until a person acts
    TARGET_RECOVERED = "target_recovered"
    TARGET_DISABLED = "target_disabled"
    TARGET_ENABLED = "target_enabled"
    TARGET_PAUSED = "target_paused"
    TARGET_RESUMED = "target_resumed"
    TARGET_CLEARED = "target_cleared"  # a person reconnected: all state of the key is forgotten
    OWN_LINK_LOST = "own_link_lost"  # so many hosts fail at once that it must be our own network
    OWN_LINK_BACK = "own_link_back"
    NOTICE = "notice"


class NoticeKind(StrEnum):
    FATAL = "fatal"
    CAP = "cap"
    DISABLED = "disabled"  # it rests, because it failed too often
    RECOVERED = "recovered"
    OWN_LINK = "own_link"
    CLOCK = "clock"  # of a machine, which was set ahead or back


_ICONS = {
    NoticeKind.FATAL: "error",
    NoticeKind.CAP: "warning",
    NoticeKind.DISABLED: "warning",
    NoticeKind.OWN_LINK: "warning",
    NoticeKind.CLOCK: "warning",
    NoticeKind.RECOVERED: "success",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a person should read, once per episode. An episode is named by when it began."""

    kind: NoticeKind
    target: str
    key: Hashable = None
    operation: str | None = None
    episode: float
    title: str
    message: str
    advice: str = ""  # what can be done; the message ends with it
    code: str = ""

    @property
    def icon(self) -> str:
        return _ICONS[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a target, with what belongs to it."""

    kind: EventKind
    at: float  # UNIX time
    target: str
    key: Hashable = None
    operation: str | None = None
    user: Hashable = None  # who is told; None: nobody in particular
    fault: Fault | None = None
    notice: Notice | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
