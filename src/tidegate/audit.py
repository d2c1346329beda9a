"""The audit log: actors, rows and the list of changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from tidegate.faults.redaction import redact
from tidegate.store import base
from tidegate.store.base import ResultPage, Row, Tx
from tidegate.validation import JsonObject

# Actions without a user are recorded under these names. No account may have one.
SYSTEM_ACTORS = frozenset(
    {
        "auto",
        "breaker",
        "clock",
        "intake",
        "local",
        "nobody",
        "parent",
        "person",
        "probe",
        "restore",
        "settings",
        "somebody",
        "sweeper",
        "worker",
    }
)


def user_actor(name: str) -> str:
    """Returns the actor name of a user who was authenticated elsewhere. It is never a system name."""
    return f"user {name}" if name.casefold() in SYSTEM_ACTORS else name


class Origin(StrEnum):
    """The interface that the actor used."""

    PAGE = "page"
    API = "api"
    CLI = "cli"
    PROGRAM = "program"


class Actor(str):
    """The name of an actor, with its origin and the reason for the action.

    It is a str, so code that only needs the name can use it directly.
    """

    __slots__ = ("origin", "reason")

    origin: Origin
    reason: str

    def __new__(cls, name: str, origin: Origin = Origin.PROGRAM, reason: str = "") -> Self:
        made = super().__new__(cls, name)
        made.origin = origin
        made.reason = reason
        return made

    @classmethod
    def of(cls, by: str) -> Actor:
        """Returns *by*, or an Actor for a plain name."""
        return by if isinstance(by, Actor) else cls(by)

    def because(self, reason: str) -> Actor:
        """Returns the same actor with a reason."""
        return Actor(str(self), self.origin, reason)


# -- entries -----------------------------------------------------------------------------------------------------------

RETENTION = 90 * 86_400.0  # seconds
# Actions that are not named after an event of a queue or a target.
HELD, CLOSED = "breaker_held_open", "breaker_closed"
RETRIED, CANCELLED, FORGOTTEN = "job_retried", "job_cancelled", "job_forgotten"
ACCOUNTS = ("user", "token")  # subjects that only user administrators see
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSubject:
    """The subject of an action: a queue, a target or its key, a job, a bulk action, a notice or an account."""

    subject: str
    name: str
    lane: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action: the state before and after, and the reason if one was given."""

    id: int
    at: float
    actor: str
    origin: str
    action: str
    place: AuditSubject
    was: JsonObject
    became: JsonObject
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Criteria for entries. An empty string matches any. *accounts*: include actions on users and tokens."""

    actor: str = ""
    action: str = ""
    origin: str = ""
    subject: str = ""
    name: str = ""
    earliest: float = 0.0
    latest: float = field(default=1e18)
    accounts: bool = False


def append_entry(
    tx: Tx,
    by: str,
    action: str,
    subject: AuditSubject,
    *,
    was: JsonObject | None = None,
    became: JsonObject | None = None,
) -> None:
    """Records an action of *by* in the transaction of the change."""
    actor = Actor.of(by)
    tx.query(
        "activity_note",
        {
            "actor": str(actor) or "nobody",
            "origin": str(actor.origin),
            "action": action,
            "subject": subject.subject,
            "name": subject.name,
            "lane": subject.lane,
            "was": json.dumps(was or {}),
            "became": json.dumps(became or {}),
            "reason": redact(actor.reason, _MAX_TEXT),
        },
    )


def list_entries(tx: Tx, audit_filter: AuditFilter, limit: int, before: int = 2**62) -> list[AuditEntry]:
    """Returns the matching entries with an id below *before*, newest first."""
    rows = tx.query(
        "activity",
        {
            "before": before,
            "earliest": audit_filter.earliest,
            "latest": audit_filter.latest,
            "actor": audit_filter.actor,
            "action": audit_filter.action,
            "origin": audit_filter.origin,
            "subject": audit_filter.subject,
            "name": audit_filter.name,
            "accounts": int(audit_filter.accounts),
            "n": limit,
        },
    )
    return [_entry(row) for row in rows]


def prune(tx: Tx, before: float, limit: int) -> int:
    """Deletes up to *limit* entries from before *before*."""
    return len(tx.query("activity_prune", {"before": before, "n": limit}))


def _entry(row: Row) -> AuditEntry:
    id_, at, actor, origin, action, subject, name, lane, was, became, reason = row
    return AuditEntry(
        id=int(id_),
        at=at,
        actor=actor,
        origin=origin,
        action=action,
        place=AuditSubject(subject=subject, name=name, lane=lane),
        was=json.loads(was),
        became=json.loads(became),
        reason=reason,
    )


# -- list --------------------------------------------------------------------------------------------------------------

# The verb of a sentence: ann ... the queue mail.
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
    "queue": "the queue {}",
    "target": "{}",
    "job": "job {}",
    "bulk": "bulk action {}",
    "notice": "notice {}",
    "user": "the user {}",
    "token": "the token {}",
}
ORIGINS: Mapping[str, str] = {"page": "page", "api": "API", "cli": "command line", "program": "program"}
# Templates for parts of a state. A part without a template is shown with its name.
_SAID: Mapping[str, str] = {
    "state": "{}",
    "role": "{}",
    "until": "until {}",
    "by": "by {}",
    "action": "{}",
    "jobs": "{} jobs",
    "listed": "{} listed",
    "left": "{} left as they were",
    "done": "{} done",
}
_ONE: Mapping[str, str] = {"jobs": "{} job"}
_HIDDEN = ("filter", "kind")
_MARK = "a"  # of cursors


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One entry with its text."""

    deed: AuditEntry

    @property
    def what(self) -> str:
        """Returns the action and its subject: "paused the queue mail"."""
        return f"{ACTIONS.get(self.deed.action, self.deed.action.replace('_', ' '))} {subject_name(self.deed.place)}"

    def before(self, moment: Callable[[float], str]) -> str:
        return format_state(self.deed.was, moment)

    def after(self, moment: Callable[[float], str]) -> str:
        return format_state(self.deed.became, moment)

    def as_json(self) -> JsonObject:
        deed = self.deed
        return {
            "id": deed.id,
            "at": deed.at,
            "actor": deed.actor,
            "origin": deed.origin,
            "action": deed.action,
            "subject": deed.place.subject,
            "name": deed.place.name,
            "key": deed.place.lane,
            "before": dict(deed.was),
            "after": dict(deed.became),
            "reason": deed.reason,
            "says": f"{deed.actor} {self.what}",
        }


