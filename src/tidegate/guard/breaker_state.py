"""The state machine of a breaker, without lock and clock: callers pass `now`.

Time alone changes nothing. `advance` applies the transitions that are due, each at the time at which it was due. So an
idle breaker reports its true state, and reading it has no effect on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tidegate.durations import seconds
from tidegate.guard.breaker_counts import NO_COUNTS, NO_WINDOW, Counts, CountWindow, ResultTotals
from tidegate.guard.breaker_policy import BreakerPolicy

CLOSED, HALF_OPEN, OPEN = "closed", "half-open", "open"

# An abandoned permit must not keep old windows for ever.
_MAX_DRAINING = 64


class HalfOpenPermit:
    """One call in the half-open state. It settles like a `CountWindow`, so callers treat both alike."""

    __slots__ = ("_succeeded", "began_at", "deadline", "expired")

    def __init__(self, began_at: float, deadline: float, succeeded: Callable[[HalfOpenPermit], None]) -> None:
        self.began_at = began_at
        self.deadline = deadline
        self.expired = False  # its deadline passed, and it was counted as a failure
        self._succeeded = succeeded

    def ok(self) -> None:
        self._succeeded(self)


AdmitToken = CountWindow | HalfOpenPermit


class BreakerMachine:
    """The states and counts of one breaker.

    The owner holds a lock around every method. The hot path reads `window` and `until` without it.
    """

    __slots__ = (
        "_buckets",
        "_draining",
        "_half",
        "_last_run",
        "_probes",
        "_tripped_at",
        "changes",
        "window",
        "forced",
        "generation",
        "transitions",
        "policy",
        "since",
        "state",
        "totals",
        "until",
    )

    def __init__(self, policy: BreakerPolicy, now: float) -> None:
        self.policy = policy
        self.state = CLOSED
        self.since = now
        self.until = -math.inf  # end of the open state
        self.forced = False
        self.generation = 0
        self.window = CountWindow(now + policy.slice)
        self.changes: list[tuple[str, str]] = []  # transitions that are not reported yet
        self.transitions: dict[tuple[str, str], int] = {}
        self.totals = ResultTotals()
        self._buckets: list[CountWindow] = []  # of the sliding window, without the current one
        self._draining: list[CountWindow] = []  # earlier windows of this closed state with calls in flight
        self._half = NO_WINDOW
        self._probes: list[HalfOpenPermit] = []
        self._last_run = 0
        self._tripped_at = now  # while not closed: when it left the closed state

    # -- calls ---------------------------------------------------------------------------------------------------

    def admit(self, now: float, succeeded: Callable[[HalfOpenPermit], None]) -> AdmitToken | None:
        """Returns a ticket for one call. None while open, or while half-open without a free permit."""
        self.advance(now)
        if self.state == CLOSED:
            next(self.window.admitted)
            return self.window
        if self.state == OPEN or self._half.requests >= self.policy.max_requests:
            return None
        next(self._half.admitted)
        probe = HalfOpenPermit(now, now + self.permit_lasts(now), succeeded)
        self._probes.append(probe)
        return probe

    def fail(self, window: CountWindow) -> None:
        """Counts a failure in the window of its call. Consecutive failures count across windows."""
        current = window is self.window
        if current or window in self._draining:
            self._settle_run()
            if not current:
                self.window.carry_over(self.window.consecutive_failures + 1)
        window.fail()
        if not current and window not in self._buckets:
            self.totals.failures += 1  # the totals of the window were added when it ended

    def check_trip(self, window: CountWindow, now: float) -> Counts | None:
        """Trips if the failure just counted in *window* fulfils a rule. Returns the counts for a custom rule."""
        if self.state != CLOSED or self.forced:
            return None
        ours = window is self.window or window in self._draining
        if self.policy.window is not None:
            self.advance(now)
        if ours and self.policy.too_long(self.run):
            self.open(now)
            return None
        if not self.speaks_of_now(window, now):
            return None
        counts = self.counts
        if self.policy.trip is not None:
            return counts
        if self.policy.ready_to_trip(counts):
            self.open(now)
        return None

    def count_open_from(self, began_at: float, now: float) -> None:
        """Lets a growing open time that begins *now* count from *began_at*, the start of the call that tripped it.

        As after a trial, that is the last time at which the service is known to be down.
        """
        if self.state == OPEN and self.since == now and self.policy.max_timeout is not None and not self.forced:
            self.until = max(began_at + self.policy.open_after(0), now)

    def speaks_of_now(self, window: CountWindow, now: float) -> bool:
        """Whether a result in *window* belongs to the current counts. Every change of state resets them."""
        return (window is self.window and now < window.ends) or window in self._buckets

    def probe_ok(self, probe: HalfOpenPermit, now: float) -> None:
        if not self._take_back(probe, now):
            self.totals.successes += not probe.expired  # late, but still a success in the totals
            return
        self.totals.successes += 1
        self._half.ok()
        if self._half.successes >= self.policy.max_requests:
            self.close(now)

    def probe_failed(self, probe: HalfOpenPermit, now: float) -> None:
        current = self._take_back(probe, now)
        self.totals.failures += not probe.expired
        if current:
            self._open_again(probe, now)

    def probe_excluded(self, probe: HalfOpenPermit, now: float) -> None:
        if self._take_back(probe, now):
            self._half.excluded += 1

    def _take_back(self, probe: HalfOpenPermit, now: float) -> bool:
        """Frees the permit. Returns whether it belongs to the current half-open state."""
        self.advance(now)
        if probe not in self._probes:
            return False
        self._probes.remove(probe)
        return True

    # -- transitions ---------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Applies the transitions that are due."""
        while True:
            if self.state == CLOSED:
                if now >= self.window.ends:
                    self._roll(now)
                return
            if self.state == OPEN:
                if now < self.until:
                    return
                self.half_open(self.until)
            # A permit whose holder hangs must not block the half-open state for ever.
            late = self.first_deadline
            if late > now:
                return
            expired = [probe for probe in self._probes if probe.deadline <= late]
            for probe in expired:
                probe.expired = True
                self.totals.failures += 1
            self._open_again(expired[-1], late)

    def _open_again(self, probe: HalfOpenPermit, now: float) -> None:
        """Opens after a failed trial.

        A growing open time counts from the start of the trial. Otherwise a service that recovers during a slow trial
        would wait longer than one that recovers while the breaker is open.
        """
        if self.policy.max_timeout is None:
            self.open(now)
            return
        until = probe.began_at + self.policy.open_after(probe.began_at - self._tripped_at)
        self.open(now, max(until, now), forced=False)

    def open(self, now: float, until: float | None = None, *, forced: bool = True) -> None:
        """Opens for the usual time, or until *until* if an operator *forced* it."""
        if self.state == CLOSED:
            self._last_run = self.run
            self._tripped_at = now
        end = now + self.policy.open_after(now - self._tripped_at) if until is None else until
        self._move(OPEN, now, NO_WINDOW, forced=forced and until is not None)
        self.until = end  # last: the hot path reads it without the lock, and then reads the other fields

    def half_open(self, now: float) -> None:
        self.until = -math.inf
        self._half = CountWindow(math.inf)
        self._move(HALF_OPEN, now, NO_WINDOW)

    def close(self, now: float, until: float | None = None) -> None:
        """Closes with new counts, or forces it closed until *until*."""
        self.until = -math.inf
        self._move(
            CLOSED, now, CountWindow(now + self.policy.slice if until is None else until), forced=until is not None
        )

    def _roll(self, now: float) -> None:
        """Starts the next interval, or the next bucket of the sliding window."""
        if self.forced:
            self.close(now)  # results of a forced state prove nothing
            return
        over, run = self.window, self.run
        self._draining = [epoch for epoch in (*self._draining, over) if epoch.outstanding > 0][-_MAX_DRAINING:]
        for epoch in (over, *self._draining):
            epoch.alone = False
            epoch.seen = epoch.left()
        if self.policy.window is None:
            self.totals.fold_window(over)
            self.generation += 1
        else:
            self._buckets.append(over)
            oldest = now - seconds(self.policy.window) + self.policy.slice
            while self._buckets and self._buckets[0].ends <= oldest:
                self.totals.fold_window(self._buckets.pop(0))
        self.window = CountWindow(now + self.policy.slice, run, alone=not self._draining)

    def _move(self, state: str, now: float, window: CountWindow, *, forced: bool = False) -> None:
        self._probes.clear()
        for over in (*self._buckets, self.window):
            if over is not NO_WINDOW:
                self.totals.fold_window(over)
        self._buckets.clear()
        self._draining.clear()
        self.window = window
        self.forced = forced
        self.generation += 1
        if state != self.state:
            self.since = now
            move = (self.state, state)
            self.transitions[move] = self.transitions.get(move, 0) + 1
            self.changes.append(move)
            self.state = state

    # -- counts --------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """The counts since the last reset."""
        if self.state == OPEN:
            return NO_COUNTS
        if self.state == HALF_OPEN:
            return self._half.counts
        if not self._buckets:
            return self.window.counts
        windows = [epoch.counts for epoch in (*self._buckets, self.window)]
        failures = sum(window.failures for window in windows)
        good = 0
        for window in reversed(windows):
            good += window.consecutive_successes
            if window.failures:
                break
        return Counts(
            sum(window.requests for window in windows),
            sum(window.successes for window in windows),
            failures,
            good,
            min(self.run, failures),
        )

    @property
    def run(self) -> int:
        """Consecutive failures. While not closed, those that opened it."""
        if self.state != CLOSED:
            return self._last_run
        self._settle_run()
        return self.window.consecutive_failures

    def _settle_run(self) -> None:
        """Ends the run if a call of an earlier window succeeded late."""
        came = False
        for elder in self._draining:
            left = elder.left()
            came = came or left != elder.seen
            elder.seen = left
        if came:
            self.window.carry_over(0)

    def permit_lasts(self, now: float) -> float:
        """Seconds that a half-open permit issued now is valid."""
        return self.policy.permit_lasts(now - self._tripped_at)

    @property
    def first_deadline(self) -> float:
        """When the first half-open permit expires."""
        return min((probe.deadline for probe in self._probes), default=math.inf)

    def results(self) -> dict[str, int]:
        """Calls by result since construction."""
        live = [epoch for epoch in (*self._buckets, self.window) if epoch is not NO_WINDOW]
        return self.totals.results(live)
