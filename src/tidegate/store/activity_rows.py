"""Who did what, as rows: written with the change, the newest read first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.actor import Actor
from tidegate.core.redact import redacted
from tidegate.store.tx import Row, Tx

KEPT = 90 * 86_400.0  # seconds
# What people do that no event of a queue or a target is called after.
HELD, CLOSED = "breaker_held_open", "breaker_closed"
RETRIED, CANCELLED, FORGOTTEN = "job_retried", "job_cancelled", "job_forgotten"
ACCOUNTS = ("user", "token")  # subjects that only those see who manage people
_MOST_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What somebody did something to: a queue, a target or a key of it, a job, a bulk action, a notice, an account."""

    subject: str
    name: str
    lane: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One thing that somebody did: how it was before, how it became, and why if they said so."""

    id: int
    at: float
    actor: str
    origin: str
    action: str
    place: Place
    was: Mapping[str, Any]
    became: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which of them; an empty text stands for any. *accounts*: also what was done to users and tokens."""

    actor: str = ""
    action: str = ""
    origin: str = ""
    subject: str = ""
    name: str = ""
    earliest: float = 0.0
    latest: float = field(default=1e18)
    accounts: bool = False


def note(
    tx: Tx,
    by: str,
    action: str,
    place: Place,
    *,
    was: Mapping[str, Any] | None = None,
    became: Mapping[str, Any] | None = None,
) -> None:
    """Writes down what *by* did, beside the change itself."""
    who = Actor.of(by)
    tx.all("activity_note", {
        "actor": str(who) or "nobody", "origin": str(who.origin), "action": action, "subject": place.subject,
        "name": place.name, "lane": place.lane, "was": json.dumps(was or {}), "became": json.dumps(became or {}),
        "reason": redacted(who.reason, _MOST_TEXT),
    })  # fmt: skip


def listed(tx: Tx, wanted: Wanted, most: int, before: int = 2**62) -> list[Deed]:
    """The newest first."""
    rows = tx.all("activity", {
        "before": before, "earliest": wanted.earliest, "latest": wanted.latest, "actor": wanted.actor,
        "action": wanted.action, "origin": wanted.origin, "subject": wanted.subject, "name": wanted.name,
        "accounts": int(wanted.accounts), "n": most,
    })  # fmt: skip
    return [_deed(row) for row in rows]


def prune(tx: Tx, before: float, most: int) -> int:
    """Removes a slice of what was done before then."""
    return len(tx.all("activity_prune", {"before": before, "n": most}))


def _deed(row: Row) -> Deed:
    id_, at, actor, origin, action, subject, name, lane, was, became, reason = row
    return Deed(
        id=int(id_), at=at, actor=actor, origin=origin, action=action,
        place=Place(subject=subject, name=name, lane=lane), was=json.loads(was), became=json.loads(became),
        reason=reason,
    )  # fmt: skip
