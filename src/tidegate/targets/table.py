"""Rows of targets, keys and queues, and their event log."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tidegate.errors import NotFound
from tidegate.guard.breaker_state import CLOSED
from tidegate.guard.cooldown import FRESH, CooldownState
from tidegate.store.base import Tx
from tidegate.targets.breaker import StoredBreaker
from tidegate.validation import JsonObject, similar

# The reason of a key that is not held: its row only counts failures, or stores when an operator cleared it.
NOT_HELD = "open"
_PASSING = (NOT_HELD, "backoff", "retry_after")
_IDLE, _IDLE_COUNTED = 86_400.0, 7 * 86_400.0  # seconds; the second if failures count towards a cooldown


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """The state of one target, which all workers share."""

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


class RawTarget(NamedTuple):
    """The columns of a target. Most of what is asked about thousands of targets needs no breaker from JSON."""

    name: str
    paused_at: float | None
    paused_until: float | None
    paused_by: str | None
    breaker: str
    generation: int
    breaker_since: float
    breaker_until: float | None
    counts: str
    closed_at: float | None
    paid_until: float | None
    capacity: str | None
    rules: str | None
    reported_at: float | None
    summary: str | None
    now: float  # the store's time

    @property
    def has_no_gates(self) -> bool:
        """Whether it has no pause, no open breaker, no program report and no fill level."""
        return self.paused_until is None and self.breaker == CLOSED and self.capacity is None and self.summary is None

    @property
    def has_moved(self) -> bool:
        """Whether its breaker has counted a call."""
        return bool(self.generation) or '"buckets": [[' in self.counts

    def parsed(self) -> TargetRow:
        return TargetRow(
            name=self.name,
            paused_at=self.paused_at,
            paused_until=self.paused_until,
            paused_by=self.paused_by,
            breaker=StoredBreaker.load(
                self.breaker, self.generation, self.breaker_since, self.breaker_until, self.closed_at, self.counts
            ),
            paid_until=self.paid_until,
            capacity=self.capacity,
            rules=self.rules,
            reported_at=self.reported_at,
            summary=self.summary,
        )


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


class _KeyRow(NamedTuple):
    target: str
    lane: str
    reason: str
    since: float
    until: float | None
    failed_at: float
    failures: int
    code: str | None
    message: str | None
    told: int
    rest: str | None  # JSON
    probe: int | None

    def parsed(self) -> StoredKeyHealth:
        rest = FRESH if self.rest is None else CooldownState(**json.loads(self.rest))
        return StoredKeyHealth(**{**self._asdict(), "rest": rest})


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
    fields: JsonObject

    def as_json(self) -> dict[str, object]:
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


class _EventRow(NamedTuple):
    id: int
    at: float
    subject: str
    name: str
    lane: str | None
    kind: str
    actor: str
    fields: str  # JSON

    def parsed(self) -> TargetEvent:
        return TargetEvent(**{**self._asdict(), "fields": json.loads(self.fields)})


def target(tx: Tx, name: str) -> TargetRow | None:
    row = tx.first(RawTarget, "target", {"name": name})
    return None if row is None else row.parsed()


def unknown_target(tx: Tx, name: str) -> NotFound:
    """Returns the error about a target that does not exist, with a similar name or where to find all."""
    close = similar(name, [row.name for row in targets(tx)])
    return NotFound(
        f"there is no target {name!r}; "
        + (f"did you mean {close!r}?" if close else "list all with: tidegate targets list")
    )


def targets(tx: Tx) -> list[TargetRow]:
    return [row.parsed() for row in tx.query_as(RawTarget, "targets")]


def lock_targets(tx: Tx, names: Iterable[str]) -> tuple[dict[str, TargetRow], float | None]:
    """Locks the rows of these targets, and creates missing ones. Returns them and the store's time."""
    wanted = sorted(set(names))
    if not wanted:
        return {}, None
    rows = _locked(tx, wanted)
    if missing := sorted({*wanted} - {row.name for row in rows}):
        for name in missing:
            tx.query("target_new", {"name": name})
        rows = _locked(tx, wanted)
    return {row.name: row.parsed() for row in rows}, rows[-1].now


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
    row = tx.first(_KeyRow, "hold", {"target": target_name, "lane": key_text})
    return None if row is None else row.parsed()