def list_activity(
    tx: Tx, audit_filter: AuditFilter, *, cursor: str | None = None, limit: int = 50
) -> ResultPage[AuditLine]:
    """Returns a page of matching entries, newest first. Raises ValueError for an invalid cursor."""
    entries = list_entries(tx, audit_filter, limit + 1, base.read_cursor(cursor, _MARK))
    lines = [AuditLine(entry) for entry in entries[:limit]]
    return ResultPage(lines, base.write_cursor(_MARK, entries[limit - 1].id) if len(entries) > limit else None)


def subject_name(subject: AuditSubject) -> str:
    """Returns the name of a subject in a sentence."""
    text = SUBJECTS.get(subject.subject, "{}").format(subject.name)
    return f"key {subject.lane} of {text}" if subject.lane else text


def format_state(state: JsonObject, moment: Callable[[float], str]) -> str:
    """Describes a state in a few words. Empty if nothing is known."""
    parts = []
    for name, value in state.items():
        if value in (None, "") or name in _HIDDEN:
            continue
        shown = moment(float(value)) if name == "until" else f"{value:,}" if isinstance(value, int) else str(value)
        words = _ONE[name] if value == 1 and name in _ONE else _SAID.get(name, f"{name} {{}}")
        parts.append(words.format(shown))
    return ", ".join(parts)
