"""Puts the gates before a call and the verdict after it. One caller per target; the shells in `calling` drive it."""

from __future__ import annotations

import logging
import math
import random
import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tidegate.clock import Clock
from tidegate.errors import Held
from tidegate.events import Bus, EventKind
from tidegate.faults.classification import classify
from tidegate.faults.codes import CORE
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import collect_evidence
from tidegate.faults.fault import OWN_BUG, Fault, Reach, Reason
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
_MAX_BUGS = 64  # of one target that are told apart
_LIBRARIES = ("site-packages", "dist-packages")
CANCELLED = CORE["cancelled"].fault("kind:cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPolicy:
    """The numbers of one target."""

    name: str
    rule_pack: Pack | None
    backoff: Backoff | None  # None: only what the service asks for is waited
    cooldown: Cooldown | None
    deadline: float | None
    max_retry_after: float  # Retry-After is believed up to this
    reprobe_every: float | None  # quota and config faults are asked again after this
    cap_notice: bool
    user: Callable[[Hashable], Hashable]
    probe: Callable[[], Any] | None
    probe_every: float
    title: str = ""  # how people call it, if not by its name
    hold_without_key: bool = True  # a fatal fault of a call without a key holds the calls without one
    expects_keys: bool = False  # a failure without a key holds calls that may be of others
    pass_own_bugs: bool = False  # a bug of the program is neither counted nor held


class OwnBugs:
    """Logs each bug of the program once: by operation, type of the exception and place. The oldest are forgotten."""

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
    """File and line of the innermost frame of the program, or else of the innermost frame; empty if never raised."""
    place, is_own = "", False
    step = what.__traceback__ if isinstance(what, BaseException) else None
    while step is not None:
        module, file = step.tb_frame.f_globals.get("__name__"), step.tb_frame.f_code.co_filename
        top = module.partition(".")[0] if isinstance(module, str) else ""
        own = (
            top != "tidegate"
            and top not in sys.stdlib_module_names
            and not any(library in file for library in _LIBRARIES)
        )
        if own or not is_own:
            place, is_own = f"{file}:{step.tb_lineno}", own
        step = step.tb_next
    return place


class CallPipeline:
    """Gate, verdict and record of one target, for any number of threads and tasks."""

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
        self.breakers_only = limits is None and policy.deadline is None  # beside what its keys say
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
        self.worked = False  # it has answered well at least once
        self._groups = groups
        self._confirmations = doubt
        self.must_hear = doubt.must_hear if doubt.tracks_success else None  # of a success, although all is well
        self._next_probe: dict[str, float] = {}
        self._own_bugs = OwnBugs()
        self._warned_of_key = not policy.expects_keys
        self._lock = threading.Lock()

    # -- before ----------------------------------------------------------------------------------------------------

    def admit(self, key: Hashable, operation: str | None, max_wait: float = math.inf) -> Admission | Held:
        """Lets one call through, or says why not. Whoever is let through must `succeed`, or `settle` and `record`.

        *most_wait* is how long it can afford to wait for the rate.
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
        """The exception for a hold, in wall time."""
        return self.shown(hold).error(self.policy.name, key, self.clock.now())

    def shown(self, hold: Hold) -> Hold:
        """The hold as people read it: its times are kept on the clock that never steps, and shown on the wall clock."""
        offset = self.clock.now() - self.clock.monotonic()
        return replace(hold, since=hold.since + offset, until=None if hold.until is None else hold.until + offset)

    def breaker(self, operation: str | None, key: Hashable) -> Breaker | None:
        """The breaker of the operation's group, of the whole target, or of the key if that has failed."""
        if not self.breakers:
            return None if self.key_breakers is None else self.key_breakers.get(key)
        group = None if operation is None else self._groups.get(operation)
        return self.breakers.get(group) or self.breakers.get(None)

    def probe_due(self, key: Hashable, operation: str | None) -> Breaker | None:
        """The open breaker that a health probe may now move to half-open; at most one per `probe_every`.

        None as well while the call could not go anyway: a paused target is not probed.
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

    # -- after -----------------------------------------------------------------------------------------------------

    def succeed(self, call: Admission) -> None:
        """Records a success: at once, for its own operation and its key."""
        self.worked = True
        if call.ticket is not None:
            call.ticket.ok()
        if self.limits is not None:
            self.limits.release()
        # Who knows its host says so also before anything has failed: it tells one dead host from a dead link.
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
        """The verdict, and the policy whose probe must be asked before it is believed."""
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
        # Good only by our own patience, or not believed yet: neither proves that all is well.
        call.doubted = judged is None or (judged is not fault and judged.code == doubted.until_then)
        return judged, None

    def probed(self, doubted: Confirm, fault: Fault, probe_error: BaseException | None) -> Fault | None:
        """The verdict after the probe: it failed too, so the fault is believed; or it did not."""
        again = None if probe_error is None else classify(probe_error, self.policy.rule_pack, now=self.clock.now())
        # A probe that was not made proves nothing, and one that fails in passing proves nothing that is final.
        if again is None or again.reason is Reason.CANCELLED or (fault.fatal and again.retriable):
            return self._confirmations.unconfirmed(doubted, fault)
        return self._confirmations.confirmed(doubted, fault)

    def passes(self, fault: Fault) -> bool:
        """Whether this is a bug of the program that nobody but the program hears of."""
        return fault.rule == OWN_BUG and self.policy.pass_own_bugs

    def settle(self, call: Admission, fault: Fault, what: object) -> bool:
        """Tells breaker and limits of a failed call; True when it was our own network, which nobody is charged for."""
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
                breaker.fail(call.ticket)
            else:
                call.ticket.ok()
        return own

    def record(self, call: Admission, fault: Fault, *, own: bool) -> None:
        """Records what a settled failure means for its key: backoff, fatal, cooldown; and tells who must know."""
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
        """Forgets everything of a key, as reconnecting does: the next call goes, the next fatal is a new episode."""
        self.forget(key)
        self.publisher.publish(EventKind.TARGET_CLEARED, key)

    def forget(self, key: Hashable) -> None:
        """As `clear`, of which others have told already."""
        self.keys.clear(key)
        breaker = None if self.key_breakers is None else self.key_breakers.get(key)
        if breaker is not None:
            breaker.reset()
        with self._lock:
            self._confirmations.forget(key)
            self.keys.watch(self._confirmations.waiting)

    def hurry(self, key: Hashable) -> None:
        """Lets the next call of a key go at once, unless the service asked for the wait or refused the credentials."""
        self.keys.retry_now(key)
        own = None if self.key_breakers is None else self.key_breakers.get(key)
        for breaker in (*self.breakers.values(), *(() if own is None else (own,))):
            breaker.half_open()

    def breaker_moved(self, name: str, old: str, new: str, key: Hashable = None) -> None:
        if new == "closed" and self.limits is not None and self.key_breakers is None:
            self.limits.closed(self.clock.monotonic())
        self.publisher.publish(EventKind.BREAKER_STATE_CHANGED, key, fields={"name": name, "from": old, "to": new})

    # -- inside ----------------------------------------------------------------------------------------------------

    def _refused(self, breaker: Breaker, refused: Held, key: Hashable) -> Held:
        """What the breaker said, with the times on the clock that people read, whatever clock it has."""
        now, left, began = self.clock.now(), refused.retry_after, breaker.since
        since = now - (breaker._clock() - began)
        until = None if left is None else now + left
        return type(refused)(self.policy.name, key, str(HoldReason.BREAKER), since, until, left)

    def _key_breaker(self, breakers: KeyBreakers, call: Admission) -> Breaker:
        """The breaker that counts a failure of *call*, which may have begun before its key had this one.

        Such a call takes a ticket now. It gets none unless the breaker is closed: it says nothing about a recovery.
        """
        breaker, began_in = breakers.made(call.key), call.breaker
        if breaker is began_in:
            return breaker
        if began_in is not None and call.ticket is not None:
            began_in.exclude(call.ticket)
        call.breaker, call.ticket = breaker, None
        if breaker.state == CLOSED:
            with suppress(Held):  # it has opened since
                call.ticket = breaker.enter()
        return breaker

    def _is_own(self, call: Admission, fault: Fault, what: object) -> bool:
        if fault.reason is Reason.CANCELLED or fault.reach is Reach.SELF or fault.rule == OWN_BUG:
            return False
        if not call.host:
            call.host = collect_evidence(what).host
        own, changed = self.network_guard.record_failure(self._place(call), fault, self.clock.monotonic())
        if changed:
            self.publisher.own_link(lost=self.network_guard.lost)
        return own

    def _place(self, call: Admission) -> Endpoint:
        return Endpoint(self.policy.name, call.key, call.host)
