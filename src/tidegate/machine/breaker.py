"""The breaker: closed, open, half-open. The one state machine here that holds a clock, because it is the hot path.

Closed costs one clock read, one comparison and two counter steps, with no lock and nothing allocated: the current
`Epoch` says until when it is valid, and everything that is not plain sailing (interval over, open, half-open, forced)
has an epoch whose time is already over. All transitions happen under the lock, from the time that somebody asks, never
by a timer; callbacks and log lines happen after it.
"""

from __future__ import annotations

import functools
import inspect
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import ParamSpec, TypeVar, cast

from tidegate.core.duration import Duration, seconds
from tidegate.errors import BreakerOpen, TooManyRequests
from tidegate.machine.epoch import NO_COUNTS, SHUT, Counts, Epoch
from tidegate.machine.ledger import ledger_of
from tidegate.machine.permit import Permit, Probe
from tidegate.machine.trip import BreakerPolicy, StateChange, Verdict

P = ParamSpec("P")
R = TypeVar("R")

CLOSED, HALF_OPEN, OPEN = "closed", "half-open", "open"
_log = logging.getLogger("tidegate.breaker")

Ticket = Epoch | Probe


class Breaker:
    """Stops calling what keeps failing, and tries it again gently.

        breaker = Breaker("tautulli-api")
        history = breaker.call(client.get_history, since)      # or: await breaker.acall(...), @breaker, with breaker.permit()

    Trips when, within *interval*, at least *min_requests* were made and *failure_ratio* of them failed, or after
    *consecutive* failures in a row, or when `trip(counts)` says so; asked when a call fails. *window* replaces the
    tumbling interval by a sliding one. `counts_as_failure(error)` says True (a failure), False (a success: the service
    answered) or None (neither); without it every Exception counts, and a cancelled call never does. With
    `timeout=None` only `half_open()`, as a health probe calls it, ends the open state.
    """

    __slots__ = (
        "__weakref__", "_buckets", "_changes", "_clock", "_epoch", "_failed", "_flushing", "_folded", "_forced",
        "_enough", "_generation", "_half", "_judge", "_last_run", "_ledger", "_lock", "_probes", "_reject", "_rejected", "_retired", "_shown",
        "_since", "_state", "_until", "_wary", "name", "policy",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        max_requests: int = 3,
        interval: Duration = 60,
        timeout: Duration | None = 120,
        min_requests: int = 10,
        failure_ratio: float = 0.6,
        consecutive: int | None = None,
        window: Duration | None = None,
        trip: Callable[[Counts], bool] | None = None,
        on_state_change: StateChange | None = None,
        counts_as_failure: Verdict | None = None,
        permit_timeout: Duration = 60,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.policy = BreakerPolicy(
            name=name, max_requests=max_requests, interval=interval, timeout=timeout, min_requests=min_requests,
            failure_ratio=failure_ratio, consecutive=consecutive, window=window, trip=trip,
            on_state_change=on_state_change, counts_as_failure=counts_as_failure, permit_timeout=permit_timeout,
        )  # fmt: skip
        self._clock = clock or time.monotonic
        self._judge = None if counts_as_failure is None else self.policy.judge
        # Below both numbers no rule can trip, so a failure there is counted and nothing else.
        self._wary = math.inf if consecutive is None else consecutive
        self._enough = 1 if trip is not None or window is not None else self.policy.enough
        self._lock = threading.Lock()
        self._state = CLOSED
        self._generation = 0
        self._forced = False
        self._since = self._clock()
        self._until = -math.inf  # open: when it ends
        self._shown = (0.0, 0.0)  # since and until as people read them, worked out at the transition
        self._half = Epoch(math.inf)
        self._probes: list[Probe] = []
        self._buckets: deque[Epoch] = deque()
        self._retired: list[tuple[Epoch, int, int]] = []
        self._folded = self._failed = 0  # successes and failures of epochs that are over
        self._rejected = Epoch(math.inf)
        self._reject = self._rejected.admit
        self._last_run = 0
        self._changes: deque[tuple[str, str]] = deque()
        self._flushing = threading.Lock()
        self._epoch = Epoch(self._since + self.policy.slice)
        self._ledger = ledger_of(name)
        self._ledger.breakers.add(self)

    # -- calls ---------------------------------------------------------------------------------------------------

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Decorates a function, `def` or `async def`."""
        if inspect.iscoroutinefunction(fn):
            return cast("Callable[P, R]", self._guard_async(fn))
        clock = self._clock

        @functools.wraps(fn)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            ticket: Ticket = self._epoch
            now = clock()
            if now < ticket.ends:
                ticket.admit()
            elif now < self._until:
                raise self._refused(now)
            else:
                ticket = self._enter(now)
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                self.left(ticket, error)
                raise
            ticket.ok()
            return result

        return guarded

    def _guard_async(self, fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        clock = self._clock

        @functools.wraps(fn)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            ticket: Ticket = self._epoch
            now = clock()
            if now < ticket.ends:
                ticket.admit()
            elif now < self._until:
                raise self._refused(now)
            else:
                ticket = self._enter(now)
            try:
                result = await fn(*args, **kwargs)
            except BaseException as error:
                self.left(ticket, error)
                raise
            ticket.ok()
            return result

        return guarded

    def call(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`fn(*args, **kwargs)` behind the breaker; raises BreakerOpen or TooManyRequests when it may not go."""
        ticket = self._enter(self._clock())
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            self.left(ticket, error)
            raise
        ticket.ok()
        return result

    async def acall(self, fn: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """`await fn(*args, **kwargs)` behind the breaker."""
        ticket = self._enter(self._clock())
        try:
            result = await fn(*args, **kwargs)
        except BaseException as error:
            self.left(ticket, error)
            raise
        ticket.ok()
        return result

    def permit(self) -> Permit:
        """A context manager, for `with` and `async with`, around any piece of code."""
        return Permit(self)

    def allow(self) -> Permit | None:
        """A permit to be settled with `.done(ok)`, or None: the cheapest way to be told no."""
        now = self._clock()
        if now < self._until:
            self._reject()
            return None
        ticket: Ticket | None = self._epoch
        if now < self._epoch.ends:
            self._epoch.admit()
        else:
            ticket = self._try(now)
        return None if ticket is None else Permit(self, ticket)

    # -- the three steps that every form above is made of --------------------------------------------------------

    def enter(self) -> Ticket:
        """Admits one call, or raises; give the ticket to `ok()`, `fail` or `exclude` exactly once."""
        return self._enter(self._clock())

    def _enter(self, now: float) -> Ticket:
        if now < self._until:
            raise self._refused(now)
        epoch = self._epoch
        if now < epoch.ends:
            epoch.admit()
            return epoch
        ticket = self._try(now)
        if ticket is None:
            raise self._too_many(now)
        return ticket

    def left(self, ticket: Ticket, error: BaseException) -> None:
        """Settles a call that raised *error*: a failure, a success or neither, as the policy says."""
        verdict = isinstance(error, Exception) or None if self._judge is None else self._judge(error)
        if not verdict:
            self.exclude(ticket) if verdict is None else ticket.ok()
        elif type(ticket) is Epoch:
            # A failing call is the second hot path: the lock without `with`, and `ticket.fail()` written out.
            lock = self._lock
            lock.acquire()
            try:
                left = ticket.left()
                if left != ticket.mark:
                    ticket.mark = left
                    ticket.run = ticket.run_before = 0
                ticket.run += 1
                ticket.failures += 1
            finally:
                lock.release()
            if ticket.run >= self._wary or ticket.failures >= self._enough:
                self._weigh(ticket)
        else:
            self.fail(ticket)

    def fail(self, ticket: Ticket) -> None:
        """Settles a failed call, and trips when the policy says so."""
        if isinstance(ticket, Probe):
            with self._lock:
                self._probe_failed(ticket, self._clock())
            self._flush()
        else:
            with self._lock:
                ticket.fail()
            self._weigh(ticket)

    def exclude(self, ticket: Ticket) -> None:
        """Settles a call that proves nothing: its request and its half-open place are given back."""
        with self._lock:
            if isinstance(ticket, Probe):
                self._free(ticket)
            else:
                ticket.excluded += 1

    # -- what people ask and do ----------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """'closed', 'half-open' or 'open', true at this moment also when nobody called for an hour."""
        now = self._clock()
        if now < self._epoch.ends:
            return CLOSED
        with self._lock:
            self._advance(now)
            state = self._state
        self._flush()
        return state

    @property
    def counts(self) -> Counts:
        """What has been seen since the counts were cleared (interval over, or a change of state)."""
        now = self._clock()
        with self._lock:
            self._advance(now)
            counts = self._counts()
        self._flush()
        return counts

    @property
    def since(self) -> float:
        """When the present state began, on the breaker's clock."""
        return self._since

    @property
    def until(self) -> float | None:
        """When the open state ends, on the breaker's clock; None while it is not open."""
        return self._until if self._until > self._clock() else None

    @property
    def generation(self) -> int:
        """Grows at every change of state and every clearing of the counts."""
        return self._generation

    @property
    def totals(self) -> dict[str, int]:
        """Calls by result since construction: success, failure, rejected. They only grow."""
        with self._lock:
            self._fold()
            live = [epoch for epoch in (*self._buckets, self._epoch, self._half) if epoch is not SHUT]
            return {
                "success": self._folded + sum(epoch.successes for epoch in live),
                "failure": self._failed + sum(epoch.failures for epoch in live),
                "rejected": self._rejected.requests,
            }

    @property
    def run(self) -> int:
        """Failures in a row; while open, those that opened it."""
        with self._lock:
            return self._epoch.in_a_row if self._state == CLOSED else self._last_run

    def force(self, state: str, until: float | str | timedelta) -> None:
        """Holds it open or closed until *until*, whatever happens; then it probes, or counts anew.

        A number is a time on the breaker's clock, "10m" or a timedelta is counted from now.
        """
        if state not in (OPEN, CLOSED):
            raise ValueError(f"state: {state!r} is not allowed; give 'open' or 'closed'")
        now = self._clock()
        end = now + seconds(until, field="until") if isinstance(until, (str, timedelta)) else float(until)
        if not math.isfinite(end) or end <= now:
            raise ValueError(f"until: {until!r} is not ahead of now ({now!r})")
        with self._lock:
            if state == OPEN:
                self._open(now, end, forced=True)
            else:
                self._close(now, end, forced=True)
        self._flush()

    def reset(self) -> None:
        """Closed, with no counts and no memory of failures."""
        with self._lock:
            self._last_run = 0
            self._close(self._clock(), None)
        self._flush()

    def half_open(self) -> bool:
        """Ends the open state early, as a health probe that succeeded does; it never closes. False if it was not open."""
        now = self._clock()
        with self._lock:
            self._advance(now)
            moved = self._state == OPEN and not self._forced
            if moved:
                self._half_open(now)
        self._flush()
        return moved

    def __repr__(self) -> str:
        return f"<Breaker {self.name!r} {self.state}>"

    def __del__(self) -> None:
        # Two breakers may share a name in the metrics; the totals of one that goes must not vanish from the sum.
        ledger = getattr(self, "_ledger", None)
        if ledger is not None:
            ledger.absorb(self.totals)

    # -- under the lock ------------------------------------------------------------------------------------------

    def _try(self, now: float) -> Ticket | None:
        with self._lock:
            self._advance(now)
            ticket = self._admit(now)
        if ticket is None:
            self._reject()
        if self._changes:
            self._flush()
        return ticket

    def _admit(self, now: float) -> Ticket | None:
        if self._state == CLOSED:
            self._epoch.admit()
            return self._epoch
        if self._state == OPEN or self._half.requests >= self.policy.max_requests:
            return None
        self._half.admit()
        probe = Probe(self, now + seconds(self.policy.permit_timeout))
        self._probes.append(probe)
        return probe

    def _advance(self, now: float) -> None:
        """Carries out what time alone has decided, at the moments it was decided."""
        while True:
            if self._state == CLOSED:
                if now >= self._epoch.ends:
                    self._roll(now)
                return
            if self._state == OPEN:
                if now < self._until:
                    return
                self._half_open(self._until)
            # A permit whose holder hangs must not wedge the half-open state for ever.
            late = min((probe.deadline for probe in self._probes), default=math.inf)
            if late > now:
                return
            self._failed += 1
            self._open(late, late + self.policy.open_for)

    def _roll(self, now: float) -> None:
        """The next interval, or the next bucket of the window."""
        self._forced = False
        over = self._epoch
        if self.policy.window is None:
            self._retire(over)
            self._generation += 1
        else:
            self._buckets.append(over)
            while self._buckets and self._buckets[0].ends <= now - seconds(self.policy.window) + self.policy.slice:
                self._retire(self._buckets.popleft())
        self._epoch = Epoch(now + self.policy.slice, over.in_a_row)

    def _counts_now(self, epoch: Epoch, now: float) -> bool:
        """Whether a failure in *epoch* still says something about the present."""
        if self._state != CLOSED or self._forced:
            return False
        if self.policy.window is not None:
            return epoch is self._epoch or epoch in self._buckets
        return epoch is self._epoch and now < epoch.ends

    def _counts(self) -> Counts:
        if self._state == OPEN:
            return NO_COUNTS
        if self._state == HALF_OPEN:
            return self._half.counts
        if not self._buckets:
            return self._epoch.counts
        every = (*self._buckets, self._epoch)
        newest = self._epoch.counts
        return Counts(
            sum(epoch.requests for epoch in every),
            sum(epoch.successes for epoch in every),
            sum(epoch.failures for epoch in every),
            newest.consecutive_successes,
            self._epoch.in_a_row,
        )

    def _probe_ok(self, probe: Probe) -> None:
        with self._lock:
            if not self._free(probe, keep=True):
                self._folded += 1  # late: it still was a success for whoever counts calls
                return
            self._half.ok()
            if self._half.successes >= self.policy.max_requests:
                self._close(self._clock(), None)
        if self._changes:
            self._flush()

    def _probe_failed(self, probe: Probe, now: float) -> None:
        current = self._free(probe, keep=True)
        if not probe.expired:
            self._failed += 1
        if current:
            self._open(now, now + self.policy.open_for)

    def _free(self, probe: Probe, *, keep: bool = False) -> bool:
        """Takes a permit back; True when it belongs to the present half-open state."""
        if probe not in self._probes:
            return False
        self._probes.remove(probe)
        if not keep:
            self._half.excluded += 1
        return True

    def _open(self, now: float, until: float, *, forced: bool = False) -> None:
        if self._state == CLOSED:
            self._last_run = self._epoch.in_a_row
        self._until = until
        offset = time.time() - now if self._clock is time.monotonic else 0.0
        self._shown = (now + offset, until + offset)
        self._move(OPEN, now, SHUT, forced=forced)

    def _half_open(self, now: float) -> None:
        self._until = -math.inf
        self._half = Epoch(math.inf)
        self._move(HALF_OPEN, now, SHUT)

    def _close(self, now: float, until: float | None, *, forced: bool = False) -> None:
        self._until = -math.inf
        self._move(CLOSED, now, Epoch(now + self.policy.slice if until is None else until), forced=forced)

    def _move(self, state: str, now: float, epoch: Epoch, *, forced: bool = False) -> None:
        if self._state == HALF_OPEN:
            self._folded += self._half.successes
            self._half = Epoch(math.inf)
            for probe in self._probes:
                probe.expired = probe.deadline <= now
            self._probes.clear()
        for over in (*self._buckets, self._epoch):
            self._retire(over)
        self._buckets.clear()
        self._epoch = epoch
        self._forced = forced
        self._generation += 1
        if state != self._state:
            self._since = now
            self._changes.append((self._state, state))
            self._ledger.moved(self._state, state)
            self._state = state

    # -- totals --------------------------------------------------------------------------------------------------

    def _retire(self, epoch: Epoch) -> None:
        if epoch is not SHUT:
            self._retired.append((epoch, 0, 0))
        self._fold()

    def _fold(self) -> None:
        """Adds what retired epochs have seen; one with calls still out is kept, so their results are not lost."""
        kept = []
        for epoch, good, bad in self._retired:
            now_good, now_bad = epoch.successes, epoch.failures
            self._folded += now_good - good
            self._failed += now_bad - bad
            if epoch.outstanding > 0:
                kept.append((epoch, now_good, now_bad))
        self._retired = kept[-64:]  # an abandoned permit must not keep epochs for ever

    # -- around the lock ------------------------------------------------------------------------------------------

    def _weigh(self, epoch: Epoch) -> None:
        """Asks the rules whether the failure just counted in *epoch* trips the breaker."""
        now = self._clock()
        with self._lock:
            counts = self._counts() if self._counts_now(epoch, now) else None
            if counts is not None and self.policy.trip is None and self.policy.due(counts, self._epoch.in_a_row):
                self._open(now, now + self.policy.open_for)
        # The user's own rule is asked outside the lock; what it says holds only if nothing moved meanwhile.
        if counts is not None and self.policy.trip is not None and self.policy.asked(counts):
            with self._lock:
                if self._counts_now(epoch, now):
                    self._open(now, now + self.policy.open_for)
        if self._changes:
            self._flush()

    def _refused(self, now: float) -> BreakerOpen:
        self._reject()
        since, until = self._shown
        return BreakerOpen(self.name, None, "breaker", since, until, self._until - now)

    def _too_many(self, now: float) -> BreakerOpen | TooManyRequests:
        with self._lock:
            if self._state == OPEN:
                return BreakerOpen(self.name, None, "breaker", *self._shown, self._until - now)
            # A place is free again when the first permit is settled, at the latest when it expires.
            free = min((probe.deadline for probe in self._probes), default=now)
            offset = time.time() - now if self._clock is time.monotonic else 0.0
            return TooManyRequests(self.name, None, "breaker", self._since + offset, free + offset, free - now)

    def _flush(self) -> None:
        """Tells of the transitions, in their order, one thread at a time, never waiting for another."""
        while self._changes and self._flushing.acquire(blocking=False):
            try:
                while self._changes:
                    old, new = self._changes.popleft()
                    _log.info("breaker_state_changed name=%s from=%s to=%s", self.name, old, new)
                    self.policy.tell(self.name, old, new)
            finally:
                self._flushing.release()


