"""Rows of targets, keys and queues, and their event log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from tidegate.guard.breaker_state import CLOSED
from tidegate.guard.cooldown import FRESH, CooldownState
from tidegate.store.base import Row, Tx
from tidegate.targets.breaker import StoredBreaker

# The reason of a key that is not held: its row only counts failures, or stores when an operator cleared it.
NOT_HELD = "open"
_PASSING = (NOT_HELD, "backoff", "retry_after")
_IDLE, _IDLE_COUNTED = 86_400.0, 7 * 86_400.0  # seconds; the second if failures count towards a cooldown


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """The row of one target, which all workers share."""

    name: str
    paused_at: float | None = None
    paused_until: float | None = None
    paused_by: str | None = None
    breaker: StoredBreaker = field(default_factory=StoredBreaker)
    paid_until: float | None = None  # the time up to which its rate is used
    capacity: str | None = None  # JSON
    rules: str | None = None  # JSON: the policy, as its workers published it
    reported_at: float | None = None
    summary: str | None = None  # JSON: the last report of each program that guards it


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKeyHealth:
    """The row of one key that is or was unhealthy."""

    target: str
    lane: str
    reason: str = NOT_HELD
    since: float
    until: float | None = 0.0  # None: only an operator ends it
    failed_at: float = 0.0  # without failures: when an operator cleared it
    failures: int = 0
    code: str | None = None
    message: str | None = None
    told: int = 0
    rest: CooldownState = FRESH
    probe: int | None = None  # the job that is the probe; 0 before it is known

    @property
    def empty(self) -> bool:
        """Whether the row has no state that must be stored."""
        return self.reason == NOT_HELD and not self.failures and self.rest is FRESH and not self.failed_at

    def idle(self, now: float) -> bool:
        """Whether the key was unused for so long that its row can be pruned.

        A hold that only an operator ends is never idle. Nor is one with a notice, whose recovery must be sent.
        """
        if self.reason not in _PASSING or self.until is None or self.told or self.rest.disabled:
            return False
        remembered = _IDLE if self.rest is FRESH else _IDLE_COUNTED
        return now - max(self.until, self.since, self.failed_at) > remembered


@dataclass(frozen=True, slots=True)
class TargetEvent:
    """An event of a queue, a target or a key."""

    id: int
    at: float
    subject: str
    name: str
    lane: str | None
    kind: str
    actor: str
    fields: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "at": self.at,
            "subject": self.subject,
            "name": self.name,
            "key": self.lane,
            "kind": self.kind,
            "actor": self.actor,
            "fields": dict(self.fields),
        }


def target(tx: Tx, name: str) -> TargetRow | None:
    rows = tx.query("target", {"name": name})
    return target_of(rows[0]) if rows else None


def targets(tx: Tx) -> list[TargetRow]:
    return [target_of(row) for row in tx.query("targets")]


def lock_targets(tx: Tx, names: Iterable[str]) -> tuple[dict[str, TargetRow], float | None]:
    """Locks the rows of these targets, and creates missing ones. Returns them and the store's time."""
    wanted = sorted(set(names))
    if not wanted:
        return {}, None
    rows = _locked(tx, wanted)
    missing = [name for name in wanted if name not in {row[0] for row in rows}]
    if missing:
        for name in missing:
            tx.query("target_new", {"name": name})
        rows = _locked(tx, wanted)
    return {row[0]: target_of(row[:-1]) for row in rows}, float(rows[-1][-1])


def put_breaker(tx: Tx, name: str, was: StoredBreaker, now_is: StoredBreaker) -> None:
    tx.query(
        "target_moved",
        {
            "name": name,
            "was": was.generation,
            "breaker": now_is.state,
            "generation": now_is.generation,
            "since": now_is.since,
            "until": now_is.until,
            "counts": now_is.dump(),
            "closed_at": now_is.closed_at,
        },
    )


def hold(tx: Tx, target_name: str, key_text: str) -> StoredKeyHealth | None:
    rows = tx.query("hold", {"target": target_name, "lane": key_text})
    return _hold(rows[0]) if rows else None


def lock_holds(tx: Tx, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], StoredKeyHealth]:
    """Locks the rows of these keys. Returns them by target and key."""
    wanted = [{"wanted_target": name, "wanted_lane": lane} for name, lane in sorted(set(places))]
    rows = [_hold(row) for row in tx.query_many("holds_locked", wanted)]
    return {(row.target, row.lane): row for row in rows}


def holds_of(tx: Tx, target_name: str, limit: int = 1000) -> list[StoredKeyHealth]:
    return [_hold(row) for row in tx.query("holds_of", {"target": target_name, "n": limit})]


def resting(tx: Tx, target_name: str, limit: int = 1000) -> list[StoredKeyHealth]:
    """The keys of a target in a cooldown, or with failures that count towards one."""
    return [_hold(row) for row in tx.query("holds_resting", {"target": target_name, "n": limit})]


def prune_holds(tx: Tx, after: tuple[str, str], now: float, limit: int) -> tuple[int, tuple[str, str]]:
    """Prunes idle keys after *after*. Returns how many, and where to continue.

    It works in batches, in a circle, because there may be a million keys and no index on their age.
    """
    rows = [_hold(row) for row in tx.query("holds_next", {"target": after[0], "lane": after[1], "n": limit})]
    idle = [row for row in rows if row.idle(now)]
    for row in idle:
        tx.query("hold_drop", {"target": row.target, "lane": row.lane})
    return len(idle), (rows[-1].target, rows[-1].lane) if len(rows) == limit else ("", "")


