"""Gates of targets: they limit claims, and finished attempts update them, inside the store's transaction."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from tidegate.jobs.key_gates import NO_BREAKER, ClaimAdmission, KeyHealthTx, TargetVerdict
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
    """A target whose depth must be read before more jobs are claimed."""

    target: str
    who: str


class ClaimGates:
    """The gates of one worker's targets. This holds the policies; the state is in the store."""

    def __init__(
        self,
        rules: Mapping[str, TargetRules],
        rng: Callable[[], float],
        *,
        fail_fast: Mapping[str, str] | None = None,
        bus: Bus = DEFAULT,
    ) -> None:
        self.rules = dict(rules)
        self.fail_fast = fail_fast or {}  # the code of jobs that fail fast, by kind
        self.cycle = 0.0  # when the drain began; an older depth must be read again
        self.probing_targets: set[str] = set()  # targets whose probe is running
        self.rng = rng
        self._bus = bus
        self._asked = 0

    def book(self, target: str) -> CodeBook:
        pack = self.rules[target].rule_pack if target in self.rules else None
        return CORE if pack is None else pack.code_book

    def publish(self, tx: Tx) -> list[Event]:
        """Writes the policies to the store, so that other processes can explain and show them.

        Returns events: a breaker that waits for a probe is half-opened if its target has no probe any more.
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
        """Logs and publishes events in this process, after the commit."""
        for event in events:
            if event.kind is EventKind.BREAKER_STATE_CHANGED:
                _log.info("breaker_state_changed name=%s from=%s to=%s", event.target, *_ends(event))
            self._bus.publish(event)

    def next_ask(self, worker: str) -> str:
        self._asked += 1
        return f"{worker}/{self._asked}"


class ClaimGateTx:
    """The gates during one transaction. Rows are locked once, and written when they change."""

    def __init__(self, gates: ClaimGates, tx: Tx, worker: str, now: float) -> None:
        self._gates, self._tx, self._worker = gates, tx, worker
        self.now = now
        self.events: list[Event] = []
        self.asks: list[DepthRequest] = []
        self.opens_at: float | None = None  # the earliest time at which a closed gate may open
        self._rows: dict[str, TargetRow] = {}
        self._left: dict[str, int] = {}
        self._climbing: set[str] = set()  # targets that only the adaptive limit after an outage limits
        self._wants_ask: set[str] = set()

    def lock_rows(self, noted: Iterable[str], ready_targets: Sequence[ReadyTarget]) -> None:
        """Locks the rows that may change in this transaction, except those of closed gates, to avoid lock waits."""
        rules = self._gates.rules
        names = {name for name in noted if name in rules and rules[name].limited}
        names |= {
            front.target
            for front in ready_targets
            if front.target in rules and rules[front.target].limited and not self._shut(front)
        }
        self._rows, now = table.lock_targets(self._tx, names)
        if now is not None:
            self.now = now  # the store's clock, which also stamps the claims

    # -- before a claim ------------------------------------------------------------------------------------------

    def admits(self, ready_target: ReadyTarget) -> bool:
        """Whether the gates of the queue and the target are open. The gates of keys are checked later."""
        for paused_until in (ready_target.queue_paused_until, ready_target.paused_until):
            if paused_until is not None and self.now < paused_until:
                self.wake_at(paused_until)
                return False
        if self._shut(ready_target):
            self.wake_at(ready_target.breaker_until)
            return False
        return self.left(ready_target.target) > 0 or self.wants_ask(ready_target.target)

    def fails_fast(self, ready_target: ReadyTarget) -> bool:
        """Whether jobs of this target fail instead of waiting, because its breaker is open."""
        rules = self._gates.rules.get(ready_target.target)
        return rules is not None and rules.when_open == "fail-fast" and self._open(ready_target)

    def rejected(self, target: str, n: int) -> None:
        """Counts *n* jobs that failed fast."""
        if target in self._rows:
            before = self._rows[target].breaker
            self._move(target, before, target_breaker.record_rejected(before, n))

    def left(self, target: str) -> int:
        """How many more jobs of a target may be claimed in this transaction."""
        if target not in self._left:
            self._left[target] = self._room(target)
        return self._left[target]

    def gated(self, target: str) -> bool:
        """Whether the target has gates. Its jobs are not prefetched, because a gate may close at any moment."""
        rules = self._gates.rules.get(target)
        return rules is not None and rules.limited

    def admission(self, target: str) -> ClaimAdmission:
        """How the breaker of a target admits a job that is claimed now."""
        row = self._rows.get(target)
        if row is None:
            return NO_BREAKER
        return ClaimAdmission(row.breaker.generation, target_breaker.outage_at_trial(row.breaker, self.now))

    def half_open(self, target: str) -> bool:
        """Whether jobs of the target are claimed as trials."""
        row = self._rows.get(target)
        return row is not None and row.breaker.state == HALF_OPEN

    def trial_key(self, target: str) -> str | None:
        """The key of the last trial of a half-open target. The next trial goes to another one."""
        return (self._rows[target].breaker.trial_key or None) if self.half_open(target) else None

    def wants_ask(self, target: str) -> bool:
        """Whether only an unknown depth holds its jobs."""
        return target in self._wants_ask

    def request_depth(self, target: str) -> bool:
        """Requests the depth if it is unknown, now that a job is ready. Returns False if the job must wait for it."""
        if not self.wants_ask(target):
            return True
        self._wants_ask.discard(target)
        ask = DepthRequest(target, self._gates.next_ask(self._worker))
        self._fill(target, capacity.depth_requested(self._filling(target), ask.who, self.now))
        self.asks.append(ask)
        return False

    def probe(self, target: str, key_text: str) -> bool:
        """Reserves the single probe of a key whose hold has ended."""
        until = self.now + cooldown.PROBE_TIME
        place = {"target": target, "lane": key_text}
        return bool(self._tx.query("hold_probe", {**place, "until": until, "at": self.now}))

    def probing(self, target: str, key_text: str, taken: Sequence[Claimed]) -> None:
        """Stores which job is the probe, or releases the reservation if no job was claimed."""
        place = {"target": target, "lane": key_text}
        if taken:
            self._tx.query("hold_probe_is", {**place, "job": taken[0].id})
        else:
            self._tx.query("hold_unprobe", {**place, "job": 0})

    def claimed(self, target: str, taken: Sequence[Claimed]) -> None:
        """Charges claimed jobs to the rate, the capacity and the limits of their target."""
        rules = self._gates.rules.get(target)
        if rules is None or not taken or target not in self._rows:
            return
        self._left[target] = self.left(target) - len(taken)
        if self._left[target] <= 0 and target in self._climbing:
            self._held_back(target)
        if self.half_open(target):
            self._put(target, replace(self._rows[target].breaker, trial_key=taken[-1].lane))
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
        """Records that the adaptive limit was the bottleneck, which allows it to grow."""
        self._put(target, target_breaker.mark_limited(self._rows[target].breaker))

    def _put(self, target: str, after: StoredBreaker) -> None:
        before = self._rows[target].breaker
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
            return ready_target.target in self._gates.rules  # an undeclared target has no probe that could end this
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
            # After a clock step backwards, every depth would be older than the drain, and be read again and again.
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
        """How many jobs the breaker and the concurrency limit allow."""
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
        """How many calls the rate limit allows now."""
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
        """Applies a batch of attempts: one change for each target, and one for each unhealthy key."""
        by_target: defaultdict[str, list[tuple[AttemptOutcome, TargetVerdict | None]]] = defaultdict(list)
        for outcome, note in ended:
            if outcome.job.target in self._gates.rules:
                by_target[outcome.job.target].append((outcome, note))
        open_keys = KeyHealthTx(self._tx, self.now, self._gates.rng, self._happened, self.events)
        for target, batch in sorted(by_target.items()):
            rules = self._gates.rules[target]
            if rules.breaker is not None:
                results = [(note.ok, note.generation) for _, note in batch if note is not None and note.ok is not None]
                before = self._advanced(rules, self._rows[target].breaker)
                self._move(target, before, target_breaker.record_results(before, rules.breaker, results, self.now))
            if rules.capacity is not None:
                known = [outcome for outcome, _ in batch if not outcome.keep_place]
                back = [(outcome.job.id, outcome.accepted) for outcome in known]
                self._fill(
                    target, capacity.record_settled(self._filling(target), rules.capacity.limits, back, self.now)
                )
            if open_keys.note(rules, batch) and rules.breaker is not None:
                before = self._rows[target].breaker
                self._move(target, before, target_breaker.restart_limit(before, self.now))

    # -- rows ----------------------------------------------------------------------------------------------------

    def move(self, target: str, change: Callable[[StoredBreaker], StoredBreaker], by: str = _WORKER) -> None:
        """Changes a breaker outside a fetch, for example after a probe."""
        if target not in self._rows:
            self._rows, now = table.lock_targets(self._tx, [target])
            self.now = self.now if now is None else now
        before = self._rows[target].breaker
        self._move(target, before, change(before), by)

    def end_opening(self, rules: TargetRules) -> None:
        """Ends an open breaker that waits for a probe its target no longer has."""
        end = target_breaker.close if rules.breaker is None else target_breaker.half_open
        self.move(rules.name, lambda row: end(row, self.now))

    def fill(self, target: str, change: Callable[[FillLevel, float], FillLevel]) -> None:
        """Changes the fill level of a target after its depth was read."""
        self._rows, now = table.lock_targets(self._tx, [target])
        self.now = self.now if now is None else now
        self._fill(target, change(self._filling(target), self.now))

    def _advanced(self, rules: TargetRules, before: StoredBreaker) -> StoredBreaker:
        after = target_breaker.advance(before, self.now)
        if rules.breaker is None and after.state == HALF_OPEN:
            # An operator or an earlier program opened it. Without a policy, half-open calls are not counted.
            after = target_breaker.close(before, self.now)
        self._move(rules.name, before, after)
        return after

    def _move(self, target: str, before: StoredBreaker, after: StoredBreaker, by: str = _WORKER) -> None:
        if after == before:
            return
        self._put(target, after)
        self._left.pop(target, None)
        if after.state != before.state:
            ends: dict[str, object] = {"name": target, "from": before.state, "to": after.state}
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
        fields: Mapping[str, object],
        fault: Fault | None = None,
        by: str = _WORKER,
    ) -> None:
        shown = {**fields, **({} if fault is None else {"code": fault.code, "message": fault.message})}
        table.append_event(self._tx, "target", target, str(kind), by, key_text=key_text, fields=shown)
        self.events.append(Event(kind=kind, at=self.now, target=target, key=key_text, fault=fault, fields=fields))


def _ends(event: Event) -> tuple[str, str]:
    return str(event.fields["from"]), str(event.fields["to"])
