"""The gates before a call and the recording after it. One pipeline per target, driven by `guard.attempts`."""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tidegate.clock import Clock
from tidegate.errors import Held
from tidegate.events import Bus, EventKind
from tidegate.faults.attribution import is_installed
from tidegate.faults.classification import classify
from tidegate.faults.codes import CORE
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import collect_evidence
from tidegate.faults.fault import Fault, Reach, Reason
from tidegate.faults.rule import Pack
from tidegate.guard.backoff import Backoff
from tidegate.guard.breaker import Breaker
from tidegate.guard.breaker_state import CLOSED
from tidegate.guard.confirmation import ConfirmationTracker
from tidegate.guard.cooldown import Cooldown
from tidegate.guard.hold import Hold, HoldReason
from tidegate.guard.key_breakers import KeyBreakers
from tidegate.guard.key_health import Admission
from tidegate.guard.keys import KeyRegistry
from tidegate.guard.limits import CallLimits
from tidegate.guard.network_guard import Endpoint, ProcessNetworkGuard
from tidegate.guard.publisher import TargetPublisher

_log = logging.getLogger("tidegate.target")
_MAX_BUGS = 64  # distinct bugs per target that are logged once
CANCELLED = CORE["cancelled"].fault("kind:cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPolicy:
    """The options of one target for direct calls."""

    name: str
    rule_pack: Pack | None
    backoff: Backoff | None  # None: wait only as long as the service asks
    cooldown: Cooldown | None
    deadline: float | None
    max_retry_after: float  # the longest Retry-After that is obeyed
    reprobe_every: float | None  # quota and configuration faults are retried after this
    cap_notice: bool
    user: Callable[[Hashable], Hashable]
    probe: Callable[[], Any] | None
    probe_every: float
    title: str = ""  # the name for users, if it differs
    hold_without_key: bool = True  # a fatal fault of a call without a key holds the calls without one
    expects_keys: bool = False  # a failure without a key may hold calls of other users
    pass_own_bugs: bool = False  # a bug of the program neither counts nor holds


class OwnBugs:
    """Logs each bug of the program once per operation, exception type and line. Evicts the oldest entries."""

    __slots__ = ("_known", "_lock")

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, str, str], None] = {}
        self._lock = threading.Lock()

    def met(self, target: str, operation: str | None, fault: Fault, what: object) -> None:
        place = raised_at(what)
        bug = (operation, f"{type(what).__module__}.{type(what).__qualname__}", place)
        with self._lock:
            if bug in self._known:
                return
            if len(self._known) >= _MAX_BUGS:
                del self._known[next(iter(self._known))]
            self._known[bug] = None
        _log.warning(
            "own_bug target=%s operation=%s error=%s at=%s hint=%s",
            target,
            operation,
            fault.detail,
            place,
            "the program raised it, not the service, so it is not counted; faults={Class: code} says otherwise",
        )


def raised_at(what: object) -> str:
    """Returns file and line of the innermost frame of the program, else of any. Empty if it was never raised."""
    place, is_own = "", False
    step = what.__traceback__ if isinstance(what, BaseException) else None
    while step is not None:
        module, file = step.tb_frame.f_globals.get("__name__"), step.tb_frame.f_code.co_filename
        own = not (isinstance(module, str) and module.partition(".")[0] == "tidegate") and not is_installed(file)
        if own or not is_own:
            place, is_own = f"{file}:{step.tb_lineno}", own
        step = step.tb_next
    return place


