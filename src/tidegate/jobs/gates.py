"""The gates before a claim, and what the end of an attempt does to them. Runs inside the store's transaction."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.events import DEFAULT, Bus, Event, EventKind
from tidegate.faults.codes import CORE, CodeBook
from tidegate.faults.fault import Fault
from tidegate.guard import capacity, cooldown
from tidegate.guard.breaker_state import CLOSED, HALF_OPEN, OPEN
from tidegate.guard.capacity import FillLevel
from tidegate.guard.limits import UNLIMITED
from tidegate.guard.policy import TargetRules
from tidegate.jobs.claim import ReadyTarget
from tidegate.jobs.job import AttemptOutcome, Claimed
from tidegate.jobs.key_gates import KeyHealthTx, TargetVerdict
from tidegate.store.base import Tx
from tidegate.targets import breaker as target_breaker
from tidegate.targets import table
from tidegate.targets.breaker import StoredBreaker
from tidegate.targets.table import TargetRow

_log = logging.getLogger("tidegate.worker")
FAIL_FAST = "overloaded"
_WORKER = "worker"


@dataclass(frozen=True, slots=True)
class DepthRequest:
    """Somebody must find out how full a target is before more can be sent."""

    target: str
    who: str


class ClaimGates:
    """The gates of one worker's targets. All state is in the store; this holds only the numbers."""

    def __init__(
        self,
        rules: Mapping[str, TargetRules],
        rng: Callable[[], float],
        *,
        fail_fast: Mapping[str, str] | None = None,
        bus: Bus = DEFAULT,
    ) -> None:
        self.rules = dict(rules)
        self.fail_fast = fail_fast or {}  # the code of jobs that are not tried, by kind
        self.cycle = 0.0  # what was observed before is too old
        self.probing_targets: set[str] = set()  # targets whose health is being asked for at this moment
        self.rng = rng
        self._bus = bus
        self._asked = 0

    def book(self, target: str) -> CodeBook:
        pack = self.rules[target].rule_pack if target in self.rules else None
        return CORE if pack is None else pack.code_book

    def publish(self, tx: Tx) -> list[Event]:
        """Leaves the numbers in the store, so that whoever only sees that can explain and show them.

        Returns what there is to tell: a breaker that an earlier program left open without an end gets one.
        """
        gate_tx = self.turn(tx, "", 0.0)
        for rules in self.rules.values():
            tx.query("target_rules", {"name": rules.name, "rules": rules.shown()})
            row = None if rules.endless else table.target(tx, rules.name)
            if row is not None and target_breaker.endless(row.breaker):
                gate_tx.end_opening(rules)
        return gate_tx.events

    def turn(self, tx: Tx, worker: str, now: float) -> ClaimGateTx:
        return ClaimGateTx(self, tx, worker, now)

    def tell(self, events: Iterable[Event]) -> None:
        """After the commit: to the log, and to whoever listens in this process."""
        for event in events:
            if event.kind is EventKind.BREAKER_STATE_CHANGED:
                _log.info("breaker_state_changed name=%s from=%s to=%s", event.target, *_ends(event))
            self._bus.publish(event)

    def next_ask(self, worker: str) -> str:
        self._asked += 1
        return f"{worker}/{self._asked}"


