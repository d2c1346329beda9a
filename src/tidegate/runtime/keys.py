"""The states of a target's keys. Only keys that failed are here; the healthy cost nothing."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any, Protocol

from tidegate.core.backoff import Backoff
from tidegate.core.events import EventKind
from tidegate.core.fault import Fault, Reach
from tidegate.core.policy import Cooldown
from tidegate.machine import cooldown as resting
from tidegate.machine.cooldown import FRESH, Change
from tidegate.machine.gate import EndedBy, Hold, HoldReason
from tidegate.machine.keystate import KeyState, Told, wait_after
from tidegate.runtime.clock import Clock

_SWEEP_EVERY = 256  # recorded failures
_IDLE = 3600.0  # a run whose wait has been over for so long is forgotten
_MOST_CLEARED = 1024


class KeyPolicy(Protocol):
    """What of a target's policy concerns its keys."""

    @property
    def backoff(self) -> Backoff: ...
    @property
    def cooldown(self) -> Cooldown | None: ...
    @property
    def most_asked(self) -> float: ...
    @property
    def reprobe(self) -> float | None: ...


class Then(Protocol):
    """How things stood when a call was let through."""

    @property
    def failures(self) -> int: ...
    @property
    def clears(self) -> int: ...


Changed = tuple[EventKind, KeyState, dict[str, Any]]