def put_hold(tx: Tx, row: StoredKeyHealth) -> None:
    """Writes the state of a key, or deletes the row if it is empty."""
    if row.empty:
        tx.query("hold_drop", {"target": row.target, "lane": row.lane})
        return
    tx.query(
        "hold_put",
        {
            "target": row.target,
            "lane": row.lane,
            "reason": row.reason,
            "since": row.since,
            "until": None if row.until is None or math.isinf(row.until) else row.until,
            "failed_at": row.failed_at,
            "failures": row.failures,
            "code": row.code,
            "message": row.message,
            "told": row.told,
            "rest": None if row.rest is FRESH else json.dumps(asdict(row.rest)),
            "probe": row.probe,
        },
    )


def append_event(
    tx: Tx,
    subject: str,
    name: str,
    kind: str,
    actor: str,
    *,
    key_text: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Appends an event, in the transaction of its change."""
    shown = json.dumps(fields or {}, default=str)
    tx.query(
        "gate_event",
        {
            "subject": subject,
            "name": name,
            "lane": key_text,
            "kind": kind,
            "actor": actor,
            "fields": shown,
        },
    )


def events(tx: Tx, subject: str, name: str, limit: int = 100, before: int = 2**62) -> list[TargetEvent]:
    """The events of a queue or a target, newest first."""
    rows = tx.query("gate_events", {"subject": subject, "name": name, "n": limit, "before": before})
    return [event_of(row) for row in rows]


def cleared_keys(tx: Tx, target_name: str, after: int, limit: int = 1000) -> list[TargetEvent]:
    """The events of cleared keys after an event, oldest first."""
    return [event_of(row) for row in tx.query("gate_cleared", {"name": target_name, "after": after, "n": limit})]


def last_event(tx: Tx, target_name: str) -> int:
    """The ID of the newest event of a target; 0 when there is none."""
    return int(tx.query("gate_event_last", {"name": target_name})[0][0])


def newest_events(tx: Tx, limit: int = 100) -> list[TargetEvent]:
    """The events of all queues and targets, newest first."""
    return [event_of(row) for row in tx.query("gate_events_newest", {"n": limit})]


def event_of(row: Row) -> TargetEvent:
    id_, at, about, of, lane, kind, actor, fields = row
    return TargetEvent(id_, at, about, of, lane, kind, actor, json.loads(fields))


def prune_events(tx: Tx, before: float, limit: int) -> int:
    """Removes a batch of events older than *before*. Returns how many."""
    return len(tx.query("gate_events_prune", {"before": before, "n": limit}))


def _locked(tx: Tx, names: list[str]) -> list[Row]:
    return tx.query_many("targets_locked", [{"wanted": name} for name in names])


def target_of(row: Row) -> TargetRow:
    (
        name,
        paused_at,
        paused_until,
        paused_by,
        state,
        generation,
        since,
        until,
        counts,
        closed_at,
        paid_until,
        capacity,
        rules,
        reported_at,
        summary,
    ) = row
    return TargetRow(
        name=name,
        paused_at=paused_at,
        paused_until=paused_until,
        paused_by=paused_by,
        breaker=StoredBreaker.load(state, generation, since, until, closed_at, counts),
        paid_until=paid_until,
        capacity=capacity,
        rules=rules,
        reported_at=reported_at,
        summary=summary,
    )


def has_no_gates(row: Row) -> bool:
    """Whether the raw row of a target has no pause, no open breaker, no program report and no fill level."""
    return row[2] is None and row[4] == CLOSED and row[11] is None and row[14] is None


def has_moved(row: Row) -> bool:
    """Whether the raw row of a target shows that its breaker has counted a call."""
    return bool(row[5]) or '"buckets": [[' in row[8]


def _hold(row: Row) -> StoredKeyHealth:
    name, lane, reason, since, until, failed_at, failures, code, message, told, rest, probe = row
    return StoredKeyHealth(
        target=name,
        lane=lane,
        reason=reason,
        since=since,
        until=until,
        failed_at=failed_at,
        failures=failures,
        code=code,
        message=message,
        told=told,
        rest=FRESH if rest is None else CooldownState(**json.loads(rest)),
        probe=probe,
    )


# -- following the event log -----------------------------------------------------------------------------------------
# PostgreSQL assigns ids in one order and commits them in another. While another transaction writes, events after a
# missing id are withheld, so that a follower does not skip an event that is committed late.

GAP_TIMEOUT = 60.0  # seconds after which a missing id is assumed to be rolled back
_RECENT_IDS = 1000
_ANY = 2**62


def since(tx: Tx, after: int, *, limit: int = 100, subject: str = "", name: str = "") -> list[TargetEvent]:
    """The events after the ID *after*, oldest first; with a *name*, only those of that queue or target."""
    if name and not subject:
        raise ValueError("subject: give 'queue' or 'target' beside the name")
    wanted = {"after": after, "subject": subject, "name": name}
    kind = "happenings_of" if name else "happenings"
    if not tx.query(kind, {**wanted, "newest": _ANY, "n": 1}):
        return []
    # Read the limit before the rows: rows committed in between may follow a gap.
    last = newest(tx)
    return [event_of(row) for row in tx.query(kind, {**wanted, "newest": last, "n": limit})]


def newest(tx: Tx) -> int:
    """The ID of the last event that no late commit can precede; 0 when there is none."""
    recent = [(int(id_), float(age)) for id_, age in tx.query("happenings_recent", {"n": _RECENT_IDS})]
    if not recent:
        return 0
    before_gap = None
    for (id_, age), (below, _) in pairwise([*recent, (0, 0.0)]):
        if age > GAP_TIMEOUT:
            break
        if below < id_ - 1:
            before_gap = below
    if before_gap is None or not tx.others_write("tg_gate_event"):
        return recent[0][0]
    return before_gap