def lock_holds(tx: Tx, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], StoredKeyHealth]:
    """Locks the rows of these keys. Returns them by target and key."""
    wanted = [{"wanted_target": name, "wanted_lane": lane} for name, lane in sorted(set(places))]
    return {(row.target, row.lane): row.parsed() for row in tx.query_many_as(_KeyRow, "holds_locked", wanted)}


def holds_of(tx: Tx, target_name: str, limit: int = 1000) -> list[StoredKeyHealth]:
    return [row.parsed() for row in tx.query_as(_KeyRow, "holds_of", {"target": target_name, "n": limit})]


def resting(tx: Tx, target_name: str, limit: int = 1000) -> list[StoredKeyHealth]:
    """The keys of a target in a cooldown, or with failures that count towards one."""
    return [row.parsed() for row in tx.query_as(_KeyRow, "holds_resting", {"target": target_name, "n": limit})]


def prune_holds(tx: Tx, after: tuple[str, str], now: float, limit: int) -> tuple[int, tuple[str, str]]:
    """Prunes idle keys after *after*. Returns how many, and where to continue.

    It works in batches, in a circle, because there may be a million keys and no index on their age.
    """
    rows = tx.query_as(_KeyRow, "holds_next", {"target": after[0], "lane": after[1], "n": limit})
    idle = [row for row in rows if row.parsed().idle(now)]
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
    fields: Mapping[str, object] | None = None,
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
    wanted = {"subject": subject, "name": name, "n": limit, "before": before}
    return [row.parsed() for row in tx.query_as(_EventRow, "gate_events", wanted)]


def cleared_keys(tx: Tx, target_name: str, after: int, limit: int = 1000) -> list[TargetEvent]:
    """The events of cleared keys after an event, oldest first."""
    wanted = {"name": target_name, "after": after, "n": limit}
    return [row.parsed() for row in tx.query_as(_EventRow, "gate_cleared", wanted)]


def last_event(tx: Tx, target_name: str) -> int:
    """The ID of the newest event of a target; 0 when there is none."""
    return tx.scalar(int, "gate_event_last", {"name": target_name})


def newest_events(tx: Tx, limit: int = 100) -> list[TargetEvent]:
    """The events of all queues and targets, newest first."""
    return [row.parsed() for row in tx.query_as(_EventRow, "gate_events_newest", {"n": limit})]


def prune_events(tx: Tx, before: float, limit: int) -> int:
    """Removes a batch of events older than *before*. Returns how many."""
    return len(tx.query("gate_events_prune", {"before": before, "n": limit}))


def _locked(tx: Tx, names: list[str]) -> list[RawTarget]:
    return tx.query_many_as(RawTarget, "targets_locked", [{"wanted": name} for name in names])


# -- following the event log -----------------------------------------------------------------------------------------
# PostgreSQL assigns ids in one order and commits them in another. While another transaction writes, events after a
# missing id are withheld, so that a follower does not skip an event that is committed late.

GAP_TIMEOUT = 60.0  # seconds after which a missing id is assumed to be rolled back
_RECENT_IDS = 1000
_ANY = 2**62


class _RecentEvent(NamedTuple):
    id: int
    age: float


def since(tx: Tx, after: int, *, limit: int = 100, subject: str = "", name: str = "") -> list[TargetEvent]:
    """The events after the ID *after*, oldest first; with a *name*, only those of that queue or target."""
    if name and not subject:
        raise ValueError("subject: it is missing; give 'queue' or 'target' with the name")
    wanted = {"after": after, "subject": subject, "name": name}
    kind = "happenings_of" if name else "happenings"
    if not tx.query(kind, {**wanted, "newest": _ANY, "n": 1}):
        return []
    # Read the limit before the rows: rows committed in between may follow a gap.
    last = newest(tx)
    return [row.parsed() for row in tx.query_as(_EventRow, kind, {**wanted, "newest": last, "n": limit})]


def newest(tx: Tx) -> int:
    """The ID of the last event that no late commit can precede; 0 when there is none."""
    recent = tx.query_as(_RecentEvent, "happenings_recent", {"n": _RECENT_IDS})
    if not recent:
        return 0
    before_gap = None
    for (id_, age), (below, _) in pairwise([*recent, _RecentEvent(0, 0.0)]):
        if age > GAP_TIMEOUT:
            break
        if below < id_ - 1:
            before_gap = below
    if before_gap is None or not tx.others_write("tg_gate_event"):
        return recent[0].id
    return before_gap
