"""The states of a target's keys. Only keys that failed are here; the healthy cost nothing."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tidegate.clock import Clock
from tidegate.faults.fault import Fault, Reach
from tidegate.guard import cooldown as resting
from tidegate.guard.backoff import Backoff
from tidegate.guard.cooldown import FRESH, Cooldown, CooldownChange
from tidegate.guard.hold import EndedBy, Hold, HoldReason, rank
from tidegate.guard.key_health import Admission, FailureChange, KeyHealth, Notified, RecoveryChange, wait_after
from tidegate.validation import key_text

_SWEEP_EVERY = 256  # recorded failures, or as many as there are keys
_MAX_CLEARED = 1024
_MAX_UNHELD = 1024
_NOTICE_EVERY = 86_400.0


class KeyPolicy(Protocol):
    """What of a target's policy concerns its keys."""

    @property
    def backoff(self) -> Backoff | None: ...
    @property
    def cooldown(self) -> Cooldown | None: ...
    @property
    def max_retry_after(self) -> float: ...
    @property
    def reprobe_every(self) -> float | None: ...
    @property
    def cap_notice(self) -> bool: ...
    @property
    def hold_without_key(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredHealth:
    """The health of a key as it was saved, in monotonic time; *until* None: no time ends it, or nothing was held."""

    failures: int
    since: float
    until: float | None
    fault: Fault


class KeyRegistry:
    """All state per key, on the clock that never steps."""

    def __init__(self, policy: KeyPolicy, clock: Clock, *, plain: bool = True) -> None:
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        self._to_sweep = _SWEEP_EVERY
        self._cleared: OrderedDict[Hashable, int] = OrderedDict()
        self.paused: tuple[float, float, str] | None = None  # since, until, in whose words
        self._plain = plain  # nothing but what is here can stand before a call
        self._watched = False
        self.states: dict[Hashable, KeyHealth] = {}
        # Keys, as texts, that people were told of before, and operations.
        self.adopted: set[tuple[str, str | None]] = set()
        # Rests that people ordered elsewhere, by the text of a key: until when, by whom and why.
        self._ordered: dict[str, tuple[float | None, str, str]] = {}
        # When the last notice of a fatal fault that holds nothing was sent, by operation and code; the oldest first.
        self._unheld: OrderedDict[tuple[str | None, str], float] = OrderedDict()
        # Operations with such a notice since which no call without a key has succeeded; None: the calls without a key.
        self._unresolved: set[str | None] = set()
        self.clears = 0  # how often a key was cleared
        self.no_holds_after = (
            -math.inf
        )  # from then on no key and no pause holds a call: never too early, often too late
        self.is_healthy = (
            True  # of all the keys, nobody is unwell, nothing is paused, and nobody must hear of a success
        )
        self.is_idle = plain  # nothing at all is wrong: the hot path asks this, and little else

    # -- before a call -------------------------------------------------------------------------------------------

    def enter(self, call: Admission) -> Hold | None:
        """Lets the call in, with the one probe if there is one to reserve; or says why it may not go."""
        if not self.states and self.paused is None and not self._ordered:
            return None
        with self._lock:
            # Not before: a failure meanwhile, after which nothing is waited, would seem to hold the call.
            now = self._clock.monotonic()
            held = self._holds(call.key, call.operation, now)
            if held:
                return held[0]
            state = self.states.get(call.key)
            if state is None:
                return None
            part = state.part(call.operation)
            call.fault = state.fault
            call.part_fault = None if part is None else part.fault
            if state.rest.disabled or state.fatal or (part is not None and part.fatal):
                call.probe_until = now + resting.PROBE_TIME
                state.rest = resting.reserve_probe(state.rest, call.probe_until) if state.rest.disabled else state.rest
                for each in (state, part):
                    if each is not None and each.fatal:
                        each.until = call.probe_until
            return None

    def holds(self, key: Hashable, operation: str | None) -> list[Hold]:
        """Every reason why a call may not go now, in the order of the gate."""
        with self._lock:
            return self._holds(key, operation, self._clock.monotonic())

    def release(self, call: Admission) -> None:
        """The call proved nothing: its probe may be taken by the next one."""
        if not math.isfinite(call.probe_until):
            return
        now = self._clock.monotonic()
        with self._lock:
            state = self.states.get(call.key)
            if state is not None:
                state.release(call.probe_until, call.operation, now)

    # -- after it ------------------------------------------------------------------------------------------------

    def is_late(self, call: Admission) -> bool:
        """Whether it was made with credentials that have been replaced since."""
        return self.clears > call.clears and call.clears < self._cleared.get(call.key, 0)

    def record_failure(self, call: Admission, fault: Fault, roll: float) -> list[FailureChange]:
        """Records one failure as far as it reaches; returns what changed."""
        now = self._clock.monotonic()
        with self._lock:
            self._sweep_now_and_then(now)
            found = [] if self.is_late(call) else self._failed(call, fault, roll, now)
            self._settle_down(call.key)
            return found

    def record_success(self, call: Admission) -> list[RecoveryChange]:
        """Ends the run of the key and of its operation, and the rest if its time has passed.

        A run goes on if its last failure came after the call began: that success says nothing of what followed.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._take_in(call)
            state = self.states.get(call.key)
            if self.is_late(call):
                return []
            ended = self._resolved(call, state, now)
            if state is None:
                return ended
            state.rest, change = resting.record_success(state.rest, now)
            since, told = state.since, state.recover() if state.ends_with(call.fault) else Notified.NOTHING
            if told or change is CooldownChange.ENABLED:
                ended.append(
                    RecoveryChange(operation=None, since=since, told=told, enabled=change is CooldownChange.ENABLED)
                )
            part = state.part(call.operation)
            if part is not None and state.parts is not None and part.ends_with(call.part_fault):
                del state.parts[str(call.operation)]
                if part.notified:
                    ended.append(RecoveryChange(operation=call.operation, since=part.since, told=part.notified))
            self._settle_down(call.key)
            return ended

    @property
    def hear_success(self) -> bool:
        """Whether a success may change anything here."""
        return bool(self.states or self.adopted or self._unresolved)

    # -- what people do ------------------------------------------------------------------------------------------

    def adopt(self, told: Iterable[tuple[str, str | None]]) -> None:
        """Keys, as texts, and operations of which an earlier process told people: the first success ends that."""
        with self._lock:
            self.adopted |= set(told)
            self._look()

    def restore(self, key: Hashable, operation: str | None, known: RestoredHealth) -> None:
        """What an earlier process knew of a key, or of one operation of it; unless more is known already."""
        with self._lock:
            state = self._state(key, known.since)
            part = state if operation is None else state.made_part(operation, known.since)
            if not part.failures:
                part.failures, part.fault, part.since = known.failures, known.fault, known.since
                part.fatal = known.fault.fatal and not self._is_governed(known.fault) and self._holds_fatal(key)
                part.until = (
                    self._ends_without_time(known.fault, fatal=part.fatal) if known.until is None else known.until
                )
                self._held_until(math.inf if part.fatal else part.until)
            self._settle_down(key)

    def clear(self, key: Hashable) -> None:
        """Forgets all of it. If people were told of trouble, the next success still tells them that it is over."""
        with self._lock:
            text, state = key_text(key), self.states.pop(key, None)
            self._forget_order(key)
            if key is None:
                self._unheld.clear()
                self._unresolved.clear()
            others = {each for each in self.adopted if each[0] != text}
            owed = len(others) < len(self.adopted) or (state is not None and state.told_of)
            self.adopted = others | {(text, None)} if owed and len(others) < _MAX_CLEARED else others
            self.clears += 1
            self._cleared[key] = self.clears
            self._cleared.move_to_end(key)
            if len(self._cleared) > _MAX_CLEARED:
                self._cleared.popitem(last=False)
            self._look()

    def retry_now(self, key: Hashable) -> None:
        """Ends the waits after failures, except those that a service asked for; refused credentials are not tried."""
        now = self._clock.monotonic()
        with self._lock:
            state = self.states.get(key)
            for each in () if state is None else (state, *(state.parts or {}).values()):
                if not each.refused and not each.asked:
                    each.until = min(each.until, now)

    def disable(self, key: Hashable, until: float | None, by: str, reason: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            state = self._state(key, now)
            state.rest = resting.disable(state.rest, until=until, by=by, reason=reason, now=now)
            self._held_until(math.inf)

    def order(self, text: str, until: float | None, by: str, reason: str) -> None:
        """A person has ordered a rest of all keys that look so; they may be met later."""
        with self._lock:
            self._ordered[text] = (until, by, reason)
            self._held_until(math.inf)
            self._look()

    def end_order(self, text: str) -> None:
        with self._lock:
            self._ordered.pop(text, None)
            self._look()

    def enable(self, key: Hashable) -> bool:
        """Ends a rest, whoever ordered it; False when there was none."""
        with self._lock:
            self._forget_order(key)
            state = self.states.get(key)
            if state is None or not state.rest.disabled:
                return False
            state.rest = FRESH
            self._settle_down(key)
            return True

    def pause(self, until: float, message: str) -> None:
        with self._lock:
            self.paused = (self._clock.monotonic(), until, message)
            self._held_until(until)
            self._look()

    def resume(self) -> bool:
        """Ends a pause; False when there was none."""
        now = self._clock.monotonic()
        with self._lock:
            was, self.paused = self.paused, None
            self._look()
            return was is not None and now < was[1]

    def watch(self, watched: bool) -> None:
        """Whether somebody must hear of every success, although no key is unwell."""
        with self._lock:
            self._watched = watched
            self._look()

    def unhealthy(self) -> list[tuple[Hashable, str | None, KeyHealth]]:
        """Every key, and every operation, that has state."""
        with self._lock:
            self._sweep(self._clock.monotonic())
            return [found for key, state in self.states.items() for found in _unhealthy(key, state)]

    def unhealthy_at(self, key: Hashable) -> list[tuple[Hashable, str | None, KeyHealth]]:
        """A key, and every operation of it, that has state."""
        with self._lock:
            state = self.states.get(key)
            return [] if state is None else list(_unhealthy(key, state))

    # -- inside, under the lock ----------------------------------------------------------------------------------

    def _holds(self, key: Hashable, operation: str | None, now: float) -> list[Hold]:
        self._follow_order(key, now)
        found: list[Hold] = []
        if self.paused is not None:
            since, until, message = self.paused
            if now >= until:
                self.paused = None
                self._look()
            else:
                found.append(
                    Hold(reason=HoldReason.PAUSED, since=since, until=until, ended_by=EndedBy.PERSON, message=message)
                )
        state = self.states.get(key)
        if state is not None:
            found += state.holds(now)
            part = state.part(operation)
            found += [] if part is None else part.holds(now, operation)
        return sorted(found, key=rank)

    def _failed(self, call: Admission, fault: Fault, roll: float, now: float) -> list[FailureChange]:
        policy = self._policy
        self._take_in(call)
        state = self._state(call.key, now)
        state.release(call.probe_until, call.operation, now)
        changes = self._rest(state, fault, now)
        governed = self._is_governed(fault)
        if fault.reach is Reach.SELF or (fault.reach is Reach.ITEM and not governed):
            return changes
        operation = call.operation if fault.reach is Reach.OPERATION else None
        part = state if operation is None else state.made_part(operation, now)
        fatal = fault.fatal and not governed
        if not part.ends_with(call.fault if part is state else call.part_fault) and not fatal:
            # It was let through before the last failure was known: one outage, counted once.
            part.record_late_failure(fault, now + min(fault.retry_after or 0.0, policy.max_retry_after))
            self._held_until(part.until)
            return changes
        if fatal and not self._holds_fatal(call.key):
            if part.until <= now:
                part.record_failure(fault, now, 0.0, fatal=False)
            if self._is_notice_due(operation, fault.code, now):
                changes.append(FailureChange(operation=operation, since=now, news=Notified.FATAL))
                self._unresolved.add(operation)
                self._look()
            return changes
        wait = wait_after(
            fault,
            part.failures,
            policy.backoff,
            roll,
            max_retry_after=policy.max_retry_after,
            reprobe_every=policy.reprobe_every,
            fatal=fatal,
        )
        part.record_failure(fault, now, wait, fatal=fatal)
        self._held_until(math.inf if part.fatal else part.until)
        news = (Notified.FATAL if fatal else self._news(part)) & ~part.notified
        if news:
            part.notified |= news
            changes.append(FailureChange(operation=operation, since=part.since, news=news))
        return changes

    def _is_governed(self, fault: Fault) -> bool:
        """Whether the cooldown decides about its code, instead of the fatal state."""
        return self._policy.cooldown is not None and self._policy.cooldown.governs(fault.code)

    def _ends_without_time(self, fault: Fault, *, fatal: bool) -> float:
        """Until when a saved fault holds if no time was saved: for ever if a person must act, else no longer."""
        wait = wait_after(
            fault, 0, None, 0.0, max_retry_after=0.0, reprobe_every=self._policy.reprobe_every, fatal=fatal
        )
        return math.inf if math.isinf(wait) else -math.inf

    def _holds_fatal(self, key: Hashable) -> bool:
        """Whether a fatal fault holds further calls.

        Without a key it is unknown whose credentials were refused: all other callers would be held for them.
        """
        return key is not None or self._policy.hold_without_key

    def _is_notice_due(self, operation: str | None, code: str, now: float) -> bool:
        """Whether to send a notice of a fatal fault that holds nothing: once a day for each code."""
        sent = self._unheld.get((operation, code))
        if sent is not None and now - sent < _NOTICE_EVERY:
            return False
        self._unheld.pop((operation, code), None)
        if len(self._unheld) >= _MAX_UNHELD:
            self._unheld.popitem(last=False)
        self._unheld[operation, code] = now
        return True

    def _resolved(self, call: Admission, state: KeyHealth | None, now: float) -> list[RecoveryChange]:
        """The notices of faults that held nothing, which this success ends."""
        if call.key is not None or not self._unresolved:
            return []
        ended: list[RecoveryChange] = []
        for operation in {None, call.operation} & self._unresolved:
            part = state if operation is None or state is None else state.part(operation)
            met = call.fault if operation is None else call.part_fault
            if part is None or part.ends_with(met):
                self._unresolved.discard(operation)
                ended.append(RecoveryChange(operation=operation, since=now, resolved=True))
        self._look()
        return ended

    def _news(self, part: KeyHealth) -> Notified:
        backoff = self._policy.backoff
        at_cap = self._policy.cap_notice and backoff is not None and backoff.at_cap(part.failures - 1)
        return Notified.CAP if at_cap else Notified.NOTHING

    def _rest(self, state: KeyHealth, fault: Fault, now: float) -> list[FailureChange]:
        if self._policy.cooldown is None:
            return []
        state.rest, change = resting.record_failure(state.rest, self._policy.cooldown, fault, now)
        if change is not CooldownChange.DISABLED:
            return []
        self._held_until(math.inf)
        return [FailureChange(operation=None, since=now, rest=state.rest, failures=state.failures + 1)]

    def _state(self, key: Hashable, now: float) -> KeyHealth:
        state = self.states.get(key)
        if state is None:
            state = self.states[key] = KeyHealth(now)
            self._look()
        return state

    def _take_in(self, call: Admission) -> None:
        """What people were told of the key, and of the operation, before this process began."""
        if not self.adopted:
            return
        now, text = self._clock.monotonic(), key_text(call.key)
        for operation in {None, call.operation}:
            if (text, operation) in self.adopted:
                self.adopted.discard((text, operation))
                state = self._state(call.key, now)
                part = state if operation is None else state.made_part(operation, now)
                part.notified |= Notified.BEFORE
        self._look()

    def _follow_order(self, key: Hashable, now: float) -> None:
        """Lets a key rest if that was ordered before anything was known of it."""
        ordered = self._ordered.get(key_text(key)) if self._ordered else None
        if ordered is None or (ordered[0] is not None and now >= ordered[0]):
            return
        state = self._state(key, now)
        if not state.rest.disabled:
            until, by, reason = ordered
            state.rest = resting.disable(state.rest, until=until, by=by, reason=reason, now=now)

    def _forget_order(self, key: Hashable) -> None:
        if self._ordered and self._ordered.pop(key_text(key), None) is not None:
            self._look()

    def _settle_down(self, key: Hashable) -> None:
        """Forgets a key that is well."""
        state = self.states.get(key)
        if state is not None:
            state.parts = state.parts or None
            if state.healthy:
                del self.states[key]
                self._look()

    def _held_until(self, until: float) -> None:
        """Some call may be held until then; infinite: for as long as anything is known of any key."""
        self.no_holds_after = max(self.no_holds_after, until)

    def _look(self) -> None:
        if not self.states and self.paused is None and not self._ordered:
            self.no_holds_after = -math.inf
        known = self.states or self.paused is not None or self.adopted or self._ordered or self._unresolved
        self.is_healthy = not known and not self._watched
        self.is_idle = self._plain and self.is_healthy

    def _sweep_now_and_then(self, now: float) -> None:
        self._to_sweep -= 1
        if self._to_sweep <= 0:
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        """Forgets what ended long ago without a success."""
        for key, state in list(self.states.items()):
            for operation, part in list((state.parts or {}).items()):
                if part.idle(now) and state.parts is not None:
                    del state.parts[operation]
            state.parts = state.parts or None
            if not state.parts and state.idle(now):
                del self.states[key]
        # As rare as there are keys to look at, so that a failure never pays for more than a few.
        self._to_sweep = max(_SWEEP_EVERY, len(self.states))
        self._look()


def _unhealthy(key: Hashable, state: KeyHealth) -> Iterator[tuple[Hashable, str | None, KeyHealth]]:
    if state.failures or state.rest is not FRESH:
        yield key, None, state
    yield from ((key, operation, part) for operation, part in (state.parts or {}).items())