class ClaimGateTx:
    """The gates during one transaction: rows are read and kept still once, and written when they change."""

    def __init__(self, gates: ClaimGates, tx: Tx, worker: str, now: float) -> None:
        self._gates, self._tx, self._worker = gates, tx, worker
        self.now = now
        self.events: list[Event] = []
        self.asks: list[DepthRequest] = []
        self.opens_at: float | None = None  # when to look again, as far as a gate can tell
        self._rows: dict[str, TargetRow] = {}
        self._left: dict[str, int] = {}
        self._climbing: set[str] = set()  # targets that have come back, where only that limits them
        self._wants_ask: set[str] = set()

    def lock_rows(self, noted: Iterable[str], ready_targets: Sequence[ReadyTarget]) -> None:
        """Reads the rows that may change in this turn. A target that is shut is not even waited for."""
        rules = self._gates.rules
        names = {name for name in noted if name in rules and rules[name].limited}
        names |= {
            front.target
            for front in ready_targets
            if front.target in rules and rules[front.target].limited and not self._shut(front)
        }
        self._rows, now = table.lock_targets(self._tx, names)
        if now is not None:
            self.now = now  # the same clock that the claims are stamped with

    # -- before a claim ------------------------------------------------------------------------------------------

    def admits(self, ready_target: ReadyTarget) -> bool:
        """Whether any job of this queue and target may go now, as far as the whole of them is concerned."""
        for paused_until in (ready_target.queue_paused_until, ready_target.paused_until):
            if paused_until is not None and self.now < paused_until:
                self.wake_at(paused_until)
                return False
        if self._shut(ready_target):
            self.wake_at(ready_target.breaker_until)
            return False
        return self.left(ready_target.target) > 0 or self.wants_ask(ready_target.target)

    def fails_fast(self, ready_target: ReadyTarget) -> bool:
        """Whether jobs of this queue and target are ended instead of waiting for the breaker."""
        rules = self._gates.rules.get(ready_target.target)
        return rules is not None and rules.when_open == "fail-fast" and self._open(ready_target)

    def rejected(self, target: str, n: int) -> None:
        """So many jobs were ended because the breaker is open."""
        if target in self._rows:
            before = self._rows[target].breaker
            self._move(target, before, target_breaker.record_rejected(before, n))

    def left(self, target: str) -> int:
        """How many jobs of a target may still be claimed in this turn."""
        if target not in self._left:
            self._left[target] = self._room(target)
        return self._left[target]

    def gated(self, target: str) -> bool:
        """Whether what is claimed must be sent at once: its gate may shut at any moment."""
        rules = self._gates.rules.get(target)
        return rules is not None and rules.limited

    def generation(self, target: str) -> int:
        row = self._rows.get(target)
        return 0 if row is None else row.breaker.generation

    def wants_ask(self, target: str) -> bool:
        """Whether nothing but the question how full it is stands before its jobs."""
        return target in self._wants_ask

    def request_depth(self, target: str) -> bool:
        """There is a job that could go: now the question how full the target is makes sense. False: it must wait."""
        if not self.wants_ask(target):
            return True
        self._wants_ask.discard(target)
        ask = DepthRequest(target, self._gates.next_ask(self._worker))
        self._fill(target, capacity.depth_requested(self._filling(target), ask.who, self.now))
        self.asks.append(ask)
        return False

    def probe(self, target: str, key_text: str) -> bool:
        """Reserves the one probe of a lane whose time is over."""
        until = self.now + cooldown.PROBE_TIME
        place = {"target": target, "lane": key_text}
        return bool(self._tx.query("hold_probe", {**place, "until": until, "at": self.now}))

    def probing(self, target: str, key_text: str, taken: Sequence[Claimed]) -> None:
        """Says which job the probe is; without one it is free again."""
        place = {"target": target, "lane": key_text}
        if taken:
            self._tx.query("hold_probe_is", {**place, "job": taken[0].id})
        else:
            self._tx.query("hold_unprobe", {**place, "job": 0})

    def claimed(self, target: str, taken: Sequence[Claimed]) -> None:
        """So many jobs were taken: the rate has paid for them, and they may fill the target."""
        rules = self._gates.rules.get(target)
        if rules is None or not taken or target not in self._rows:
            return
        self._left[target] = self.left(target) - len(taken)
        if self._left[target] <= 0 and target in self._climbing:
            self._held_back(target)
        if rules.rate is not None:
            paid_until = rules.rate.used(self._rows[target].paid_until, self.now)
            for _ in taken:
                paid_until = rules.rate.pay(paid_until, self.now)
            self._tx.query("target_paid", {"name": target, "paid_until": paid_until})
            self._rows[target] = replace(self._rows[target], paid_until=paid_until)
            self.wake_at(self.now + rules.rate.wait(paid_until, self.now))
        if rules.capacity is not None:
            places = [job.id for job in taken if rules.capacity.takes_place(job)]
            self._fill(target, capacity.record_claims(self._filling(target), rules.capacity.limits, places, self.now))

    def _held_back(self, target: str) -> None:
        """No place is left, and jobs are ready: more would have gone, had more been allowed."""
        before = self._rows[target].breaker
        after = target_breaker.mark_limited(before)
        if after != before:
            table.put_breaker(self._tx, target, before, after)
            self._rows[target] = replace(self._rows[target], breaker=after)

    def wake_at(self, moment: float | None) -> None:
        if moment is not None and moment > self.now and (self.opens_at is None or moment < self.opens_at):
            self.opens_at = moment

    def _shut(self, ready_target: ReadyTarget) -> bool:
        return self._open(ready_target) and not self.fails_fast(ready_target)

    def _open(self, ready_target: ReadyTarget) -> bool:
        if ready_target.breaker != OPEN:
            return False
        row = self._rows.get(ready_target.target)
        if row is not None and row.breaker.state != OPEN:
            return False
        if ready_target.breaker_until is None:
            return ready_target.target in self._gates.rules  # else nobody here knows of it, or would ever end it
        return self.now < ready_target.breaker_until

    def _room(self, target: str) -> int:
        rules, row = self._gates.rules.get(target), self._rows.get(target)
        if target in self._gates.probing_targets:
            return 0
        if rules is None or not rules.limited:
            return UNLIMITED
        if row is None or (row.paused_until is not None and self.now < row.paused_until):
            return 0
        breaker = self._advanced(rules, row.breaker)
        if breaker.state == OPEN:
            self.wake_at(breaker.until)
            return 0
        places = self._places(rules, breaker)
        n = min(places, self._tokens(rules, row.paid_until))
        if rules.capacity is not None and n > 0:
            # A clock that was set back would find every answer older than the cycle, and ask again and again.
            self._gates.cycle = min(self._gates.cycle, self.now)
            room = capacity.send_allowance(self._filling(target), rules.capacity.limits, self.now, self._gates.cycle)
            if room.ask:
                self._wants_ask.add(target)
            self.wake_at(room.until)
            n = min(n, room.n)
        if breaker.adaptive_limit is not None and rules.concurrency is None and n == places:
            self._climbing.add(target)
            if not places:
                self._held_back(target)
        return n

    def _places(self, rules: TargetRules, breaker: StoredBreaker) -> int:
        """What breaker and concurrency allow."""
        opening = breaker.state == CLOSED and target_breaker.is_ramping(breaker, rules.concurrency, self.now)
        if breaker.state == CLOSED and rules.concurrency is None and not opening:
            return UNLIMITED
        counted = self._tx.query("running_of", {"target": rules.name, "since": breaker.since})[0]
        under_way, of_this_state = int(counted[0]), int(counted[1])
        n = UNLIMITED
        if rules.breaker is not None:
            n = target_breaker.half_open_slots(breaker, rules.breaker, of_this_state)
        allowed = target_breaker.concurrency_limit(breaker, rules.concurrency, self.now)
        if opening:
            self.wake_at(self.now + 1.0)
        return max(0, min(n, allowed - under_way))

    def _tokens(self, rules: TargetRules, paid: float | None) -> int:
        """How many calls the rate allows at this moment."""
        if rules.rate is None:
            return UNLIMITED
        n, paid_until = 0, rules.rate.used(paid, self.now)
        while n < rules.rate.burst and rules.rate.wait(paid_until, self.now) == 0:
            paid_until, n = rules.rate.pay(paid_until, self.now), n + 1
        if not n:
            self.wake_at(self.now + rules.rate.wait(paid_until, self.now))
        return n

    # -- after an attempt ----------------------------------------------------------------------------------------

    def note(self, ended: Sequence[tuple[AttemptOutcome, TargetVerdict | None]]) -> None:
        """What a batch of attempts says: one change of each target's row, and of each lane that is not well."""
        by_target: defaultdict[str, list[tuple[AttemptOutcome, TargetVerdict | None]]] = defaultdict(list)
        for outcome, note in ended:
            if outcome.job.target in self._gates.rules:
                by_target[outcome.job.target].append((outcome, note))
        open_keys = KeyHealthTx(self._tx, self.now, self._gates.rng, self._happened, self.events)
        for target, said in sorted(by_target.items()):
            rules = self._gates.rules[target]
            if rules.breaker is not None:
                results = [(note.ok, note.generation) for _, note in said if note is not None and note.ok is not None]
                before = self._advanced(rules, self._rows[target].breaker)
                self._move(target, before, target_breaker.record_results(before, rules.breaker, results, self.now))
            if rules.capacity is not None:
                known = [outcome for outcome, _ in said if not outcome.keep_place]
                back = [(outcome.job.id, outcome.accepted) for outcome in known]
                self._fill(
                    target, capacity.record_settled(self._filling(target), rules.capacity.limits, back, self.now)
                )
            if open_keys.note(rules, said) and rules.breaker is not None:
                before = self._rows[target].breaker
                self._move(target, before, target_breaker.restart_limit(before, self.now))

    # -- rows ----------------------------------------------------------------------------------------------------

    def move(self, target: str, change: Callable[[StoredBreaker], StoredBreaker], by: str = _WORKER) -> None:
        """A change beside those of jobs, such as a probe makes."""
        if target not in self._rows:
            self._rows, now = table.lock_targets(self._tx, [target])
            self.now = self.now if now is None else now
        before = self._rows[target].breaker
        self._move(target, before, change(before), by)

    def end_opening(self, rules: TargetRules) -> None:
        """Its breaker is open for a probe that nobody asks any more: calls find out how it is."""
        end = target_breaker.close if rules.breaker is None else target_breaker.half_open
        self.move(rules.name, lambda row: end(row, self.now))

    def fill(self, target: str, change: Callable[[FillLevel, float], FillLevel]) -> None:
        """A change that an answer about its depth makes."""
        self._rows, now = table.lock_targets(self._tx, [target])
        self.now = self.now if now is None else now
        self._fill(target, change(self._filling(target), self.now))

    def _advanced(self, rules: TargetRules, before: StoredBreaker) -> StoredBreaker:
        after = target_breaker.advance(before, self.now)
        if rules.breaker is None and after.state == HALF_OPEN:
            # A person opened it, or a program that had one. Nobody counts what its calls would prove.
            after = target_breaker.close(before, self.now)
        self._move(rules.name, before, after)
        return after

    def _move(self, target: str, before: StoredBreaker, after: StoredBreaker, by: str = _WORKER) -> None:
        if after == before:
            return
        table.put_breaker(self._tx, target, before, after)
        self._rows[target] = replace(self._rows[target], breaker=after)
        self._left.pop(target, None)
        if after.state != before.state:
            ends: dict[str, Any] = {"name": target, "from": before.state, "to": after.state}
            if after.opened is not None:
                ends["opened"] = after.opened.dump()
            self._happened(EventKind.BREAKER_STATE_CHANGED, target, None, ends, by=by)

    def _filling(self, target: str) -> FillLevel:
        return FillLevel.load(self._rows[target].capacity)

    def _fill(self, target: str, filling: FillLevel) -> None:
        dumped = filling.dump()
        if dumped == self._rows[target].capacity:
            return
        self._tx.query("target_capacity", {"name": target, "capacity": dumped})
        self._rows[target] = replace(self._rows[target], capacity=dumped)
        self._left.pop(target, None)

    def _happened(
        self,
        kind: EventKind,
        target: str,
        key_text: str | None,
        fields: Mapping[str, Any],
        fault: Fault | None = None,
        by: str = _WORKER,
    ) -> None:
        shown = {**fields, **({} if fault is None else {"code": fault.code, "message": fault.message})}
        table.append_event(self._tx, "target", target, str(kind), by, key_text=key_text, fields=shown)
        self.events.append(Event(kind=kind, at=self.now, target=target, key=key_text, fault=fault, fields=fields))


def _ends(event: Event) -> tuple[str, str]:
    return str(event.fields["from"]), str(event.fields["to"])
