"""The gates before a claim, and what the end of an attempt does to them. Runs inside the store's transaction."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.codes import CORE, CodeBook
from tidegate.core.fault import Fault
from tidegate.machine import shared_breaker
from tidegate.machine.shared_breaker import UNLIMITED, BreakerRow
from tidegate.runtime import lane_state
from tidegate.runtime.job_target import TargetRules
from tidegate.runtime.limits import RAMP
from tidegate.store.claims import Lane
from tidegate.store.tx import Row, Tx


@dataclass(frozen=True, slots=True)
class Note:
    """What one attempt says about its target: True well, False ill, None nothing; and its fault."""

    target: str
    lane: str
    generation: int
    ok: bool | None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """How many jobs of a lane may be claimed now, and in which generation of its breaker."""

    n: int
    generation: int = 0
    fail_fast: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """A transition of a target's breaker, to be told after the commit."""

    target: str
    old: str
    new: str


class JobGates:
    """The gates of one worker's targets. All state is in the store; this holds only the numbers."""

    def __init__(self, rules: Mapping[str, TargetRules], dice: Callable[[], float]) -> None:
        self.rules = dict(rules)
        self._dice = dice

    def book(self, target: str) -> CodeBook:
        pack = self.rules[target].pack if target in self.rules else None
        return CORE if pack is None else pack.book

    # -- before a claim ------------------------------------------------------------------------------------------

    def room(self, tx: Tx, lane: Lane, now: float, moved: list[Moved]) -> Room:
        """How many jobs of this lane may go now. A shut gate costs this look and nothing else."""
        if lane.paused_until is not None and now < lane.paused_until:
            return Room(0)
        probe = UNLIMITED
        if lane.hold is not None:
            if lane.hold_until is None or now < lane.hold_until:
                return Room(0)
            if lane.hold in ("fatal", "cooldown"):
                probe = 1
        rules = self.rules.get(lane.target)
        if rules is None or not rules.limited:
            return self._reserved(tx, lane, Room(probe), now, probe)
        row = self._row(tx, rules.name)
        paused = row[2]
        if paused is not None and now < paused:
            return Room(0)
        breaker = self._advanced(tx, rules, row, now, moved)
        under_way = int(tx.all("running_of", {"target": rules.name})[0][0])
        n = probe
        if rules.breaker is not None:
            n = min(n, shared_breaker.room(breaker, rules.breaker, under_way))
            if n == 0 and breaker.state == "open" and rules.behind == "fail-fast":
                return Room(0, breaker.generation, fail_fast=True)
        if rules.concurrency is not None:
            n = min(n, max(0, _ramped(rules.concurrency, breaker.closed_at, now) - under_way))
        if rules.rate is not None:
            n = min(n, _tokens(rules, row[10], now))
        return self._reserved(tx, lane, Room(n, breaker.generation), now, probe)

    def claimed(self, tx: Tx, target: str, n: int, now: float) -> None:
        """So many jobs were taken: the rate has paid for them."""
        rules = self.rules.get(target)
        if rules is None or rules.rate is None or not n:
            return
        paid = self._row(tx, target)[10]
        paid_until = -math.inf if paid is None else paid
        for _ in range(n):
            paid_until = rules.rate.pay(paid_until, now)
        tx.all("target_paid", {"name": target, "paid_until": paid_until})

    def _reserved(self, tx: Tx, lane: Lane, room: Room, now: float, probe: int) -> Room:
        if room.n and probe == 1:
            lane_state.probing(tx, lane.target, lane.lane, now + lane_state.PROBE_TIME)
        return room

    # -- after an attempt ----------------------------------------------------------------------------------------

    def note(self, tx: Tx, notes: Sequence[Note], now: float) -> list[Moved]:
        """What a batch of attempts says: one change of each target's row, and of each lane that is not well."""
        moved: list[Moved] = []
        by_target: defaultdict[str, list[Note]] = defaultdict(list)
        for note in notes:
            if note.target in self.rules:
                by_target[note.target].append(note)
        for target, said in by_target.items():
            rules = self.rules[target]
            if rules.breaker is not None:
                results = [(each.ok, each.generation) for each in said if each.ok is not None]
                row = self._row(tx, target)
                before = self._advanced(tx, rules, row, now, moved)
                after = shared_breaker.noted(before, rules.breaker, results, now)
                self._moved(tx, target, before, after, moved)
            self._lanes(tx, rules, said, now)
        return moved

    def _lanes(self, tx: Tx, rules: TargetRules, said: Sequence[Note], now: float) -> None:
        for lane in dict.fromkeys(note.lane for note in said):
            faults = [note.fault for note in said if note.lane == lane and note.fault is not None]
            if any(note.lane == lane and note.fault is None and note.ok for note in said):
                lane_state.succeeded(tx, rules, self.book(rules.name), lane, now)
            if faults:  # many failures of one batch are one outage
                lane_state.failed(tx, rules, self.book(rules.name), lane, _worst(faults), now, self._dice())

    def move(self, tx: Tx, target: str, change: Callable[[BreakerRow], BreakerRow]) -> list[Moved]:
        """A change that a probe or a person makes."""
        moved: list[Moved] = []
        before = _breaker(self._row(tx, target))
        self._moved(tx, target, before, change(before), moved)
        return moved

    def _advanced(self, tx: Tx, rules: TargetRules, row: Row, now: float, moved: list[Moved]) -> BreakerRow:
        before = _breaker(row)
        if rules.breaker is None:
            return before
        after = shared_breaker.advanced(before, now)
        self._moved(tx, rules.name, before, after, moved)
        return after

    def _moved(self, tx: Tx, target: str, before: BreakerRow, after: BreakerRow, moved: list[Moved]) -> None:
        if after == before:
            return
        tx.all("target_moved", {
            "name": target, "was": before.generation, "breaker": after.state, "generation": after.generation,
            "since": after.since, "until": after.until, "counts": after.dumped(), "closed_at": after.closed_at,
        })  # fmt: skip
        if after.state != before.state:
            moved.append(Moved(target, before.state, after.state))

    def _row(self, tx: Tx, name: str) -> Row:
        rows = tx.all("target", {"name": name})
        if not rows:
            tx.all("target_new", {"name": name})
            rows = tx.all("target", {"name": name})
        return rows[0]


def _breaker(row: Row) -> BreakerRow:
    _, _, _, _, state, generation, since, until, counts, closed_at, *_ = row
    return BreakerRow.loaded(state, generation, since, until, closed_at, counts)


def _ramped(limit: int, closed_at: float | None, now: float) -> int:
    if closed_at is None:
        return limit
    return max(1, math.ceil(limit * min(1.0, max(0.0, (now - closed_at) / RAMP))))


def _tokens(rules: TargetRules, paid: float | None, now: float) -> int:
    """How many calls the rate allows at this moment."""
    if rules.rate is None:
        return UNLIMITED
    n, paid_until = 0, -math.inf if paid is None else paid
    while n < rules.rate.burst and rules.rate.wait(paid_until, now) == 0:
        paid_until, n = rules.rate.pay(paid_until, now), n + 1
    return n


def _worst(faults: Sequence[Fault]) -> Fault:
    return next((fault for fault in faults if fault.fatal), faults[-1])
