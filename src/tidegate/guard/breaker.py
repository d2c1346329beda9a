"""The breaker: closed, open, half-open. It holds a clock and a lock, because it is the hot path.

A closed call costs one clock read, one comparison and two counter steps, without a lock or an allocation. The current
`CountWindow` has an end. In every other case (interval over, open, half-open, forced) that end has passed, and the call
takes the slow path through `BreakerMachine` under the lock. Callbacks and log lines follow after the lock.

On the hot path, a function in a slot is bound to a local name before the call. CPython 3.11 loads a slot quickly, but
not as part of a method call.
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
from tidegate.validation import did_you_mean


class Permit:
    """Permission for one call. Settle it once: with `done`, or by leaving the `with` block.

    if (permit := breaker.allow()) is not None:
        permit.done(ping())
    """

    __slots__ = ("_breaker", "_ticket")

    def __init__(self, breaker: Breaker, ticket: AdmitToken | None = None) -> None:
        self._breaker = breaker
        self._ticket = ticket

    def done(self, ok: bool | None) -> None:
        """Records success (True), failure (False) or neither (None). Only the first call of `done` counts."""
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
    """Stops calls to a service that keeps failing, and tests its recovery with a few calls.

        breaker = Breaker("tautulli-api")
        history = breaker.call(client.get_history, since)    # also: await acall(...), @breaker, with permit()

    The breaker trips if *interval* has at least *min_requests* calls and *failure_ratio* of them failed. It also trips
    after *consecutive* failures in a row, across intervals. It checks both rules when a call fails. `trip(counts)`
    replaces the ratio rule. *window* replaces the tumbling interval by a sliding one.

    `counts_as_failure(error)` returns True (failure), False (success: the service responded) or None (neither). By
    default every Exception counts. A cancelled call never does.

    With `timeout=None` only `half_open()` ends the open state, for example from a health probe. With *max_timeout* the
    open time grows with the outage: it is *growth* times the time since the breaker tripped, between *timeout* and
    *max_timeout*, counted from the start of the failed trial. A half-open permit expires as a failure after
    *permit_timeout*. The default is the open time, up to a minute. Set it if good calls take longer.

    `Held` has UNIX times, or times of the *clock* argument.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_enough",
        "_flushing",
        "_judge",
        "_totals",
        "_lock",
        "_offset",
        "_rejected",
        "_machine",
        "_wary",
        "name",
        "policy",
    )

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
            name=name,
            max_requests=max_requests,
            interval=interval,
            timeout=timeout,
            min_requests=min_requests,
            failure_ratio=failure_ratio,
            consecutive=consecutive,
            window=window,
            trip=trip,
            on_state_change=on_state_change,
            counts_as_failure=counts_as_failure,
            permit_timeout=permit_timeout,
            max_timeout=max_timeout,
            growth=growth,
        )
        self._clock = clock or time.monotonic
        self._judge = None if counts_as_failure is None else self.policy.judge
        # Below both thresholds no rule can trip, so a failure is only counted.
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
        """Decorates a `def` or `async def` function."""
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
        """Calls `fn(*args, **kwargs)`. Raises BreakerOpen or TooManyRequests if the breaker rejects it."""
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
        """The async form of `call`."""
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
        """Returns a context manager, for `with` and `async with`, around a block of code."""
        return Permit(self)

    def allow(self) -> Permit | None:
        """Returns a permit to settle with `.done(ok)`, or None. This is the cheapest rejection."""
        clock = self._clock
        now = clock()
        if now < self._machine.until:
            next(self._rejected)
            return None
        ticket = self._try(now)
        return None if ticket is None else Permit(self, ticket)

    # -- steps of a call -----------------------------------------------------------------------------------------

    def enter(self) -> AdmitToken:
        """Admits one call, or raises. Settle the ticket exactly once: `ok()`, `fail` or `exclude`."""
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
        """Settles a call that raised *error* as failure, success or neither, as the policy decides."""
        verdict = isinstance(error, Exception) or None if self._judge is None else self._judge(error)
        if not verdict:
            self.exclude(ticket) if verdict is None else ticket.ok()
        elif type(ticket) is CountWindow:
            # A failing call is the second hot path: it uses the lock without `with` and inlines `ticket.fail()`.
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

    def fail(self, ticket: AdmitToken, began_at: float | None = None) -> None:
        """Settles a failed call, and trips if the policy decides so. The open time grows from *began_at*."""
        if isinstance(ticket, CountWindow):
            with self._lock:
                self._machine.fail(ticket)
            self._check_trip(ticket, began_at)
        else:
            self._settle(ticket, self._machine.probe_failed)

    def exclude(self, ticket: AdmitToken) -> None:
        """Settles a call that proves nothing. Its request no longer counts and its half-open slot is free."""
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

    def _check_trip(self, window: CountWindow, began_at: float | None = None) -> None:
        """Trips the breaker if the failure just counted in *window* fulfils a rule."""
        now = self._clock()
        with self._lock:
            was = self._machine.state
            counts = self._machine.check_trip(window, now)
            if began_at is not None and was == CLOSED:
                self._machine.count_open_from(began_at, now)
        # The user's rule runs outside the lock. Its result is valid only if the window is still current.
        if counts is not None and self.policy.custom_ready_to_trip(counts):
            with self._lock:
                if self._machine.speaks_of_now(window, now):
                    self._machine.open(now)
        self._flush()

    # -- state and operator actions ------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """'closed', 'half-open' or 'open' at this moment, even if no call came for an hour."""
        return self._at_now().state

    @property
    def counts(self) -> Counts:
        """The counts since the last reset (end of the interval, or a change of state)."""
        states = self._at_now()
        with self._lock:
            return states.counts

    @property
    def since(self) -> float:
        """When the current state began, on the breaker's clock."""
        return self._at_now().since

    @property
    def until(self) -> float | None:
        """When the open state ends, on the breaker's clock. None if it is not open, or if only a probe ends it."""
        until = self._at_now().until
        return until if math.isfinite(until) else None

    @property
    def generation(self) -> int:
        """Increases with every change of state and every reset of the counts."""
        return self._at_now().generation

    @property
    def totals(self) -> dict[str, int]:
        """Calls by result since construction: success, failure, rejected. The counters never decrease."""
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
        """Consecutive failures. If the breaker is not closed, those that opened it."""
        states = self._at_now()
        with self._lock:
            return states.run

    def force(self, state: str, until: float | str | timedelta | datetime) -> None:
        """Forces it open or closed until *until*. Then it goes half-open, or closed with new counts.

        "10m" or a timedelta counts from now. A number is a time on the breaker's clock. With the system clock, and for
        the breaker of a target, it may be UNIX time. A datetime is absolute.
        """
        if state not in (OPEN, CLOSED):
            hint = did_you_mean(state, ("open", "closed"))
            raise ValueError(f"state: {state!r} is not allowed; give 'open' or 'closed'{hint}")
        now = self._clock()
        end = moment(until, now, self._offset)
        with self._lock:
            self._machine.advance(now)
            (self._machine.open if state == OPEN else self._machine.close)(now, end)
        self._flush()

    def reset(self) -> None:
        """Closes the breaker and clears its counts."""
        now = self._clock()
        with self._lock:
            self._machine.advance(now)
            self._machine.close(now)
        self._flush()

    def half_open(self) -> bool:
        """Ends the open state early, as after a successful health probe. Returns False if it is not open."""
        now = self._clock()
        with self._lock:
            self._machine.advance(now)
            moved = self._machine.state == OPEN and not self._machine.forced
            if moved:
                self._machine.half_open(now)
        self._flush()
        return moved

    def read_on(self, wall: Callable[[], float]) -> None:
        """Uses *wall* for all times that users read and set, whatever clock measures."""
        clock = self._clock
        self._offset = lambda: wall() - clock()

    def hot(self) -> tuple[BreakerMachine, Callable[[], float], AtomicCounter, Callable[[], float]]:
        """Returns what a guard needs to reject: while the clock is before `until`, count the rejection and raise.

        The last item is the offset from the breaker's clock to wall-clock time.
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

    # -- internals -----------------------------------------------------------------------------------------------

    def _refused(self, now: float, until: float) -> BreakerOpen:
        next(self._rejected)
        return BreakerOpen(self.name, None, "breaker", self._machine.since, until, until - now, self._offset)

    def _too_many(self, now: float) -> Held:
        with self._lock:
            states = self._machine
            since, until = states.since, states.until
            if states.state == OPEN:
                return BreakerOpen(self.name, None, "breaker", since, until, until - now, self._offset)
            # A slot is free when the first permit is settled, or when it expires.
            free = min(states.first_deadline, now + states.permit_lasts(now))
            return TooManyRequests(self.name, None, "breaker", since, free, free - now, self._offset)

    def _flush(self) -> None:
        """Reports transitions in order, one thread at a time, without waiting for another thread."""
        changes = self._machine.changes
        while changes and self._flushing.acquire(blocking=False):
            try:
                while changes:
                    self.policy.tell(*changes.pop(0))
            finally:
                self._flushing.release()