class Keys:
    """All state per key, on the clock that never steps."""

    def __init__(self, policy: KeyPolicy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._lock = threading.Lock()
        self._recorded = 0
        self._cleared: OrderedDict[Hashable, int] = OrderedDict()
        self.paused: tuple[float, float, str] | None = None
        self.states: dict[Hashable, KeyState] = {}
        self.clears = 0  # how often a key was cleared

    # -- before a call -------------------------------------------------------------------------------------------

    def hold(self, key: Hashable, operation: str | None) -> Hold | None:
        """The first reason why a call may not go now."""
        return next(self.holds(key, operation), None)

    def holds(self, key: Hashable, operation: str | None) -> Iterator[Hold]:
        """Every reason, in the order of the gate: of the whole target, of the key, of the operation."""
        now = self._clock.monotonic()
        paused = self.paused
        if paused is not None and now >= paused[1]:
            self.paused = None
        elif paused is not None:
            yield Hold(
                reason=HoldReason.PAUSED, since=paused[0], until=paused[1], ended_by=EndedBy.PERSON, message=paused[2]
            )
        if not self.states:
            return
        with self._lock:
            state = self.states.get(key)
            found = [] if state is None else [state.hold(now), *_part_holds(state, operation, now)]
        yield from (hold for hold in found if hold is not None)

    def enter(self, key: Hashable) -> int:
        """A call goes: reserves the one probe of a rest or of a fatal fault; returns the failures of the key so far."""
        if not self.states:
            return 0
        now = self._clock.monotonic()
        with self._lock:
            state = self.states.get(key)
            if state is None:
                return 0
            if state.rest.disabled:
                state.rest = resting.probing(state.rest, now)
            if state.fatal:
                state.until = now + resting.PROBE_TIME
            return state.failures

    def give_back(self, key: Hashable) -> None:
        """The call proved nothing: its probe may be taken by the next one."""
        with self._lock:
            state = self.states.get(key)
            if state is not None:
                state.rest = resting.given_back(state.rest)
                if state.fatal and math.isfinite(state.until):
                    state.until = self._clock.monotonic()

    # -- after it ------------------------------------------------------------------------------------------------

    def failed(self, key: Hashable, operation: str | None, fault: Fault, then: Then, roll: float) -> list[Changed]:
        """Records one failure as far as it reaches; returns what changed."""
        now = self._clock.monotonic()
        with self._lock:
            self._sweep(now)
            if then.clears < self._cleared.get(key, 0):
                return []  # it was made with the credentials that have been replaced since
            changes = self._rest(key, fault, now)
            governed = self._governs(fault)
            if fault.reach is Reach.SELF or (fault.reach is Reach.ITEM and not governed):
                return changes
            state = self.states.get(key) or self._new(key, now)
            part = state if operation is None or fault.reach is not Reach.OPERATION else _part(state, operation, now)
            if part is state and part.failures > then.failures and not fault.fatal:
                return changes  # it was let through before the last failure was known: one outage, counted once
            part.failed(fault, now, self._wait(fault, part.failures, roll))
            if part.fatal and not governed and not part.told & Told.FATAL:
                part.told |= Told.FATAL
                changes.append((EventKind.TARGET_FATAL, part, {}))
            return changes

    def succeeded(self, key: Hashable, operation: str | None) -> list[tuple[Told, str | None, float, bool]]:
        """Ends the run of the key and of the operation.

        Returns what had been told, of which operation, since when, and whether a rest has ended.
        """
        with self._lock:
            state = self.states.get(key)
            if state is None:
                return []
            ended: list[tuple[Told, str | None, float, bool]] = []
            state.rest, change = resting.succeeded(state.rest)
            since = state.since
            told = state.recovered()
            if told or change is Change.ENABLED:
                ended.append((told, None, since, change is Change.ENABLED))
            part = None if operation is None or state.parts is None else state.parts.pop(operation, None)
            if part is not None and part.told:
                ended.append((part.told, operation, part.since, False))
            if not state.parts:
                state.parts = None
            if state.healthy:
                del self.states[key]
            return ended

    # -- what people do ------------------------------------------------------------------------------------------

    def clear(self, key: Hashable) -> None:
        with self._lock:
            self.states.pop(key, None)
            self.clears += 1
            self._cleared[key] = self.clears
            self._cleared.move_to_end(key)
            if len(self._cleared) > _MOST_CLEARED:
                self._cleared.popitem(last=False)

    def disable(self, key: Hashable, until: float | None, by: str, reason: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            state = self.states.get(key) or self._new(key, now)
            state.rest = resting.disabled(state.rest, until=until, by=by, reason=reason, now=now)

    def enable(self, key: Hashable) -> bool:
        """Ends a rest, whoever ordered it; False when there was none."""
        with self._lock:
            state = self.states.get(key)
            if state is None or not state.rest.disabled:
                return False
            state.rest = FRESH
            if state.healthy:
                del self.states[key]
            return True

    def pause(self, until: float, message: str) -> None:
        self.paused = (self._clock.monotonic(), until, message)

    def resume(self) -> bool:
        was, self.paused = self.paused, None
        return was is not None

    def unhealthy(self) -> list[tuple[Hashable, str | None, KeyState]]:
        """Every key, and every operation, that has state."""
        with self._lock:
            found: list[tuple[Hashable, str | None, KeyState]] = []
            for key, state in self.states.items():
                if state.failures or state.rest is not FRESH:
                    found.append((key, None, state))
                found += [(key, operation, part) for operation, part in (state.parts or {}).items()]
            return found

    # -- inside, under the lock ----------------------------------------------------------------------------------

    def find(self, key: Hashable, operation: str | None, fault: Fault) -> KeyState | None:
        """The state that a fault of this reach was recorded in."""
        state = self.states.get(key)
        if state is None or fault.reach is not Reach.OPERATION or operation is None:
            return state
        return None if state.parts is None else state.parts.get(operation)

    def _new(self, key: Hashable, now: float) -> KeyState:
        state = self.states[key] = KeyState(now)
        return state

    def _governs(self, fault: Fault) -> bool:
        """Whether a cooldown decides about this code, instead of the fatal state."""
        return self._policy.cooldown is not None and fault.code in self._policy.cooldown.rests

    def _rest(self, key: Hashable, fault: Fault, now: float) -> list[Changed]:
        if self._policy.cooldown is None:
            return []
        state = self.states.get(key) or self._new(key, now)
        state.rest, change = resting.failed(state.rest, self._policy.cooldown, fault, now)
        return [(EventKind.TARGET_DISABLED, state, _disabled_fields(state))] if change is Change.DISABLED else []

    def _wait(self, fault: Fault, failures: int, roll: float) -> float:
        policy = self._policy
        if self._governs(fault):
            return policy.backoff.delay(failures, roll)
        return wait_after(fault, failures, policy.backoff, roll, most_asked=policy.most_asked, reprobe=policy.reprobe)

    def _sweep(self, now: float) -> None:
        """Forgets runs that ended long ago without a success; a little work every now and then."""
        self._recorded += 1
        if self._recorded % _SWEEP_EVERY:
            return
        for key in [key for key, state in self.states.items() if _idle(state, now)]:
            del self.states[key]


def _idle(state: KeyState, now: float) -> bool:
    if state.parts or state.rest.disabled or (math.isinf(state.until) and state.until > 0):
        return False
    return now - max(state.until, state.since) > _IDLE


def _part(state: KeyState, operation: str, now: float) -> KeyState:
    if state.parts is None:
        state.parts = {}
    return state.parts.setdefault(operation, KeyState(now))


def _part_holds(state: KeyState, operation: str | None, now: float) -> list[Hold | None]:
    part = None if operation is None or state.parts is None else state.parts.get(operation)
    return [] if part is None else [part.hold(now, operation)]


def _disabled_fields(state: KeyState) -> dict[str, Any]:
    rest = state.rest
    return {"reason": rest.reason, "by": rest.by, "consecutive_errors": rest.run_length}
