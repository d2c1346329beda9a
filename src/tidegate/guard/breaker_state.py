"""The three states of a breaker and what moves it between them: no lock, no clock, `now` is handed in.

Time alone never acts: what it has decided is carried out when somebody asks (`advance`), as of the moment at which it
was decided, so an idle breaker tells the truth too, and asking changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tidegate.durations import seconds
from tidegate.guard.breaker_counts import NO_COUNTS, NO_WINDOW, Counts, CountWindow, ResultTotals
from tidegate.guard.breaker_policy import BreakerPolicy

CLOSED, HALF_OPEN, OPEN = "closed", "half-open", "open"

# An abandoned permit must not keep epochs that are over for ever.
_MAX_DRAINING = 64


class HalfOpenPermit:
    """The place of one call in the half-open state. It settles like a `CountWindow`, so a call treats both alike."""

    __slots__ = ("_succeeded", "began_at", "deadline", "expired")

    def __init__(self, began_at: float, deadline: float, succeeded: Callable[[HalfOpenPermit], None]) -> None:
        self.began_at = began_at
        self.deadline = deadline
        self.expired = False  # its time ran out, and was counted as the failure it is
        self._succeeded = succeeded

    def ok(self) -> None:
        self._succeeded(self)


AdmitToken = CountWindow | HalfOpenPermit


class BreakerMachine:
    """Whoever owns it holds a lock around every method; the hot path reads `epoch` and `until` without one."""

    __slots__ = (
        "_buckets", "_draining", "_half", "_last_run", "_probes", "_tripped_at", "changes",
        "window", "forced", "generation", "transitions", "policy", "since", "state", "totals", "until",
    )  # fmt: skip

    def __init__(self, policy: BreakerPolicy, now: float) -> None:
        self.policy = policy
        self.state = CLOSED
        self.since = now
        self.until = -math.inf  # while open: when it ends
        self.forced = False
        self.generation = 0
        self.window = CountWindow(now + policy.slice)
        self.changes: list[tuple[str, str]] = []  # transitions that nobody was told of yet
        self.transitions: dict[tuple[str, str], int] = {}
        self.totals = ResultTotals()
        self._buckets: list[CountWindow] = []  # of the sliding window, without the current one
        self._draining: list[CountWindow] = []  # earlier epochs of this closed state with calls still out
        self._half = NO_WINDOW
        self._probes: list[HalfOpenPermit] = []
        self._last_run = 0
        self._tripped_at = now  # while not closed: when it was closed for the last time

    # -- going through -------------------------------------------------------------------------------------------

    def admit(self, now: float, succeeded: Callable[[HalfOpenPermit], None]) -> AdmitToken | None:
        """A ticket for one call; None while open, or while half-open with all permits taken."""
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
        """Counts a failure where its call began; the run of the closed state knows no intervals."""
        current = window is self.window
        if current or window in self._draining:
            self._settle_run()
            if not current:
                self.window.carry_over(self.window.consecutive_failures + 1)
        window.fail()
        if not current and window not in self._buckets:
            self.totals.failures += 1  # the epoch was added up when it ended

    def check_trip(self, window: CountWindow, now: float) -> Counts | None:
        """Trips if the failure just counted in *epoch* is one too many; the counts, if the user's rule must say so."""
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

    def speaks_of_now(self, window: CountWindow, now: float) -> bool:
        """Whether a result in *epoch* belongs to the present counts; every change of state begins new ones."""
        return (window is self.window and now < window.ends) or window in self._buckets

    def probe_ok(self, probe: HalfOpenPermit, now: float) -> None:
        if not self._take_back(probe, now):
            self.totals.successes += not probe.expired  # late: it still was a success for whoever counts calls
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
        """Whether the permit belongs to the present half-open state; it is free again."""
        self.advance(now)
        if probe not in self._probes:
            return False
        self._probes.remove(probe)
        return True

    # -- moving --------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Carries out what time alone has decided."""
        while True:
            if self.state == CLOSED:
                if now >= self.window.ends:
                    self._roll(now)
                return
            if self.state == OPEN:
                if now < self.until:
                    return
                self.half_open(self.until)
            # A permit whose holder hangs must not wedge the half-open state for ever.
            late = self.first_deadline
            if late > now:
                return
            expired = [probe for probe in self._probes if probe.deadline <= late]
            for probe in expired:
                probe.expired = True
                self.totals.failures += 1
            self._open_again(expired[-1], late)

    def _open_again(self, probe: HalfOpenPermit, now: float) -> None:
        """Open after a trial that failed.

        An open time that grows counts from the start of the trial: a service that recovers while the trial hangs is
        tried again as soon as one that recovers while the breaker is open.
        """
        if self.policy.max_timeout is None:
            self.open(now)
            return
        until = probe.began_at + self.policy.open_after(probe.began_at - self._tripped_at)
        self.open(now, max(until, now), forced=False)

    def open(self, now: float, until: float | None = None, *, forced: bool = True) -> None:
        """Open for the usual time, or until a given one, which a person has *forced*."""
        if self.state == CLOSED:
            self._last_run = self.run
            self._tripped_at = now
        end = now + self.policy.open_after(now - self._tripped_at) if until is None else until
        self._move(OPEN, now, NO_WINDOW, forced=forced and until is not None)
        self.until = end  # the last: who sees it without the lock goes on to read the others

    def half_open(self, now: float) -> None:
        self.until = -math.inf
        self._half = CountWindow(math.inf)
        self._move(HALF_OPEN, now, NO_WINDOW)

    def close(self, now: float, until: float | None = None) -> None:
        """Closed with fresh counts, or forced closed until a given time."""
        self.until = -math.inf
        self._move(
            CLOSED, now, CountWindow(now + self.policy.slice if until is None else until), forced=until is not None
        )

    def _roll(self, now: float) -> None:
        """The next interval, or the next bucket of the window."""
        if self.forced:
            self.close(now)  # what happened while it was forced proves nothing
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

    # -- counting ------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """What has been seen since the counts were last cleared."""
        if self.state == OPEN:
            return NO_COUNTS
        if self.state == HALF_OPEN:
            return self._half.counts
        if not self._buckets:
            return self.window.counts
        every = [epoch.counts for epoch in (*self._buckets, self.window)]
        failures = sum(each.failures for each in every)
        good = 0
        for each in reversed(every):
            good += each.consecutive_successes
            if each.failures:
                break
        return Counts(
            sum(each.requests for each in every),
            sum(each.successes for each in every),
            failures,
            good,
            min(self.run, failures),
        )

    @property
    def run(self) -> int:
        """Failures in a row; while not closed, those that opened it."""
        if self.state != CLOSED:
            return self._last_run
        self._settle_run()
        return self.window.consecutive_failures

    def _settle_run(self) -> None:
        """A success that came late, of a call from an earlier epoch, ends the run as any other does."""
        came = False
        for elder in self._draining:
            left = elder.left()
            came = came or left != elder.seen
            elder.seen = left
        if came:
            self.window.carry_over(0)

    def permit_lasts(self, now: float) -> float:
        """How long a half-open permit that is given out now is valid."""
        return self.policy.permit_lasts(now - self._tripped_at)

    @property
    def first_deadline(self) -> float:
        """When the first of the half-open permits expires."""
        return min((probe.deadline for probe in self._probes), default=math.inf)

    def results(self) -> dict[str, int]:
        """Calls by result, of all time."""
        live = [epoch for epoch in (*self._buckets, self.window) if epoch is not NO_WINDOW]
        return self.totals.results(live)
