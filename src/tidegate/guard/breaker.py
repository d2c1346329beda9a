"""The breaker: closed, open, half-open. The one machine here that holds a clock and a lock, because it is the hot path.

Closed costs one clock read, one comparison and two counter steps, with no lock and nothing allocated: the current
`CountWindow` says until when it is valid, and whatever is not plain sailing (interval over, open, half-open, forced)
has an
epoch whose time is over. Everything else happens in `BreakerMachine`, under the lock; callbacks and log lines come
after it.

On the hot path a function that lies in a slot gets a name before it is called: CPython 3.11 finds a slot quickly, but
not as a part of a call.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from types import CoroutineType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

from tidegate.durations import Duration, moment, offset_of
from tidegate.errors import BreakerOpen, Held, TooManyRequests
from tidegate.guard.breaker_counts import AtomicCounter, Counts, CountWindow
from tidegate.guard.breaker_policy import BreakerPolicy, StateChange, Verdict
from tidegate.guard.breaker_registry import totals_for
from tidegate.guard.breaker_state import CLOSED, OPEN, AdmitToken, BreakerMachine, HalfOpenPermit
from tidegate.guard.functions import WrongFunctionKind, check_awaitable, refuse, require_async_kind

# What a breaker hands to a call that it admits.


class Permit:
    """The right to make one call. Settled once: by `done`, or by leaving the `with` block.

    if (permit := breaker.allow()) is not None:
        permit.done(ping())
    """

    __slots__ = ("_breaker", "_ticket")

    def __init__(self, breaker: Breaker, ticket: AdmitToken | None = None) -> None:
        self._breaker = breaker
        self._ticket = ticket

    def done(self, ok: bool | None) -> None:
        """The call succeeded (True), failed (False), or proved nothing (None). A second word changes nothing."""
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return
        if ok:
            ticket.ok()
        elif ok is None:
            self._breaker.exclude(ticket)
        else:
            self._breaker.fail(ticket)

    def __enter__(self) -> Self:
        if self._ticket is None:
            self._ticket = self._breaker.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return  # settled inside the block
        if error is None:
            ticket.ok()
        else:
            self._breaker.left(ticket, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


P = ParamSpec("P")
R = TypeVar("R")


class Breaker:
    """Stops calling what keeps failing, and tries it again gently.

        breaker = Breaker("tautulli-api")
        history = breaker.call(client.get_history, since)    # also: await acall(...), @breaker, with permit()

    Trips when, within *interval*, at least *min_requests* were made and *failure_ratio* of them failed, or after
    *consecutive* failures in a row, whatever the interval; asked when a call fails. `trip(counts)` takes the place of
    the ratio. *window* replaces the tumbling interval by a sliding one. `counts_as_failure(error)` says True (a
    failure), False (a success: the service answered) or None (neither); without it every Exception counts, and a
    cancelled call never does. With `timeout=None` only `half_open()`, as a health probe calls it, ends the open state.
    With *max_timeout* the open time grows with the outage: it is *growth* times the time since the breaker tripped, at
    least *timeout* and at most *max_timeout*, and counts from the start of the trial that failed. A half-open permit
    expires, as a failure, after *permit_timeout*; without one after as long as the breaker was open, at most a minute.
    Give one where good calls take longer.
    `Held` shows UNIX time, or the times of the *clock* that was handed in.
    """

    __slots__ = (
        "__weakref__", "_clock", "_enough", "_flushing", "_judge", "_totals", "_lock", "_offset", "_rejected",
        "_machine", "_wary", "name", "policy",
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
        permit_timeout: Duration | None = None,
        max_timeout: Duration | None = None,
        growth: float = 0.1,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if not (clock is None or callable(clock)):
            raise TypeError(f"clock: {clock!r} cannot be called; give a function that returns seconds, or None")
        self.name = name
        self.policy = BreakerPolicy(
            name=name, max_requests=max_requests, interval=interval, timeout=timeout, min_requests=min_requests,
            failure_ratio=failure_ratio, consecutive=consecutive, window=window, trip=trip,
            on_state_change=on_state_change, counts_as_failure=counts_as_failure, permit_timeout=permit_timeout,
            max_timeout=max_timeout, growth=growth,
        )  # fmt: skip
        self._clock = clock or time.monotonic
        self._judge = None if counts_as_failure is None else self.policy.judge
        # Below both numbers no rule can trip, so a failure there is counted and nothing else.
        self._wary = math.inf if consecutive is None else consecutive
        self._enough = 1 if trip is not None or window is not None else self.policy.enough
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._offset = offset_of(self._clock)
        self._machine = BreakerMachine(self.policy, self._clock())
        self._rejected = self._machine.totals.rejected.admitted
        self._totals = totals_for(name)
        self._totals.join(self, self._machine)

    # -- calls ---------------------------------------------------------------------------------------------------

    def __call__(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Decorates a function, `def` or `async def`."""
        if require_async_kind(fn):
            return cast("Callable[P, R]", self._guard_async(cast("Callable[P, Awaitable[Any]]", fn)))
        clock, states = self._clock, self._machine

        @functools.wraps(fn)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            epoch = states.window
            ticket: AdmitToken = epoch
            now = clock()
            if now < epoch.ends:
                next(epoch.admitted)
            elif now < (until := states.until):
                raise self._refused(now, until)
            else:
                ticket = self._enter(now)
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                self.left(ticket, error)
                raise
            ok = ticket.ok
            ok()
            return result

        return guarded

    def _guard_async(self, fn: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        clock, states = self._clock, self._machine

        @functools.wraps(fn)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            ticket: Any = states.window  # few locals: each one makes every coroutine larger
            if clock() < ticket.ends:
                next(ticket.admitted)
            else:
                ticket = self.enter()
            try:
                result = await fn(*args, **kwargs)
            except BaseException as error:
                self.left(ticket, error)
                raise
            ticket.ok()
            return result

        return guarded

    def call(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`fn(*args, **kwargs)` behind the breaker; raises BreakerOpen or TooManyRequests when it may not go."""
        ticket = self._enter(self._clock())
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            self.left(ticket, error)
            raise
        if type(result) is CoroutineType:
            self.exclude(ticket)
            refuse(result)
        ticket.ok()
        return result

    async def acall(self, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`await fn(*args, **kwargs)` behind the breaker."""
        ticket = self._enter(self._clock())
        try:
            made = fn(*args, **kwargs)
            if type(made) is not CoroutineType:
                check_awaitable(made)
            result = await made
        except WrongFunctionKind:
            self.exclude(ticket)
            raise
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
        clock = self._clock
        now = clock()
        if now < self._machine.until:
            next(self._rejected)
            return None
        ticket = self._try(now)
        return None if ticket is None else Permit(self, ticket)

    # -- the steps that every form above is made of --------------------------------------------------------------

    def enter(self) -> AdmitToken:
        """Admits one call, or raises; give the ticket to `ok()`, `fail` or `exclude` exactly once."""
        return self._enter(self._clock())

    def _enter(self, now: float) -> AdmitToken:
        if now < (until := self._machine.until):
            raise self._refused(now, until)
        ticket = self._try(now)
        if ticket is None:
            raise self._too_many(now)
        return ticket

    def _try(self, now: float) -> AdmitToken | None:
        epoch = self._machine.window
        if now < epoch.ends:
            next(epoch.admitted)
            return epoch
        with self._lock:
            ticket = self._machine.admit(now, self._probe_ok)
        if ticket is None:
            next(self._rejected)
        self._flush()
        return ticket

    def left(self, ticket: AdmitToken, error: BaseException) -> None:
        """Settles a call that raised *error*: a failure, a success or neither, as the policy says."""
        verdict = isinstance(error, Exception) or None if self._judge is None else self._judge(error)
        if not verdict:
            self.exclude(ticket) if verdict is None else ticket.ok()
        elif type(ticket) is CountWindow:
            # A failing call is the second hot path: the lock without `with`, and `ticket.fail()` written out.
            lock = self._lock
            lock.acquire()
            try:
                alone = ticket.alone
                if alone:
                    left = ticket.left()
                    if left != ticket.mark:
                        ticket.mark = left
                        ticket.run = 0
                    ticket.run += 1
                    ticket.failures += 1
                else:
                    self._machine.fail(ticket)
            finally:
                lock.release()
            if ticket.run + ticket.carried_failures >= self._wary or ticket.failures >= self._enough or not alone:
                self._check_trip(ticket)
        else:
            self.fail(ticket)

    def fail(self, ticket: AdmitToken) -> None:
        """Settles a failed call, and trips when the policy says so."""
        if isinstance(ticket, CountWindow):
            with self._lock:
                self._machine.fail(ticket)
            self._check_trip(ticket)
        else:
            self._settle(ticket, self._machine.probe_failed)

    def exclude(self, ticket: AdmitToken) -> None:
        """Settles a call that proves nothing: its request and its half-open place are given back."""
        if isinstance(ticket, CountWindow):
            with self._lock:
                ticket.excluded += 1
        else:
            self._settle(ticket, self._machine.probe_excluded)

    def _probe_ok(self, probe: HalfOpenPermit) -> None:
        self._settle(probe, self._machine.probe_ok)

    def _settle(self, probe: HalfOpenPermit, step: Callable[[HalfOpenPermit, float], None]) -> None:
        now = self._clock()
        with self._lock:
            step(probe, now)
        self._flush()

    def _check_trip(self, window: CountWindow) -> None:
        """Asks the rules whether the failure just counted in *epoch* trips the breaker."""
        now = self._clock()
        with self._lock:
            counts = self._machine.check_trip(window, now)
        # The user's own rule is asked outside the lock; what it says holds only if nothing moved meanwhile.
        if counts is not None and self.policy.custom_ready_to_trip(counts):
            with self._lock:
                if self._machine.speaks_of_now(window, now):
                    self._machine.open(now)
        self._flush()

    # -- what people ask and do ----------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """'closed', 'half-open' or 'open', true at this moment also when nobody called for an hour."""
        return self._at_now().state

    @property
    def counts(self) -> Counts:
        """What has been seen since the counts were cleared (interval over, or a change of state)."""
        states = self._at_now()
        with self._lock:
            return states.counts

    @property
    def since(self) -> float:
        """When the present state began, on the breaker's clock."""
        return self._at_now().since

    @property
    def until(self) -> float | None:
        """When the open state ends, on the breaker's clock; None while it is not open, or when only a probe ends it."""
        until = self._at_now().until
        return until if math.isfinite(until) else None

    @property
    def generation(self) -> int:
        """Grows at every change of state and every clearing of the counts."""
        return self._at_now().generation

    @property
    def totals(self) -> dict[str, int]:
        """Calls by result since construction: success, failure, rejected. They only grow."""
        states = self._at_now()
        with self._lock:
            return states.results()

    @property
    def transitions(self) -> dict[tuple[str, str], int]:
        """Changes of state since construction, by (from, to)."""
        states = self._at_now()
        with self._lock:
            return dict(states.transitions)

    @property
    def run(self) -> int:
        """Failures in a row; while it is not closed, those that opened it."""
        states = self._at_now()
        with self._lock:
            return states.run

    def force(self, state: str, until: float | str | timedelta | datetime) -> None:
        """Holds it open or closed until *until*, whatever happens; then it probes, or counts anew.

        "10m" or a timedelta is counted from now. A number is a time on the breaker's clock; beside the machine's own
        clock, and for the breaker that a target made, it may be UNIX time. A datetime is what it says there.
        """
        if state not in (OPEN, CLOSED):
            raise ValueError(f"state: {state!r} is not allowed; give 'open' or 'closed'")
        now = self._clock()
        end = moment(until, now, self._offset)
        with self._lock:
            self._machine.advance(now)
            (self._machine.open if state == OPEN else self._machine.close)(now, end)
        self._flush()

    def reset(self) -> None:
        """Closed, with no counts and no memory of failures."""
        now = self._clock()
        with self._lock:
            self._machine.advance(now)
            self._machine.close(now)
        self._flush()

    def half_open(self) -> bool:
        """Ends the open state early, as a health probe that succeeded does; it never closes. False if not open."""
        now = self._clock()
        with self._lock:
            self._machine.advance(now)
            moved = self._machine.state == OPEN and not self._machine.forced
            if moved:
                self._machine.half_open(now)
        self._flush()
        return moved

    def read_on(self, wall: Callable[[], float]) -> None:
        """From now on people read and give its times on *wall*, whatever clock it measures with."""
        clock = self._clock
        self._offset = lambda: wall() - clock()

    def hot(self) -> tuple[BreakerMachine, Callable[[], float], AtomicCounter, Callable[[], float]]:
        """What a guard needs to reject by itself: while the clock is before `until`, count the rejection and raise.

        The last is what to add to the clock's time for people, when they read it.
        """
        return self._machine, self._clock, self._rejected, self._offset

    def _at_now(self) -> BreakerMachine:
        now = self._clock()
        if now >= self._machine.window.ends:
            with self._lock:
                self._machine.advance(now)
            self._flush()
        return self._machine

    def __repr__(self) -> str:
        return f"<Breaker {self.name!r} {self.state}>"

    # -- inside --------------------------------------------------------------------------------------------------

    def _refused(self, now: float, until: float) -> BreakerOpen:
        next(self._rejected)
        return BreakerOpen(self.name, None, "breaker", self._machine.since, until, until - now, self._offset)

    def _too_many(self, now: float) -> Held:
        with self._lock:
            states = self._machine
            since, until = states.since, states.until
            if states.state == OPEN:
                return BreakerOpen(self.name, None, "breaker", since, until, until - now, self._offset)
            # A place is free again when the first permit is settled, at the latest when it expires.
            free = min(states.first_deadline, now + states.permit_lasts(now))
            return TooManyRequests(self.name, None, "breaker", since, free, free - now, self._offset)

    def _flush(self) -> None:
        """Tells of the transitions, in their order, one thread at a time, never waiting for another."""
        changes = self._machine.changes
        while changes and self._flushing.acquire(blocking=False):
            try:
                while changes:
                    self.policy.tell(*changes.pop(0))
            finally:
                self._flushing.release()
