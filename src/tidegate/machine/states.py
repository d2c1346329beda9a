"""The three states of a breaker and what moves it between them: no lock, no clock, `now` is handed in.

Time alone never acts: what it has decided is carried out when somebody asks (`advance`), as of the moment at which it
was decided, so an idle breaker tells the truth too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from tidegate.core.duration import seconds
from tidegate.machine.epoch import NO_COUNTS, SHUT, Counts, Epoch
from tidegate.machine.trip import BreakerPolicy

CLOSED, HALF_OPEN, OPEN = "closed", "half-open", "open"

# An abandoned permit must not keep epochs that are over for ever.
_MOST_RETIRED = 64


class Probe:
    """The place of one call in the half-open state. It settles like an `Epoch`: a call need not know which it holds."""

    __slots__ = ("_succeeded", "deadline", "expired")

    def __init__(self, deadline: float, succeeded: Callable[[Probe], None]) -> None:
        self.deadline = deadline
        self.expired = False  # its time ran out, and was counted as the failure it is
        self._succeeded = succeeded

    def ok(self) -> None:
        self._succeeded(self)


Ticket = Epoch | Probe


class States:
    """Whoever owns it holds a lock around every method; the hot path reads `epoch` and `until` without one."""

    __slots__ = (
        "_buckets", "_failed", "_folded", "_half", "_last_run", "_offset", "_probes", "_retired",
        "changes", "epoch", "forced", "generation", "policy", "shown", "since", "state", "until",
    )  # fmt: skip

    def __init__(self, policy: BreakerPolicy, now: float, offset: Callable[[float], float]) -> None:
        self.policy = policy
        self.state = CLOSED
        self.since = now
        self.until = -math.inf  # while open: when it ends
        self.shown = (now, now)  # since and until as people read them, worked out when it opens
        self.forced = False
        self.generation = 0
        self.epoch = Epoch(now + policy.slice)
        self.changes: deque[tuple[str, str]] = deque()  # transitions that nobody was told of yet
        self._offset = offset  # from this clock to the one that people read
        self._buckets: deque[Epoch] = deque()  # of the sliding window, without the current one
        self._half = Epoch(math.inf)
        self._probes: list[Probe] = []
        self._last_run = 0
        self._retired: list[tuple[Epoch, int, int]] = []
        self._folded = self._failed = 0  # successes and failures of epochs that are over

    # -- going through -------------------------------------------------------------------------------------------

    def admit(self, now: float, succeeded: Callable[[Probe], None]) -> Ticket | None:
        """A ticket for one call; None while open, or while half-open with all permits taken."""
        self.advance(now)
        if self.state == CLOSED:
            self.epoch.admit()
            return self.epoch
        if self.state == OPEN or self._half.requests >= self.policy.max_requests:
            return None
        self._half.admit()
        probe = Probe(now + seconds(self.policy.permit_timeout), succeeded)
        self._probes.append(probe)
        return probe

    def weigh(self, epoch: Epoch, now: float) -> Counts | None:
        """Trips if the failure just counted in *epoch* is one too many; the counts, if the user's rule must say so."""
        self.advance(now)
        if not self.speaks_of_now(epoch):
            return None
        counts = self.counts
        if self.policy.trip is not None:
            return counts
        if self.policy.due(counts, self.epoch.in_a_row):
            self.open(now)
        return None

    def speaks_of_now(self, epoch: Epoch) -> bool:
        """Whether a result in *epoch* still says something about the present."""
        return self.state == CLOSED and not self.forced and (epoch is self.epoch or epoch in self._buckets)

    def probe_ok(self, probe: Probe, now: float) -> None:
        if not self._take_back(probe):
            self._folded += not probe.expired  # late: it still was a success for whoever counts calls
            return
        self._half.ok()
        if self._half.successes >= self.policy.max_requests:
            self.close(now)

    def probe_failed(self, probe: Probe, now: float) -> None:
        current = self._take_back(probe)
        self._failed += not probe.expired
        if current:
            self.open(now)

    def exclude(self, ticket: Ticket) -> None:
        """The call proves nothing: its request and its half-open place are given back."""
        if isinstance(ticket, Epoch):
            ticket.excluded += 1
        elif self._take_back(ticket):
            self._half.excluded += 1

    def _take_back(self, probe: Probe) -> bool:
        """Whether the permit belongs to the present half-open state; it is free again."""
        if probe not in self._probes:
            return False
        self._probes.remove(probe)
        return True

    # -- moving --------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Carries out what time alone has decided."""
        while True:
            if self.state == CLOSED:
                if now >= self.epoch.ends:
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
            self._failed += 1
            self.open(late)

    def open(self, now: float, until: float | None = None) -> None:
        """Open for the usual time, or forced open until a given one."""
        if self.state == CLOSED:
            self._last_run = self.epoch.in_a_row
        self.until = now + self.policy.open_for if until is None else until
        offset = self._offset(now)
        self.shown = (now + offset, self.until + offset)
        self._move(OPEN, now, SHUT, forced=until is not None)

    def half_open(self, now: float) -> None:
        self.until = -math.inf
        self._move(HALF_OPEN, now, SHUT)

    def close(self, now: float, until: float | None = None) -> None:
        """Closed with fresh counts, or forced closed until a given time."""
        self.until = -math.inf
        self._move(CLOSED, now, Epoch(now + self.policy.slice if until is None else until), forced=until is not None)

    def forget_run(self) -> None:
        self._last_run = 0

    def _roll(self, now: float) -> None:
        """The next interval, or the next bucket of the window."""
        self.forced = False
        over = self.epoch
        if self.policy.window is None:
            self._retire(over)
            self.generation += 1
        else:
            self._buckets.append(over)
            oldest = now - seconds(self.policy.window) + self.policy.slice
            while self._buckets and self._buckets[0].ends <= oldest:
                self._retire(self._buckets.popleft())
        self.epoch = Epoch(now + self.policy.slice, over.in_a_row)

    def _move(self, state: str, now: float, epoch: Epoch, *, forced: bool = False) -> None:
        for probe in self._probes:
            probe.expired = probe.deadline <= now
        self._probes.clear()
        self._folded += self._half.successes
        self._half = Epoch(math.inf)
        for over in (*self._buckets, self.epoch):
            self._retire(over)
        self._buckets.clear()
        self.epoch = epoch
        self.forced = forced
        self.generation += 1
        if state != self.state:
            self.since = now
            self.changes.append((self.state, state))
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
            return self.epoch.counts
        every = (*self._buckets, self.epoch)
        return Counts(
            sum(epoch.requests for epoch in every),
            sum(epoch.successes for epoch in every),
            sum(epoch.failures for epoch in every),
            self.epoch.counts.consecutive_successes,
            self.epoch.in_a_row,
        )

    @property
    def run(self) -> int:
        """Failures in a row; while not closed, those that opened it."""
        return self.epoch.in_a_row if self.state == CLOSED else self._last_run

    @property
    def first_deadline(self) -> float:
        """When the first of the half-open permits expires."""
        return min((probe.deadline for probe in self._probes), default=math.inf)

    @property
    def totals(self) -> tuple[int, int]:
        """Successes and failures of all time."""
        self._fold()
        live = [epoch for epoch in (*self._buckets, self.epoch, self._half) if epoch is not SHUT]
        return (
            self._folded + sum(epoch.successes for epoch in live),
            self._failed + sum(epoch.failures for epoch in live),
        )

    def _retire(self, epoch: Epoch) -> None:
        if epoch is not SHUT:
            self._retired.append((epoch, 0, 0))
        self._fold()

    def _fold(self) -> None:
        """Adds what retired epochs have seen; one with calls still out is kept, so that their results are not lost."""
        kept = []
        for epoch, good, bad in self._retired:
            now_good, now_bad = epoch.successes, epoch.failures
            self._folded += now_good - good
            self._failed += now_bad - bad
            if epoch.outstanding > 0:
                kept.append((epoch, now_good, now_bad))
        self._retired = kept[-_MOST_RETIRED:]
