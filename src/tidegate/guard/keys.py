"""The health of a target's keys. Only keys that failed have an entry."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tidegate.clock import Clock
from tidegate.faults.fault import Fault, Reach, Reason
from tidegate.guard import cooldown as cooldowns
from tidegate.guard.backoff import Backoff
from tidegate.guard.cooldown import FRESH, Cooldown, CooldownChange
from tidegate.guard.hold import EndedBy, Hold, HoldReason, rank
from tidegate.guard.key_health import Admission, FailureChange, KeyHealth, Notified, RecoveryChange, wait_after
from tidegate.validation import key_text

_EVICT_EVERY = 256  # recorded failures, or the number of keys if that is larger
_MAX_CLEARED = 1024
_MAX_UNHELD = 1024
_NOTICE_EVERY = 86_400.0


class KeyPolicy(Protocol):
    """The part of a target's policy that concerns its keys."""

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
    """The saved health of a key, in monotonic time. *until* None: time does not end it, or it held nothing."""

    failures: int
    since: float
    until: float | None
    fault: Fault


class KeyRegistry:
    """The state of all keys of a target, in monotonic time."""

    def __init__(self, policy: KeyPolicy, clock: Clock, *, plain: bool = True) -> None:
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        self._failures_to_eviction = _EVICT_EVERY
        self._cleared: OrderedDict[Hashable, int] = OrderedDict()
        self.paused: tuple[float, float, str] | None = None  # since, until, message
        self._plain = plain  # no gate other than keys and pauses
        self._watched = False
        self.states: dict[Hashable, KeyHealth] = {}
        # Keys, as text, and operations for which an earlier process sent notices.
        self.adopted: set[tuple[str, str | None]] = set()
        # Cooldowns that operators ordered in the store, by key text: until, by, reason.
        self._ordered: dict[str, tuple[float | None, str, str]] = {}
        # Times of the last notices about fatal faults that hold nothing, by operation and code. Oldest first.
        self._unheld: OrderedDict[tuple[str | None, str], float] = OrderedDict()
        # Operations with such a notice and no success without a key since then. None: the calls without a key.
        self._unresolved: set[str | None] = set()
        self.clears = 0  # number of cleared keys
        # After this time no key and no pause holds a call. The value is often too late, never too early.
        self.no_holds_after = -math.inf
        self.is_healthy = True  # no key has state, nothing is paused, and no success must be recorded
        self.is_idle = plain  # nothing is wrong at all: the main check of the hot path

    # -- before a call -------------------------------------------------------------------------------------------

    def enter(self, call: Admission) -> Hold | None:
        """Admits the call, and reserves the probe if there is one. Else returns the reason."""
        if not self.states and self.paused is None and not self._ordered:
            return None
        with self._lock:
            # Read under the lock: a failure in between without a delay would otherwise hold the call.
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
                call.probe_until = now + cooldowns.PROBE_TIME
                state.rest = (
                    cooldowns.reserve_probe(state.rest, call.probe_until) if state.rest.disabled else state.rest
                )
                for held_state in (state, part):
                    if held_state is not None and held_state.fatal:
                        held_state.until = call.probe_until
            return None

    def holds(self, key: Hashable, operation: str | None) -> list[Hold]:
        """Returns every reason why a call may not go now, in gate order."""
        with self._lock:
            return self._holds(key, operation, self._clock.monotonic())

    def release(self, call: Admission) -> None:
        """Releases the probe of a call that proved nothing."""
        if not math.isfinite(call.probe_until):
            return
        now = self._clock.monotonic()
        with self._lock:
            state = self.states.get(call.key)
            if state is not None:
                state.release(call.probe_until, call.operation, now)

    # -- after a call --------------------------------------------------------------------------------------------

    def is_late(self, call: Admission) -> bool:
        """Whether the call used credentials that have been replaced since."""
        return self.clears > call.clears and call.clears < self._cleared.get(call.key, 0)

    def record_failure(self, call: Admission, fault: Fault, roll: float) -> list[FailureChange]:
        """Records one failure as far as it reaches. Returns the changes."""
        now = self._clock.monotonic()
        with self._lock:
            self._evict_idle_if_due(now)
            changes = [] if self.is_late(call) else self._failed(call, fault, roll, now)
            self._evict_if_healthy(call.key)
            return changes

    def record_success(self, call: Admission) -> list[RecoveryChange]:
        """Ends the run of the key and of its operation, and the cooldown if its time has passed.

        A run continues if its last failure is newer than the start of the call.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._adopt_notices(call)
            state = self.states.get(call.key)
            if self.is_late(call):
                return []
            ended = self._resolved(call, state, now)
            if state is None:
                return ended
            state.rest, change = cooldowns.record_success(state.rest, now)
            since, sent = state.since, state.recover() if state.ends_with(call.fault) else Notified.NOTHING
            if sent or change is CooldownChange.ENABLED:
                ended.append(
                    RecoveryChange(operation=None, since=since, told=sent, enabled=change is CooldownChange.ENABLED)
                )
            part = state.part(call.operation)
            if part is not None and state.parts is not None and part.ends_with(call.part_fault):
                del state.parts[str(call.operation)]
                if part.notified:
                    ended.append(RecoveryChange(operation=call.operation, since=part.since, told=part.notified))
            self._evict_if_healthy(call.key)
            return ended

    @property
    def hear_success(self) -> bool:
        """Whether a success may change anything here."""
        return bool(self.states or self.adopted or self._unresolved)

    # -- operator actions ----------------------------------------------------------------------------------------

    def adopt(self, notices: Iterable[tuple[str, str | None]]) -> None:
        """Adds keys, as text, and operations with notices from an earlier process. The first success resolves them."""
        with self._lock:
            self.adopted |= set(notices)
            self._update_flags()

    def restore(self, key: Hashable, operation: str | None, known: RestoredHealth) -> None:
        """Restores the health of a key or operation from an earlier process, unless it has newer failures."""
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
            self._evict_if_healthy(key)

    def clear(self, key: Hashable) -> None:
        """Forgets the state of a key. If a notice was sent, the next success still resolves it."""
        with self._lock:
            text, state = key_text(key), self.states.pop(key, None)
            self._forget_order(key)
            if key is None:
                self._unheld.clear()
                self._unresolved.clear()
            others = {notice for notice in self.adopted if notice[0] != text}
            owed = len(others) < len(self.adopted) or (state is not None and state.told_of)
            self.adopted = others | {(text, None)} if owed and len(others) < _MAX_CLEARED else others
            self.clears += 1
            self._cleared[key] = self.clears
            self._cleared.move_to_end(key)
            if len(self._cleared) > _MAX_CLEARED:
                self._cleared.popitem(last=False)
            self._update_flags()

    def retry_now(self, key: Hashable) -> None:
        """Ends the delays after failures, except a Retry-After of the service. Rejected credentials are not tried."""
        now = self._clock.monotonic()
        with self._lock:
            state = self.states.get(key)
            for health in () if state is None else (state, *(state.parts or {}).values()):
                if not health.refused and not health.asked:
                    health.until = min(health.until, now)

    def disable(self, key: Hashable, until: float | None, by: str, reason: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            state = self._state(key, now)
            state.rest = cooldowns.disable(state.rest, until=until, by=by, reason=reason, now=now)
            self._held_until(math.inf)

    def order(self, text: str, until: float | None, by: str, reason: str) -> None:
        """Records a cooldown that an operator ordered for a key text. The key itself may be seen later."""
        with self._lock:
            self._ordered[text] = (until, by, reason)
            self._held_until(math.inf)
            self._update_flags()

    def end_order(self, text: str) -> None:
        with self._lock:
            self._ordered.pop(text, None)
            self._update_flags()

    def enable(self, key: Hashable) -> bool:
        """Ends a cooldown, automatic or ordered. Returns False if there was none."""
        with self._lock:
            self._forget_order(key)
            state = self.states.get(key)
            if state is None or not state.rest.disabled:
                return False
            state.rest = FRESH
            self._evict_if_healthy(key)
            return True

    def pause(self, until: float, message: str) -> None:
        with self._lock:
            self.paused = (self._clock.monotonic(), until, message)
            self._held_until(until)
            self._update_flags()

    def resume(self) -> bool:
        """Ends a pause. Returns False if there was none."""
        now = self._clock.monotonic()
        with self._lock:
            was, self.paused = self.paused, None
            self._update_flags()
            return was is not None and now < was[1]

    def watch(self, watched: bool) -> None:
        """Sets whether every success must be recorded, even if all keys are healthy."""
        with self._lock:
            self._watched = watched
            self._update_flags()

    def unhealthy(self) -> list[tuple[Hashable, str | None, KeyHealth]]:
        """Returns every key and operation that has state."""
        with self._lock:
            self._evict_idle(self._clock.monotonic())
            return [entry for key, state in self.states.items() for entry in _unhealthy(key, state)]

    def unhealthy_at(self, key: Hashable) -> list[tuple[Hashable, str | None, KeyHealth]]:
        """Returns the key and its operations that have state."""
        with self._lock:
            state = self.states.get(key)
            return [] if state is None else list(_unhealthy(key, state))

    # -- internals, under the lock -------------------------------------------------------------------------------

    def _holds(self, key: Hashable, operation: str | None, now: float) -> list[Hold]:
        self._follow_order(key, now)
        holds: list[Hold] = []
        if self.paused is not None:
            since, until, message = self.paused
            if now >= until:
                self.paused = None
                self._update_flags()
            else:
                holds.append(
                    Hold(reason=HoldReason.PAUSED, since=since, until=until, ended_by=EndedBy.PERSON, message=message)
                )
        state = self.states.get(key)
        if state is not None:
            holds += state.holds(now)
            part = state.part(operation)
            holds += [] if part is None else part.holds(now, operation)
        return sorted(holds, key=rank)

    def _failed(self, call: Admission, fault: Fault, roll: float, now: float) -> list[FailureChange]:
        policy = self._policy
        self._adopt_notices(call)
        state = self._state(call.key, now)
        state.release(call.probe_until, call.operation, now)
        changes = self._record_cooldown(state, fault, now)
        governed = self._is_governed(fault)
        if fault.reach is Reach.SELF or (fault.reach is Reach.ITEM and not governed):
            return changes
        operation = call.operation if fault.reach is Reach.OPERATION else None
        part = state if operation is None else state.made_part(operation, now)
        fatal = fault.fatal and not governed
        if not part.ends_with(call.fault if part is state else call.part_fault) and not fatal:
            # The call was admitted before the last failure was known: one outage counts once.
            if fault.retry_after or (fault.reason is Reason.THROTTLED and policy.backoff is None and part.until <= now):
                wait = wait_after(
                    fault,
                    0,
                    None,
                    roll,
                    max_retry_after=policy.max_retry_after,
                    reprobe_every=None,
                    fatal=False,
                    throttles=max(part.throttles - 1, 0),
                )
                part.record_late_failure(fault, now + wait)
                self._held_until(part.until)
            return changes
        if fatal and not self._holds_fatal(call.key):
            if part.until <= now:
                part.record_failure(fault, now, 0.0, fatal=False)
            if self._is_notice_due(operation, fault.code, now):
                changes.append(FailureChange(operation=operation, since=now, news=Notified.FATAL))
                self._unresolved.add(operation)
                self._update_flags()
            return changes
        wait = wait_after(
            fault,
            part.failures,
            policy.backoff,
            roll,
            max_retry_after=policy.max_retry_after,
            reprobe_every=policy.reprobe_every,
            fatal=fatal,
            throttles=part.throttles,
        )
        part.record_failure(fault, now, wait, fatal=fatal)
        self._held_until(math.inf if part.fatal else part.until)
        news = (Notified.FATAL if fatal else self._cap_notice(part)) & ~part.notified
        if news:
            part.notified |= news
            changes.append(FailureChange(operation=operation, since=part.since, news=news))
        return changes

    def _is_governed(self, fault: Fault) -> bool:
        """Whether the cooldown handles this code instead of the fatal state."""
        return self._policy.cooldown is not None and self._policy.cooldown.governs(fault.code)

    def _ends_without_time(self, fault: Fault, *, fatal: bool) -> float:
        """Returns the end of a saved fault without a saved time: infinite if an operator must act, else now."""
        wait = wait_after(
            fault, 0, None, 0.0, max_retry_after=0.0, reprobe_every=self._policy.reprobe_every, fatal=fatal
        )
        return math.inf if math.isinf(wait) else -math.inf

    def _holds_fatal(self, key: Hashable) -> bool:
        """Whether a fatal fault holds further calls.

        Without a key, the owner of the rejected credentials is unknown, and a hold would affect all other callers.
        """
        return key is not None or self._policy.hold_without_key

    def _is_notice_due(self, operation: str | None, code: str, now: float) -> bool:
        """Whether to send a notice about a fatal fault that holds nothing: once a day for each code."""
        sent = self._unheld.get((operation, code))
        if sent is not None and now - sent < _NOTICE_EVERY:
            return False
        self._unheld.pop((operation, code), None)
        if len(self._unheld) >= _MAX_UNHELD:
            self._unheld.popitem(last=False)
        self._unheld[operation, code] = now
        return True

    def _resolved(self, call: Admission, state: KeyHealth | None, now: float) -> list[RecoveryChange]:
        """Returns the notices about faults without a hold that this success resolves."""
        if call.key is not None or not self._unresolved:
            return []
        ended: list[RecoveryChange] = []
        for operation in {None, call.operation} & self._unresolved:
            part = state if operation is None or state is None else state.part(operation)
            met = call.fault if operation is None else call.part_fault
            if part is None or part.ends_with(met):
                self._unresolved.discard(operation)
                ended.append(RecoveryChange(operation=operation, since=now, resolved=True))
        self._update_flags()
        return ended

    def _cap_notice(self, part: KeyHealth) -> Notified:
        backoff = self._policy.backoff
        at_cap = self._policy.cap_notice and backoff is not None and backoff.at_cap(part.failures - 1)
        return Notified.CAP if at_cap else Notified.NOTHING

    def _record_cooldown(self, state: KeyHealth, fault: Fault, now: float) -> list[FailureChange]:
        if self._policy.cooldown is None:
            return []
        state.rest, change = cooldowns.record_failure(state.rest, self._policy.cooldown, fault, now)
        if change is not CooldownChange.DISABLED:
            return []
        self._held_until(math.inf)
        return [FailureChange(operation=None, since=now, rest=state.rest, failures=state.failures + 1)]

    def _state(self, key: Hashable, now: float) -> KeyHealth:
        state = self.states.get(key)
        if state is None:
            state = self.states[key] = KeyHealth(now)
            self._update_flags()
        return state

    def _adopt_notices(self, call: Admission) -> None:
        """Takes over the notices that an earlier process sent for the key and the operation."""
        if not self.adopted:
            return
        now, text = self._clock.monotonic(), key_text(call.key)
        for operation in {None, call.operation}:
            if (text, operation) in self.adopted:
                self.adopted.discard((text, operation))
                state = self._state(call.key, now)
                part = state if operation is None else state.made_part(operation, now)
                part.notified |= Notified.BEFORE
        self._update_flags()

    def _follow_order(self, key: Hashable, now: float) -> None:
        """Applies a cooldown that was ordered before the key had state."""
        ordered = self._ordered.get(key_text(key)) if self._ordered else None
        if ordered is None or (ordered[0] is not None and now >= ordered[0]):
            return
        state = self._state(key, now)
        if not state.rest.disabled:
            until, by, reason = ordered
            state.rest = cooldowns.disable(state.rest, until=until, by=by, reason=reason, now=now)

    def _forget_order(self, key: Hashable) -> None:
        if self._ordered and self._ordered.pop(key_text(key), None) is not None:
            self._update_flags()

    def _evict_if_healthy(self, key: Hashable) -> None:
        """Removes the state of a healthy key."""
        state = self.states.get(key)
        if state is not None:
            state.parts = state.parts or None
            if state.healthy:
                del self.states[key]
                self._update_flags()

    def _held_until(self, until: float) -> None:
        """Extends the time in which calls may be held. Infinite: as long as any key has state."""
        self.no_holds_after = max(self.no_holds_after, until)

    def _update_flags(self) -> None:
        if not self.states and self.paused is None and not self._ordered:
            self.no_holds_after = -math.inf
        known = self.states or self.paused is not None or self.adopted or self._ordered or self._unresolved
        self.is_healthy = not known and not self._watched
        self.is_idle = self._plain and self.is_healthy

    def _evict_idle_if_due(self, now: float) -> None:
        self._failures_to_eviction -= 1
        if self._failures_to_eviction <= 0:
            self._evict_idle(now)

    def _evict_idle(self, now: float) -> None:
        """Removes state that ended long ago without a success."""
        for key, state in list(self.states.items()):
            for operation, part in list((state.parts or {}).items()):
                if part.idle(now) and state.parts is not None:
                    del state.parts[operation]
            state.parts = state.parts or None
            if not state.parts and state.idle(now):
                del self.states[key]
        # With more keys the scan runs less often, so its cost per failure stays constant.
        self._failures_to_eviction = max(_EVICT_EVERY, len(self.states))
        self._update_flags()


def _unhealthy(key: Hashable, state: KeyHealth) -> Iterator[tuple[Hashable, str | None, KeyHealth]]:
    if state.failures or state.rest is not FRESH:
        yield key, None, state
    yield from ((key, operation, part) for operation, part in (state.parts or {}).items())
