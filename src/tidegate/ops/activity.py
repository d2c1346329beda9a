"""Who did what, from where, and how it was before and after: for people, the newest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.ops import cursors
from tidegate.ops.listing import ResultPage
from tidegate.store import activity_rows
from tidegate.store.activity_rows import AuditEntry, AuditFilter, AuditSubject
from tidegate.store.tx import Tx

# What somebody did, as the middle of a sentence: ann ... the queue mail.
ACTIONS: Mapping[str, str] = {
    "queue_paused": "paused",
    "queue_resumed": "resumed",
    "target_paused": "paused",
    "target_resumed": "resumed",
    "target_cleared": "cleared",
    "target_disabled": "disabled",
    "target_enabled": "enabled",
    "target_tested": "tested",
    "target_connected": "connected",
    "target_disconnected": "disconnected",
    "target_added": "added",
    "target_imported": "imported a list into",
    "target_changed": "changed",
    "target_removed": "removed",
    "target_asked": "asked for a call of",
    "target_retried": "retried what was given up of",
    "target_broken": "broke",
    "target_mended": "mended",
    "breaker_held_open": "held open the breaker of",
    "breaker_closed": "closed the breaker of",
    "breaker_reset": "reset the breaker of",
    "job_retried": "retried",
    "job_cancelled": "cancelled",
    "job_forgotten": "forgot",
    "bulk_started": "began",
    "bulk_cancelled": "cancelled",
    "notice_read": "read",
    "notice_snoozed": "snoozed",
    "user_added": "added",
    "user_role_changed": "changed the role of",
    "user_password_set": "set the password of",
    "user_address_set": "set the mail address of",
    "user_signed_out": "signed out",
    "user_removed": "removed",
    "token_made": "made",
    "token_removed": "removed",
}
SUBJECTS: Mapping[str, str] = {
    "queue": "the queue {}", "target": "{}", "job": "job {}", "bulk": "bulk action {}", "notice": "notice {}",
    "user": "the user {}", "token": "the token {}",
}  # fmt: skip
ORIGINS: Mapping[str, str] = {"page": "page", "api": "API", "cli": "command line", "program": "program"}
# How parts of a state are said; a part that is not here is said with its name.
_SAID: Mapping[str, str] = {
    "state": "{}", "role": "{}", "until": "until {}", "by": "by {}", "action": "{}", "jobs": "{} jobs",
    "listed": "{} listed", "left": "{} left as they were", "done": "{} done",
}  # fmt: skip
_ONE: Mapping[str, str] = {"jobs": "{} job"}
_HIDDEN = ("filter", "kind")
_MARK = "a"  # of its cursors


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One deed with its words."""

    deed: AuditEntry

    @property
    def what(self) -> str:
        """What was done to what: "paused the queue mail"."""
        return f"{ACTIONS.get(self.deed.action, self.deed.action.replace('_', ' '))} {subject_name(self.deed.place)}"

    def before(self, moment: Callable[[float], str]) -> str:
        return format_state(self.deed.was, moment)

    def after(self, moment: Callable[[float], str]) -> str:
        return format_state(self.deed.became, moment)

    def as_json(self) -> dict[str, Any]:
        deed = self.deed
        return {
            "id": deed.id, "at": deed.at, "actor": deed.actor, "origin": deed.origin, "action": deed.action,
            "subject": deed.place.subject, "name": deed.place.name, "key": deed.place.lane, "before": dict(deed.was),
            "after": dict(deed.became), "reason": deed.reason, "says": f"{deed.actor} {self.what}",
        }  # fmt: skip


def list_activity(
    tx: Tx, audit_filter: AuditFilter, *, cursor: str | None = None, limit: int = 50
) -> ResultPage[AuditLine]:
    """What matches, the newest first. ValueError for a cursor that is none."""
    found = activity_rows.list_entries(tx, audit_filter, limit + 1, cursors.read_cursor(cursor, _MARK))
    lines = [AuditLine(each) for each in found[:limit]]
    return ResultPage(lines, cursors.write_cursor(_MARK, found[limit - 1].id) if len(found) > limit else None)


def subject_name(subject: AuditSubject) -> str:
    """What it is about, in words."""
    text = SUBJECTS.get(subject.subject, "{}").format(subject.name)
    return f"key {subject.lane} of {text}" if subject.lane else text


def format_state(state: Mapping[str, Any], moment: Callable[[float], str]) -> str:
    """A state in a few words; empty when nothing is known of it."""
    parts = []
    for name, value in state.items():
        if value in (None, "") or name in _HIDDEN:
            continue
        shown = moment(float(value)) if name == "until" else f"{value:,}" if isinstance(value, int) else str(value)
        words = _ONE[name] if value == 1 and name in _ONE else _SAID.get(name, f"{name} {{}}")
        parts.append(words.format(shown))
    return ", ".join(parts)
