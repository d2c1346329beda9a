"""Who did what, as rows: written with the change, the newest read first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.actor import Actor
from tidegate.core.redact import redact
from tidegate.store.tx import Row, Tx

RETENTION = 90 * 86_400.0  # seconds
# What people do that no event of a queue or a target is called after.
HELD, CLOSED = "breaker_held_open", "breaker_closed"
RETRIED, CANCELLED, FORGOTTEN = "job_retried", "job_cancelled", "job_forgotten"
ACCOUNTS = ("user", "token")  # subjects that only those see who manage people
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSubject:
    """What somebody did something to: a queue, a target or a key of it, a job, a bulk action, a notice, an account."""

    subject: str
    name: str
    lane: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that somebody did: how it was before, how it became, and why if they said so."""

    id: int
    at: float
    actor: str
    origin: str
    action: str
    place: AuditSubject
    was: Mapping[str, Any]
    became: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which of them; an empty text stands for any. *accounts*: also what was done to users and tokens."""

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
    was: Mapping[str, Any] | None = None,
    became: Mapping[str, Any] | None = None,
) -> None:
    """Writes down what *by* did, beside the change itself."""
    who = Actor.of(by)
    tx.query("activity_note", {
        "actor": str(who) or "nobody", "origin": str(who.origin), "action": action, "subject": subject.subject,
        "name": subject.name, "lane": subject.lane, "was": json.dumps(was or {}), "became": json.dumps(became or {}),
        "reason": redact(who.reason, _MAX_TEXT),
    })  # fmt: skip


def list_entries(tx: Tx, audit_filter: AuditFilter, limit: int, before: int = 2**62) -> list[AuditEntry]:
    """The newest first."""
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
    return [_deed(row) for row in rows]


def prune(tx: Tx, before: float, limit: int) -> int:
    """Removes a slice of what was done before then."""
    return len(tx.query("activity_prune", {"before": before, "n": limit}))


def _deed(row: Row) -> AuditEntry:
    id_, at, actor, origin, action, subject, name, lane, was, became, reason = row
    return AuditEntry(
        id=int(id_), at=at, actor=actor, origin=origin, action=action,
        place=AuditSubject(subject=subject, name=name, lane=lane), was=json.loads(was), became=json.loads(became),
        reason=reason,
    )  # fmt: skip
