"""The clock of a database server, compared with the elapsed time of this host.

Each process that checks it remembers how far the server's clock was from its own time since boot. What is stored is the
sum of all steps that were found, so that each is found once, whichever process does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.store import clock_steps
from tidegate.store.clock_steps import CONFIRMED, NOTICED, SLACK, TOLERATED, ClockStep, Shift, cutoff, with_step
from tidegate.store.tx import Tx

_WHERE = "the database"
_QUICK = 2.0  # seconds that the answer may take, or nothing can be said
_SEEN_EVERY = 5.0  # seconds between two writes of the time that was reached
_MOVED = "Leases, retries and expiry were moved with it, and nothing has become older by it."


class ServerClock:
    """Finds steps of the server's clock, and undoes what they would do."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last: tuple[float, float] | None = None  # the offset from our elapsed time, and the sum of steps, by then
        self._right_at: float | None = None  # our elapsed time at the last check that found no step
        self._checked_at = 0.0  # by the server's clock
        self._resolved = 0.0  # how many jumps were known to be steps by then
        self._steps: tuple[ClockStep, ...] = ()
        self._ages_from = 0.0  # on the server's clock: before that, nothing is deleted because of its age

    def check(self, tx: Tx) -> bool:
        """Deals with a step since the last check. False when it cannot be told whether there was one."""
        if not clock_steps.lock(tx):
            return False
        boot = self._monotonic()
        now = float(tx.query("clock")[0][0])
        if self._monotonic() - boot > _QUICK:
            return False
        found: dict[str, Any] = clock_steps.read(tx) or {}
        total, seen = float(found.get("total", 0.0)), float(found.get("seen", now))
        steps = tuple(ClockStep(*step) for step in found.get("steps", ()))
        ages_from, stepped_at = float(found.get("ages_from", 0.0)), found.get("stepped_at")
        jumped: list[float] | None = found.get("jumped")
        resolved: list[float] = found.get("resolved", [0, 0.0, 0.0])
        self._follow(resolved)
        by = self._stepped(now, boot, total, seen, jumped)
        after = float(found.get("after", now))
        if by:
            # What was written since the clock was known to be right may have been written after the step.
            since = 2 * _SEEN_EVERY if self._right_at is None else boot - self._right_at + SLACK
            after = now - min(abs(by) / 2, since)
            clock_steps.shift(tx, Shift(by=by, to=now, after=after))
            clock_steps.end_notice(tx, _WHERE)
            clock_steps.notify(tx, _WHERE, now, by, _MOVED)
            total, steps, stepped_at = total + by, with_step(steps, now, by), now
            ages_from = ages_from + by if ages_from > now - by else ages_from
            if jumped is not None:
                resolved, jumped = [resolved[0] + 1, jumped[1], by], None
        elif now > seen + NOTICED and self._last is None:
            # No process was there for a while: time has passed, or the clock is ahead. A process that was there all the
            # time, and has not checked yet, will know.
            ages_from, jumped = now + CONFIRMED, [seen, now]
        elif stepped_at is not None and now > stepped_at + CONFIRMED:
            clock_steps.end_notice(tx, _WHERE)
            stepped_at = None
        ages_from = min(ages_from, now + CONFIRMED)
        step = Shift(by=by, to=now, after=after)
        followed = clock_steps.shift_applications(tx, total, found.get("followed", {}), step)
        new = {
            "total": total,
            "followed": followed,
            "after": after,
            "steps": [list(step) for step in steps],
            "stepped_at": stepped_at,
            "ages_from": ages_from,
            "jumped": jumped,
            "resolved": resolved,
        }
        if {**new, "seen": found.get("seen")} != found or abs(now - seen) > _SEEN_EVERY:
            clock_steps.write(tx, {**new, "seen": now})
        self._last, self._steps, self._ages_from = (now - boot, total), steps, ages_from
        self._checked_at, self._resolved = now, resolved[0]
        if not by:  # else this transaction may be rolled back, and the next check finds the same step
            self._right_at = boot
        return True

    def _follow(self, resolved: list[float]) -> None:
        """A jump was found to be a step: the sum of steps was too small for who came after it."""
        n, jumped_to, by = resolved
        if self._last is None or n == self._resolved:
            return
        offset, total = self._last
        if n > self._resolved + 1:
            self._last = None  # which of them lie before the last check is not known any more
        elif self._checked_at >= jumped_to:
            self._last = offset, total + by

    def _stepped(self, now: float, boot: float, total: float, seen: float, jumped: list[float] | None) -> float:
        """By how many seconds; 0.0 when the clock has not stepped.

        *jumped*: from which time to which the clock went while no process watched it, as far as is known.
        """
        if self._last is None:
            return now - seen if now < seen - TOLERATED else 0.0
        offset, before = self._last
        expected = boot + offset + total - before
        by = now - expected
        if abs(by) <= TOLERATED:
            return 0.0
        if jumped is not None and jumped[0] - TOLERATED <= expected < jumped[1]:
            return by  # this process has watched it
        # Others have seen this time without a step: this host stood still, as a paused virtual machine does.
        return 0.0 if by > 0 and seen > expected + TOLERATED else by

    def older_than(self, now: float, age: float) -> float:
        """As `SteadyClock.older_than`, by what the last check found."""
        return 0.0 if now < self._ages_from else cutoff(now, age, self._steps)
