"""A breaker that is obvious and slow: it remembers every call and works everything out from them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

CLOSED, HALF_OPEN, OPEN = "closed", "half-open", "open"


@dataclass(frozen=True)
class Numbers:
    max_requests: int
    interval: float
    timeout: float
    min_requests: int
    failure_ratio: float
    consecutive: int | None
    permit_timeout: float


@dataclass(eq=False)
class Call:
    period: int  # of the breaker's life: each change of state, force and reset begins another
    interval: int
    deadline: float
    probe: bool
    result: bool | None = None
    settled: bool = False
    expired: bool = False


@dataclass
class Model:
    numbers: Numbers
    state: str = CLOSED
    since: float = 0.0
    until: float = -math.inf
    forced_until: float | None = None
    period: int = 0
    interval: int = 0
    interval_began: float = 0.0
    generation: int = 0
    calls: list[Call] = field(default_factory=list)
    settled: list[Call] = field(default_factory=list)  # in the order of their results
    totals: Counter[str] = field(default_factory=Counter)
    transitions: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept_run: int = 0

    # -- what can be read ----------------------------------------------------------------------------------------

    def counts(self) -> tuple[int, int, int, int, int]:
        if self.state == OPEN:
            return (0, 0, 0, 0, 0)
        mine = [call for call in self.calls if call.period == self.period and call.interval == self.interval]
        requests = sum(1 for call in mine if not (call.settled and call.result is None))
        results = [call.result for call in self.settled if call in mine and call.result is not None]
        good, bad = _trailing(results, True), _trailing(results, False)
        return (requests, results.count(True), results.count(False), good, bad)

    def run(self) -> int:
        if self.state != CLOSED:
            return self.kept_run
        results = [call.result for call in self.settled if call.period == self.period and call.result is not None]
        return _trailing(results, False)

    # -- time ----------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Carries out what time has decided, as of when it was decided."""
        if self.state == CLOSED:
            if self.forced_until is not None:
                if now >= self.forced_until:
                    self.move(CLOSED, now)
            elif now >= self.interval_ends():
                self.interval += 1
                self.interval_began = now
                self.generation += 1
            return
        if self.state == OPEN:
            if now < self.until:
                return
            self.move(HALF_OPEN, self.until)
        out = [call for call in self.calls if call.period == self.period and not call.settled]
        first = min((call.deadline for call in out), default=math.inf)
        if first <= now:
            for call in out:
                if call.deadline <= first:
                    call.expired = True
                    self.totals["failure"] += 1
            self.open(first)
            self.tick(now)

    def interval_ends(self) -> float:
        return self.interval_began + (self.numbers.interval or math.inf)

    def move(self, state: str, now: float, forced_until: float | None = None) -> None:
        self.period += 1
        self.generation += 1
        self.forced_until = forced_until
        self.interval_began = now
        self.until = -math.inf
        if state != self.state:
            self.transitions[self.state, state] += 1
            self.state, self.since = state, now

    def open(self, now: float, forced_until: float | None = None) -> None:
        if self.state == CLOSED:
            self.kept_run = self.run()
        self.move(OPEN, now, forced_until)
        self.until = now + self.numbers.timeout if forced_until is None else forced_until

    # -- calls ---------------------------------------------------------------------------------------------------

    def admit(self, now: float) -> Call | None:
        self.tick(now)
        mine = [call for call in self.calls if call.period == self.period]
        taken = sum(1 for call in mine if not (call.settled and call.result is None))
        if self.state == OPEN or (self.state == HALF_OPEN and taken >= self.numbers.max_requests):
            self.totals["rejected"] += 1
            return None
        probe = self.state == HALF_OPEN
        call = Call(self.period, self.interval, now + self.numbers.permit_timeout, probe)
        self.calls.append(call)
        return call

    def settle(self, call: Call, result: bool | None, now: float) -> None:
        if call.probe:
            self.tick(now)
        call.settled, call.result = True, result
        if call.expired or result is None:
            return
        self.totals["success" if result else "failure"] += 1
        self.settled.append(call)
        if call.period != self.period:
            return
        if self.state == HALF_OPEN:
            if not result:
                self.open(now)
            elif self.counts()[1] >= self.numbers.max_requests:
                self.move(CLOSED, now)
        elif not result and self.forced_until is None and self.trips(call, now):
            self.open(now)

    def trips(self, call: Call, now: float) -> bool:
        if self.numbers.consecutive is not None and self.run() >= self.numbers.consecutive:
            return True
        requests, _, failures, _, _ = self.counts()
        if call.interval != self.interval or now >= self.interval_ends():
            return False
        return requests >= self.numbers.min_requests and failures / requests >= self.numbers.failure_ratio

    # -- by hand -------------------------------------------------------------------------------------------------

    def force(self, state: str, now: float, until: float) -> None:
        self.tick(now)
        if state == OPEN:
            self.open(now, until)
        else:
            self.move(CLOSED, now, until)

    def reset(self, now: float) -> None:
        self.tick(now)
        self.move(CLOSED, now)

    def half_open(self, now: float) -> bool:
        self.tick(now)
        if self.state != OPEN or self.forced_until is not None:
            return False
        self.move(HALF_OPEN, now)
        return True


def _trailing(results: list[bool], kind: bool) -> int:
    found = 0
    for result in reversed(results):
        if result is not kind:
            break
        found += 1
    return found
