"""Puts the gates before a call and the verdict after it. One caller per target; the shells in `calling` drive it."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.backoff import Backoff
from tidegate.core.classify import classify, evidence_of
from tidegate.core.codes import CORE
from tidegate.core.events import Event, EventKind, Notice
from tidegate.core.fault import Fault, Reach, Reason
from tidegate.core.policy import Confirm, Cooldown
from tidegate.core.rule import Pack
from tidegate.errors import Held
from tidegate.machine import cooldown as resting
from tidegate.machine.breaker import Breaker, Ticket
from tidegate.machine.doubt import Doubt
from tidegate.machine.gate import Hold
from tidegate.machine.keystate import KeyState, Told
from tidegate.runtime import notices
from tidegate.runtime.bus import Bus
from tidegate.runtime.clock import Clock
from tidegate.runtime.keys import Keys
from tidegate.runtime.limits import Limits
from tidegate.runtime.own_links import SharedLink

_CANCELLED = CORE["cancelled"].fault("kind:cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPolicy:
    """The numbers of one target."""

    name: str
    pack: Pack | None
    backoff: Backoff
    cooldown: Cooldown | None
    deadline: float | None
    most_asked: float  # Retry-After is believed up to this
    reprobe: float | None  # quota and config faults are asked again after this
    cap_notice: bool
    user: Callable[[Hashable], Hashable]
    probe: Callable[[], Any] | None
    probe_every: float


class Admission:
    """One call that was let through, until its outcome is recorded."""

    __slots__ = ("clears", "doubted", "failures", "key", "operation", "ticket", "wait")

    def __init__(
        self, key: Hashable, operation: str | None, *, ticket: Ticket | None = None, failures: int = 0, clears: int = 0
    ) -> None:
        self.key = key
        self.operation = operation
        self.ticket = ticket
        self.failures = failures  # of the key at admission: tells a late failure from a new one
        self.clears = clears  # of the target at admission: tells a call that used replaced credentials
        self.doubted = False
        self.wait = 0.0  # seconds before it may go, as the rate says


class Caller:
    """Gate, verdict and record of one target, for any number of threads and tasks."""

    def __init__(
        self,
        policy: CallPolicy,
        *,
        breakers: Mapping[str | None, Breaker],
        groups: Mapping[str, str],
        limits: Limits | None,
        doubt: Doubt,
        clock: Clock,
        bus: Bus,
        link: SharedLink,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self.policy = policy
        self.clock = clock
        self.keys = Keys(policy, clock)
        self.breakers = breakers
        self.limits = limits
        self.bus = bus
        self.worked = False  # it has answered well at least once
        self._groups = groups
        self._doubt = doubt
        self._dice = dice
        self._next_probe: dict[str, float] = {}
        self._lock = threading.Lock()
        self.link = link
        # Nothing but the state of keys can stand before a call. The hot path asks this, and little else.
        self.plain = not breakers and limits is None and policy.deadline is None and not doubt.tracks_success

    # -- before ----------------------------------------------------------------------------------------------------

    def admit(self, key: Hashable, operation: str | None) -> Admission:
        """Lets one call through, or raises Held. The caller of this must `succeed`, `record` or `exclude` it."""
        hold = self.keys.hold(key, operation)
        if hold is not None:
            raise self.held(hold, key)
        call = Admission(key, operation, clears=self.keys.clears)
        breaker = self.breaker(operation)
        if breaker is not None:
            call.ticket = breaker.enter()
        if self.limits is not None:
            taken = self.limits.take(self.clock.monotonic())
            if isinstance(taken, Hold):
                if breaker is not None and call.ticket is not None:
                    breaker.exclude(call.ticket)
                raise self.held(taken, key)
            call.wait = taken
        call.failures = self.keys.enter(key)
        return call

    def held(self, hold: Hold, key: Hashable) -> Held:
        """The exception for a hold, in wall time."""
        return self.shown(hold).error(self.policy.name, key, self.clock.now())

    def shown(self, hold: Hold) -> Hold:
        """The hold as people read it: its times are kept on the clock that never steps, and shown on the wall clock."""
        offset = self.clock.now() - self.clock.monotonic()
        until = None if hold.until is None else hold.until + offset
        return Hold(
            reason=hold.reason, since=hold.since + offset, until=until, ended_by=hold.ended_by,
            operation=hold.operation, code=hold.code, message=hold.message,
        )  # fmt: skip

    def roll(self) -> float:
        """A throw of the dice, in [0, 1)."""
        return self._dice()

    def breaker(self, operation: str | None) -> Breaker | None:
        """The breaker of the operation's group, or of the whole target."""
        if not self.breakers:
            return None
        group = None if operation is None else self._groups.get(operation)
        return self.breakers.get(group) or self.breakers.get(None)

    def probe_due(self, operation: str | None) -> Breaker | None:
        """The open breaker that a health probe may now move to half-open; at most one per `probe_every`."""
        if self.policy.probe is None:
            return None
        breaker = self.breaker(operation)
        if breaker is None or breaker.state != "open":
            return None
        now = self.clock.monotonic()
        with self._lock:
            if now < self._next_probe.get(breaker.name, -math.inf):
                return None
            self._next_probe[breaker.name] = now + self.policy.probe_every
        return breaker

    # -- after -----------------------------------------------------------------------------------------------------

    def succeed(self, call: Admission) -> None:
        """Records a success: at once, for its own operation and its key."""
        self.worked = True
        if call.ticket is not None:
            call.ticket.ok()
        if self.limits is not None:
            self.limits.give_back()
        if self.link.armed and self.link.answered(self._host(None), self.clock.monotonic()):
            self._publish(EventKind.OWN_LINK_BACK, None, None)
        if self._doubt and not call.doubted:
            with self._lock:
                self._doubt.succeeded(call.key, call.operation)
        if self.keys.states:
            self._recover(call)

    def judge(self, call: Admission, what: object) -> tuple[Fault | None, Confirm | None]:
        """The verdict, and the policy whose probe must be asked before it is believed."""
        if isinstance(what, BaseException) and not isinstance(what, Exception):
            return _CANCELLED, None
        fault = classify(what, self.policy.pack, now=self.clock.now())
        if fault is None or not self._doubt:
            return fault, None
        doubted = self._doubt.policy(fault)
        if doubted is None:
            return fault, None
        if doubted.probe is not None:
            return fault, doubted
        with self._lock:
            now = self.clock.monotonic()
            judged = self._doubt.judged(doubted, call.key, call.operation, fault, now, worked=self.worked)
        call.doubted = judged is None  # good only by our own patience: it ends no count
        return judged, None

    def probed(self, doubted: Confirm, fault: Fault, probe_error: BaseException | None) -> Fault | None:
        """The verdict after the probe: it failed too, so the fault is believed; or it did not."""
        if probe_error is None:
            return self._doubt.unconfirmed(doubted, fault)
        again = classify(probe_error, self.policy.pack, now=self.clock.now())
        if again is None or again.retriable:
            return self._doubt.unconfirmed(doubted, fault)
        return self._doubt.confirmed(doubted, fault)

    def settle(self, call: Admission, fault: Fault, what: object) -> bool:
        """Tells breaker and limits of a failed call; True when it was our own network, which nobody is charged for."""
        own = self._is_own(fault, what)
        if self.limits is not None:
            self.limits.give_back()
        breaker = self.breaker(call.operation)
        if breaker is not None and call.ticket is not None:
            counts = None if own else fault.counts_as_failure
            if counts is None:
                breaker.exclude(call.ticket)
            elif counts:
                breaker.fail(call.ticket)
            else:
                call.ticket.ok()
        return own

    def record(self, call: Admission, fault: Fault, *, own: bool) -> None:
        """Records what a settled failure means for its key: backoff, fatal, cooldown; and tells who must know."""
        if fault.reason is Reason.CANCELLED:
            self.keys.give_back(call.key)
            return
        self._publish(
            EventKind.CALL_FAILED, call.key, call.operation, fault=fault, fields={"own_link": own} if own else {}
        )
        if own:
            self.keys.give_back(call.key)
            return
        changes = self.keys.failed(call.key, call.operation, fault, call, self.roll())
        if fault.counts_as_failure is False and self.policy.cooldown is None and call.key in self.keys.states:
            self._recover(call)  # it answered: a fault of one item is a success of its target
        for kind, state, fields in changes:
            self._publish(kind, call.key, call.operation, fault=fault, fields=fields)
            if kind is EventKind.TARGET_FATAL:
                self._notify(notices.fatal(self.policy.name, call, fault, self._wall(state.since)))
        part = self.keys.find(call.key, call.operation, fault)
        if part is not None and self._reached_cap(part, fault):
            part.told |= Told.CAP
            self._notify(notices.cap(self.policy.name, call, fault, self._wall(part.since)))

    def clear(self, key: Hashable) -> None:
        """Forgets everything of a key, as reconnecting does: the next call goes, the next fatal is a new episode."""
        self.keys.clear(key)
        with self._lock:
            self._doubt.forget(key)
        self._publish(EventKind.TARGET_CLEARED, key, None)

    def breaker_moved(self, name: str, old: str, new: str) -> None:
        if new == "closed" and self.limits is not None:
            self.limits.closed(self.clock.monotonic())
        self._publish(EventKind.BREAKER_STATE_CHANGED, None, None, fields={"name": name, "from": old, "to": new})

    def publish(self, kind: EventKind, key: Hashable, fields: Mapping[str, Any]) -> None:
        """An event that a person caused."""
        self._publish(kind, key, None, fields=fields)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _recover(self, call: Admission) -> None:
        for told, operation, since, enabled in self.keys.succeeded(call.key, call.operation):
            if enabled:
                self._publish(EventKind.TARGET_ENABLED, call.key, None, fields={"by": resting.AUTO})
            if told:
                self._publish(EventKind.TARGET_RECOVERED, call.key, operation)
                self._notify(notices.recovered(self.policy.name, call.key, operation, self._wall(since)))

    def _reached_cap(self, state: KeyState, fault: Fault) -> bool:
        at_cap = fault.retriable and self.policy.backoff.at_cap(state.failures - 1)
        return self.policy.cap_notice and at_cap and not state.told & Told.CAP

    def _is_own(self, fault: Fault, what: object) -> bool:
        if fault.reason is Reason.CANCELLED or fault.reach is Reach.SELF:
            return False
        own, news = self.link.failed(self._host(what), fault, self.clock.monotonic())
        if news:
            kind = EventKind.OWN_LINK_LOST if own else EventKind.OWN_LINK_BACK
            self._publish(kind, None, None)
            if own:
                self._notify(notices.own_link(self.policy.name, self.clock.now()))
        return own

    def _host(self, what: object) -> str:
        found = "" if what is None else evidence_of(what).host
        return found or self.policy.name

    def _wall(self, at: float) -> float:
        return at + self.clock.now() - self.clock.monotonic()

    def _notify(self, notice: Notice) -> None:
        self._publish(EventKind.NOTICE, notice.key, notice.operation, notice=notice)

    def _publish(
        self,
        kind: EventKind,
        key: Hashable,
        operation: str | None,
        *,
        fault: Fault | None = None,
        notice: Notice | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        user = None if key is None else self.policy.user(key)
        event = Event(
            kind=kind, at=self.clock.now(), target=self.policy.name, key=key, operation=operation, user=user,
            fault=fault, notice=notice, fields=fields or {},
        )  # fmt: skip
        self.bus.publish(event)