class CallPipeline:
    """Admits, classifies and records the calls of one target. Safe for threads and tasks."""

    def __init__(
        self,
        policy: CallPolicy,
        *,
        breakers: Mapping[str | None, Breaker],
        groups: Mapping[str, str],
        key_breakers: KeyBreakers | None = None,
        limits: CallLimits | None,
        doubt: ConfirmationTracker,
        clock: Clock,
        bus: Bus,
        link: ProcessNetworkGuard,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.breakers_only = limits is None and policy.deadline is None  # apart from the state of keys
        plain = self.breakers_only and not breakers and key_breakers is None and not doubt.tracks_success
        self.policy = policy
        self.clock = clock
        self.keys = KeyRegistry(policy, clock, plain=plain)
        self.breakers = breakers
        self.key_breakers = key_breakers
        self.limits = limits
        self.network_guard = link
        self.publisher = TargetPublisher(policy.name, policy.user, clock, bus, policy.title)
        self.roll = rng  # in [0, 1)
        self.worked = False  # at least one call succeeded
        self._groups = groups
        self._confirmations = doubt
        # a success to record even while the target is healthy
        self.must_hear = doubt.must_hear if doubt.tracks_success else None
        self._next_probe: dict[str, float] = {}
        self._own_bugs = OwnBugs()
        self._warned_of_key = not policy.expects_keys
        self._lock = threading.Lock()

    # -- before the call -------------------------------------------------------------------------------------------

    def admit(self, key: Hashable, operation: str | None, max_wait: float = math.inf) -> Admission | Held:
        """Admits one call, or returns the reason. Every admitted call needs `succeed`, or `settle` and `record`.

        *max_wait* is how long the call can wait for the rate, in seconds.
        """
        call = Admission(key, operation, clears=self.keys.clears)
        hold = self.keys.enter(call)
        if hold is not None:
            return self.held(hold, key)
        breaker = self.breaker(operation, key)
        if breaker is not None:
            try:
                call.ticket = breaker.enter()
                call.breaker = breaker
                call.began_at = breaker._clock()
            except Held as refused:
                self.keys.release(call)
                return self._refused(breaker, refused, key)
        if self.limits is not None:
            taken = self.limits.take(self.clock.monotonic(), max_wait)
            if isinstance(taken, Hold):
                self.keys.release(call)
                if breaker is not None and call.ticket is not None:
                    breaker.exclude(call.ticket)
                return self.held(taken, key)
            call.wait = taken
        return call

    def held(self, hold: Hold, key: Hashable) -> Held:
        """Returns the exception for a hold, in wall-clock time."""
        return self.shown(hold).error(self.policy.name, key, self.clock.now())

    def shown(self, hold: Hold) -> Hold:
        """Converts the times of a hold from monotonic to wall-clock time."""
        offset = self.clock.now() - self.clock.monotonic()
        return replace(hold, since=hold.since + offset, until=None if hold.until is None else hold.until + offset)

    def breaker(self, operation: str | None, key: Hashable) -> Breaker | None:
        """Returns the breaker of the operation's group, of the target, or of the key if it has failed."""
        if not self.breakers:
            return None if self.key_breakers is None else self.key_breakers.get(key)
        group = None if operation is None else self._groups.get(operation)
        return self.breakers.get(group) or self.breakers.get(None)

    def probe_due(self, key: Hashable, operation: str | None) -> Breaker | None:
        """Returns the open breaker that a health probe may move to half-open, once per `probe_every`.

        Returns None if another gate holds the call: a paused target is not probed.
        """
        if self.policy.probe is None:
            return None
        breaker = self.breaker(operation, key)
        if breaker is None or breaker.state != "open" or self.keys.holds(key, operation):
            return None
        now = self.clock.monotonic()
        with self._lock:
            if now < self._next_probe.get(breaker.name, -math.inf):
                return None
            self._next_probe[breaker.name] = now + self.policy.probe_every
        return breaker

    # -- after the call --------------------------------------------------------------------------------------------

    def succeed(self, call: Admission) -> None:
        """Records a success of the operation and of the key."""
        self.worked = True
        if call.ticket is not None:
            call.ticket.ok()
        if self.limits is not None:
            self.limits.release()
        # A known host is recorded before anything fails: it tells one dead host from a dead network.
        if (self.network_guard.armed or call.host) and self.network_guard.record_answer(
            self._place(call), self.clock.monotonic()
        ):
            self.publisher.own_link(lost=self.network_guard.lost)
        if self._confirmations and not call.doubted and not self.keys.is_late(call):
            with self._lock:
                self._confirmations.record_success(call.key, call.operation, self.clock.monotonic())
                self.keys.watch(self._confirmations.waiting)
        if self.keys.hear_success:
            self.publisher.publish_recovery(call, self.keys.record_success(call))

    def judge(self, call: Admission, what: object) -> tuple[Fault | None, Confirm | None]:
        """Classifies the outcome. Also returns the policy whose probe must confirm the verdict."""
        if isinstance(what, BaseException) and not isinstance(what, Exception):
            return CANCELLED, None
        fault = classify(what, self.policy.rule_pack, now=self.clock.now())
        if fault is None or not self._confirmations or self.keys.is_late(call):
            return fault, None
        doubted = self._confirmations.policy(fault)
        if doubted is None or doubted.probe is not None:
            return fault, doubted
        with self._lock:
            now = self.clock.monotonic()
            judged = self._confirmations.judged(doubted, call.key, call.operation, fault, now, worked=self.worked)
            self.keys.watch(self._confirmations.waiting)
        # Neither an unconfirmed fault nor a success by our own timeout proves that the target is healthy.
        call.doubted = judged is None or (judged is not fault and judged.code == doubted.until_then)
        return judged, None

    def probed(self, doubted: Confirm, fault: Fault, probe_error: BaseException | None) -> Fault | None:
        """Returns the verdict after the probe: confirmed if the probe failed too."""
        again = None if probe_error is None else classify(probe_error, self.policy.rule_pack, now=self.clock.now())
        # A probe that did not run proves nothing. One that fails with a retriable fault proves nothing fatal.
        if again is None or again.reason is Reason.CANCELLED or (fault.fatal and again.retriable):
            return self._confirmations.unconfirmed(doubted, fault)
        return self._confirmations.confirmed(doubted, fault)

    def passes(self, fault: Fault) -> bool:
        """Whether this is a bug of the program that the target does not record."""
        return fault.own_bug and self.policy.pass_own_bugs

    def holds_throttled(self, fault: Fault) -> bool:
        """Whether the service throttles, and the target has no backoff."""
        return fault.reason is Reason.THROTTLED and self.policy.backoff is None

    def held_for(self, call: Admission) -> float:
        """Seconds that failures hold the key of *call*. 0 if they do not, infinite if time does not end it."""
        ends = [hold.until for hold in self.keys.holds(call.key, call.operation)]
        return max((math.inf if end is None else end - self.clock.monotonic() for end in ends), default=0.0)

    def settle(self, call: Admission, fault: Fault, what: object) -> bool:
        """Records a failed call in breaker and limits.

        Returns True if the local network failed. Such a failure does not count against the target.
        """
        own = self._is_own(call, fault, what)
        if self.limits is not None:
            self.limits.release()
        counts = None if own else fault.counts_as_failure
        if self.passes(fault):
            self._own_bugs.met(self.policy.name, call.operation, fault, what)
        if self.key_breakers is None:
            breaker = self.breaker(call.operation, call.key)
        else:
            breaker = self._key_breaker(self.key_breakers, call) if counts else call.breaker
        if breaker is not None and call.ticket is not None:
            if counts is None:
                breaker.exclude(call.ticket)
            elif counts:
                breaker.fail(call.ticket, call.began_at)
            else:
                call.ticket.ok()
        return own

    def record(self, call: Admission, fault: Fault, *, own: bool) -> None:
        """Records a settled failure for its key (backoff, fatal state, cooldown) and publishes the changes."""
        if fault.reason is Reason.CANCELLED:
            self.keys.release(call)
            return
        if self.passes(fault):
            self.keys.release(call)
            return
        self.publisher.publish(
            EventKind.CALL_FAILED, call.key, call.operation, fault=fault, fields={"own_link": True} if own else {}
        )
        if own:
            self.keys.release(call)
            return
        if call.key is None and not self._warned_of_key:
            self._warned_of_key = True
            _log.warning(
                "call_without_key target=%s operation=%s hint=%s",
                self.policy.name,
                call.operation,
                "its failure holds all calls without a key; give guard(key=...) or target.key(...),"
                " or profile='requests' if the calls have no users or accounts",
            )
        self.publisher.publish_failure(call, fault, self.keys.record_failure(call, fault, self.roll()))
        answered = fault.counts_as_failure is False and fault.reach is Reach.ITEM and not call.doubted
        if answered and self.policy.cooldown is None and self.keys.hear_success:
            self.publisher.publish_recovery(
                call, self.keys.record_success(call)
            )  # a fault of one item is a success of its target

    def clear(self, key: Hashable) -> None:
        """Forgets all state of a key, for example after the user reconnects. The next fatal fault is a new episode."""
        self.forget(key)
        self.publisher.publish(EventKind.TARGET_CLEARED, key)

    def forget(self, key: Hashable) -> None:
        """Does the same as `clear` without the event: the sender of the order has published it."""
        self.keys.clear(key)
        breaker = None if self.key_breakers is None else self.key_breakers.get(key)
        if breaker is not None:
            breaker.reset()
        with self._lock:
            self._confirmations.forget(key)
            self.keys.watch(self._confirmations.waiting)

    def hurry(self, key: Hashable) -> None:
        """Lets the next call of a key go now, unless the service asked for the wait or rejected the credentials."""
        self.keys.retry_now(key)
        own = None if self.key_breakers is None else self.key_breakers.get(key)
        for breaker in (*self.breakers.values(), *(() if own is None else (own,))):
            breaker.half_open()

    def breaker_moved(self, name: str, old: str, new: str, key: Hashable = None) -> None:
        if new == "closed" and self.limits is not None and self.key_breakers is None:
            self.limits.closed(self.clock.monotonic())
        self.publisher.publish(EventKind.BREAKER_STATE_CHANGED, key, fields={"name": name, "from": old, "to": new})

    # -- internals -------------------------------------------------------------------------------------------------

    def _refused(self, breaker: Breaker, refused: Held, key: Hashable) -> Held:
        """Converts the breaker's exception to wall-clock time. The breaker may use any clock."""
        now, left, began = self.clock.now(), refused.retry_after, breaker.since
        since = now - (breaker._clock() - began)
        until = None if left is None else now + left
        return type(refused)(self.policy.name, key, str(HoldReason.BREAKER), since, until, left)

    def _key_breaker(self, breakers: KeyBreakers, call: Admission) -> Breaker:
        """Returns the breaker that counts a failure of *call*. The call may be older than the breaker.

        Such a call is admitted now, but only by a closed breaker: its result says nothing about a recovery.
        """
        breaker, began_in = breakers.made(call.key), call.breaker
        if breaker is began_in:
            return breaker
        if began_in is not None and call.ticket is not None:
            began_in.exclude(call.ticket)
        call.breaker, call.ticket = breaker, None
        if breaker.state == CLOSED:
            with suppress(Held):  # it opened in the meantime
                call.ticket = breaker.enter()
        return breaker

    def _is_own(self, call: Admission, fault: Fault, what: object) -> bool:
        if fault.reason is Reason.CANCELLED or fault.reach is Reach.SELF or fault.own_bug:
            return False
        if not call.host:
            call.host = collect_evidence(what).host
        own, changed = self.network_guard.record_failure(self._place(call), fault, self.clock.monotonic())
        if changed:
            self.publisher.own_link(lost=self.network_guard.lost)
        return own

    def _place(self, call: Admission) -> Endpoint:
        return Endpoint(self.policy.name, call.key, call.host)
