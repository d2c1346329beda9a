"""Testing a target now: one job that waits behind it goes at once, and shows whether it is well again.

What the gates would allow later is allowed now, and nothing more: an open breaker is half-open, a held key has its one
probe. A pause stays, because a person ordered it; capacity, rate and concurrency stay, because they tell
nothing of its health.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import Rejected
from tidegate.machine import shared_breaker
from tidegate.machine.states import HALF_OPEN, OPEN
from tidegate.ops import actions, explain
from tidegate.ops.whys import WaitReason, WaitsFor
from tidegate.store import activity_rows, claims, gate_rows, people, tallies
from tidegate.store.activity_rows import AuditSubject
from tidegate.store.claims import ReadyTarget
from tidegate.store.gate_rows import StoredKeyHealth, TargetRow
from tidegate.store.tx import Tx

TESTED = "target_tested"
_MAX_LANES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTest:
    """The job that tries a target next; *waits* is what still stands before it, empty when it goes at once."""

    target: str
    key: str
    job: int
    breaker: str  # the state that it is in now
    waits: list[WaitReason]

    @property
    def says(self) -> str:
        """What comes of it, for people."""
        who = f"key {self.key} of {self.target}" if self.key else self.target
        if not self.waits:
            return f"Job {self.job} tries {who} now."
        return f"Job {self.job} tries {who} next, but it has to wait: {self.waits[0].message}"

    def as_json(self) -> dict[str, Any]:
        waits = [why.as_json() for why in self.waits]
        return {"target": self.target, "key": self.key, "job": self.job, "breaker": self.breaker, "waits": waits}


@dataclass(frozen=True, slots=True)
class _Candidate:
    id: int
    lane: str
    ready: bool  # else it waits for its next attempt


def begin(tx: Tx, name: str, by: str, key: str | None = None) -> TargetTest:
    """Lets one job of a target, or of one key of it, go now. Refused when nothing holds it, or nothing can test it."""
    row, now = actions.require_target(tx, name)
    if row.paused_until is not None and now < row.paused_until:
        raise Rejected(f"{name} is paused by {row.paused_by}; resume it first")
    shut = row.breaker.state == OPEN and not (row.breaker.until is not None and row.breaker.until <= now)
    held = _held(tx, name, key, now)
    found = _candidate(tx, name, key, held, shut=shut)
    if found is None:
        raise Rejected(_nothing_to_test(row, held, key, shut=shut))
    hold = held.get(found.lane)
    if hold is not None and hold.probe:
        raise Rejected(f"job {hold.probe} is trying it already")
    after = row.breaker
    if shut:
        after = shared_breaker.half_open(row.breaker, now)
        actions.move_breaker(tx, name, row.breaker, after, by, TESTED)
    if hold is not None:
        _let_probe(tx, name, found.lane, now)
    if not found.ready:
        people.run_now(tx, found.id, str(by))
    lane = found.lane or None
    gate_rows.append_event(tx, "target", name, TESTED, str(by), key_text=lane, fields={"job": found.id})
    if not shut:
        place, was = AuditSubject(subject="target", name=name, lane=lane), "" if hold is None else hold.reason
        activity_rows.append_entry(tx, by, TESTED, place, was={"state": was}, became={"state": "a job tries it"})
    waits = [why for why in explain.job(tx, found.id) if why.reason is not WaitsFor.NEXT]
    return TargetTest(target=name, key=found.lane, job=found.id, breaker=after.state, waits=waits)


def _held(tx: Tx, name: str, key: str | None, now: float) -> dict[str, StoredKeyHealth]:
    """The lanes of a target that are held, or the one that is asked for if it is."""
    one = None if key is None else gate_rows.hold(tx, name, key)
    rows = gate_rows.holds_of(tx, name, _MAX_LANES) if key is None else [] if one is None else [one]
    return {
        row.lane: row for row in rows
        if row.reason != gate_rows.NOT_HELD and not (row.until is not None and row.until <= now)
    }  # fmt: skip


def _candidate(
    tx: Tx, name: str, key: str | None, held: Mapping[str, StoredKeyHealth], *, shut: bool
) -> _Candidate | None:
    """A job that is ready, of a lane that nothing else holds if there is one; else one that waits after a failure."""
    lanes = [place for place in _ready(tx, name, key) if shut or place[1] in held]
    for queue, lane in sorted(lanes, key=lambda place: place[1] in held):
        rows = tx.query("first_ready", {"queue": queue, "target": name, "lane": lane})
        if rows:
            return _Candidate(int(rows[0][0]), lane, ready=True)
    place = {"target": name, "lane": key or "", "any_lane": int(key is None)}
    for id_, lane in tx.query("retrying_of", {**place, "n": _MAX_LANES}):
        if shut or lane in held:
            return _Candidate(int(id_), lane, ready=False)
    return None


def _ready(tx: Tx, name: str, key: str | None) -> Iterator[tuple[str, str]]:
    """Where jobs of a target may be ready: queue and lane."""
    for (queue, stage), n in sorted(tallies.read(tx).items()):
        if stage == "ready" and n:
            if key is not None:
                yield queue, key
                continue
            for lane in claims.ready_keys(tx, ReadyTarget(queue, name), None, _MAX_LANES):
                yield queue, lane.lane


def _let_probe(tx: Tx, name: str, key_text: str, now: float) -> None:
    """The time of a hold is over: one job may prove that the lane is well."""
    row = gate_rows.lock_holds(tx, [(name, key_text)]).get((name, key_text))
    if row is not None:
        rest = replace(row.rest, until=now) if row.rest.disabled else row.rest
        gate_rows.put_hold(tx, replace(row, until=now, rest=rest, probe=None))


def _nothing_to_test(row: TargetRow, held: Mapping[str, StoredKeyHealth], key: str | None, *, shut: bool) -> str:
    who = f"key {key} of {row.name}" if key else row.name
    if shut or (held if key is None else key in held):
        return f"no job of {who} waits that could test it"
    if row.breaker.state == HALF_OPEN:
        return f"{who} is being tested already"
    if row.summary is not None:
        return f"a program guards {who} by itself, and tries it by itself; there is no job to test it with"
    return f"nothing holds {who}; its jobs go when they are due"
