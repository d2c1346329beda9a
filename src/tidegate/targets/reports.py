"""Reports of targets: status, hold reasons, unhealthy keys and events."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.labels import TARGETS
from tidegate.store.base import Tx, now_of
from tidegate.targets import explain, table
from tidegate.targets.explain import WaitReason
from tidegate.targets.status import PROGRAM_GONE, HeldKeys, TargetStatus, standing
from tidegate.targets.table import RawTarget, StoredKeyHealth, TargetEvent, TargetRow
from tidegate.validation import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReport:
    """The status of one target, its breaker, its pause, and the reports of programs that guard it."""

    name: str
    token: str  # of `labels.TARGETS`
    word: str
    reason: str  # one line
    next_try: float | None
    breaker: str
    since: float
    until: float | None
    opened_by: str | None  # of `OpenedBy`; None when it is not open
    paused_until: float | None
    paused_by: str | None
    held_keys: int
    running: int
    rules: JsonObject = field(default_factory=dict)
    programs: JsonObject = field(default_factory=dict)

    @property
    def icon(self) -> str:
        return TARGETS[self.token].icon

    @property
    def tone(self) -> str:
        return TARGETS[self.token].tone

    def as_json(self) -> JsonObject:
        return {**{name: getattr(self, name) for name in self.__slots__}, "icon": self.icon}


def every(tx: Tx) -> list[TargetReport]:
    """Every known target, by name."""
    return [stands.report() for stands in standings(tx)]


@dataclass(frozen=True, slots=True)
class StatusRow:
    """The status token of a target, and the raw row that is parsed only when it is shown."""

    name: str
    token: str
    raw: RawTarget
    keys: Sequence[HeldKeys]
    running: int
    tried: bool
    now: float

    @property
    def row(self) -> TargetRow:
        return self.raw.parsed()

    @property
    def how(self) -> TargetStatus:
        return standing(self.row, self.keys, self.now, tried=self.tried)

    @property
    def held(self) -> int:
        return sum(keys.n for keys in self.keys)

    @property
    def paused(self) -> bool:
        until = self.row.paused_until
        return until is not None and self.now < until

    def report(self) -> TargetReport:
        row, how, paused = self.row, self.how, self.paused
        return TargetReport(
            name=row.name,
            token=how.token,
            word=TARGETS[how.token].word,
            reason=how.reason,
            next_try=how.next_try,
            breaker=row.breaker.state,
            since=row.breaker.since,
            until=row.breaker.until,
            opened_by=None if row.breaker.opened is None else str(row.breaker.opened.rule),
            paused_until=row.paused_until if paused else None,
            paused_by=row.paused_by if paused else None,
            held_keys=self.held,
            running=self.running,
            rules=json.loads(row.rules) if row.rules else {},
            programs=json.loads(row.summary) if row.summary else {},
        )


def standings(tx: Tx, name: str | None = None) -> list[StatusRow]:
    """The status of every target, or of one. The number of queries does not depend on the number of targets."""
    now = now_of(tx)
    rows = tx.query_as(RawTarget, "targets") if name is None else tx.query_as(RawTarget, "target", {"name": name})
    held: defaultdict[str, list[HeldKeys]] = defaultdict(list)
    for keys in tx.query_as(HeldKeys, "holds_added_up", {"target": name or ""}):
        held[keys.target].append(keys)
    running = {target: int(n) for target, n in tx.query("running_by_target")}
    untried = {row.name for row in rows if not row.has_moved and row.name not in running}
    untried -= {tried for (tried,) in tx.query_many("targets_tried", [{"name": target} for target in sorted(untried)])}
    return [
        _stands(row, held.get(row.name, ()), running.get(row.name, 0), now, tried=row.name not in untried)
        for row in rows
    ]


def _stands(raw: RawTarget, held: Sequence[HeldKeys], running: int, now: float, *, tried: bool) -> StatusRow:
    if held or not raw.has_no_gates:
        token = standing(raw.parsed(), held, now, tried=tried).token
    else:
        token = "ok" if tried else "new"  # the fast path, for almost all targets
    return StatusRow(raw.name, token, raw, held, running, tried, now)


@dataclass(frozen=True, slots=True)
class TargetDetail:
    """One target with its hold reasons, unhealthy keys and events."""

    report: TargetReport
    reasons: list[WaitReason]
    keys: list[StoredKeyHealth]
    events: list[TargetEvent]
    of_programs: frozenset[str] = frozenset()  # keys that only programs report, and no job uses

    def as_json(self) -> JsonObject:
        keys = [
            {
                "key": row.lane,
                "reason": row.reason,
                "since": row.since,
                "until": row.until,
                "failures": row.failures,
                "code": row.code,
                "message": row.message,
            }
            for row in self.keys
        ]
        return {
            **self.report.as_json(),
            "waits_for": [why.as_json() for why in self.reasons],
            "keys": keys,
            "events": [event.as_json() for event in self.events],
        }


def one(tx: Tx, name: str, limit: int = 50) -> TargetDetail:
    row_status = next(iter(standings(tx, name)), None)
    if row_status is None:
        raise table.unknown_target(tx, name)
    keys = [hold for hold in table.holds_of(tx, name, limit) if hold.reason != table.NOT_HELD]
    report, known = row_status.report(), {hold.lane for hold in keys}
    theirs = {row.lane: row for row in _of_programs(report, row_status.now) if row.lane not in known}
    events = table.events(tx, "target", name, limit)
    keys = [*keys, *theirs.values()][:limit]
    return TargetDetail(report, explain.target(tx, name, ""), keys, events, frozenset(theirs))


def _of_programs(report: TargetReport, now: float) -> Iterator[StoredKeyHealth]:
    """The unhealthy keys that running programs report."""
    running = (program for program in report.programs.values() if now - program.get("at", 0.0) < PROGRAM_GONE)
    for key in (key for said in running for key in said.get("keys", ())):
        yield StoredKeyHealth(
            target=report.name,
            lane=key["key"],
            reason=key["reason"],
            since=key["since"],
            until=key["until"],
            failures=key["failures"],
            code=key["code"],
            message=key["message"],
        )
