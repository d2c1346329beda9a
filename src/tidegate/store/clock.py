"""Store clocks without steps: the clock of this host, and the clock of a database server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple, Protocol

from tidegate.store import clock_steps
from tidegate.store.base import Tx, now_of
from tidegate.store.clock_steps import (
    CONFIRMED,
    NOTICED,
    SLACK,
    TOLERATED,
    ClockStep,
    Shift,
    correct,
    cutoff,
    with_jump,
    with_step,
)
from tidegate.validation import JsonObject

# -- host clock --------------------------------------------------------------------------------------------------------
# The time advances with the host's time since boot. It follows the wall clock while both agree within a few seconds.
# After a larger step of the wall clock it continues without the step, until the wall clock returns or has kept its new
# time for ten minutes. The decision is stored, so that all processes on one SQLite file have the same time, including
# those that start during a step.
#
# After a reboot the wall clock is used at once, but the time that has passed by it is unverified: a jump. Nothing
# expires and nothing is deleted until the clock has agreed with the time since boot for ten minutes. A correction in
# that time is adopted at once. Further reboots prolong it.

_SEEN_EVERY = 10.0  # seconds between two writes of the current time
_QUICK = 0.5  # seconds: a longer gap between two clock reads means that the process was stopped
_MOVED = "Leases, retries and expiry were moved with it, and nothing has become older by it."
_HELD = "Times stay as they were until the clock is right again, or has kept its new time for 10 minutes."


class HostClock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    def sleep(self, wait: float) -> None: ...

    async def asleep(self, wait: float) -> None: ...


class ClockReading(NamedTuple):
    """Both clocks of a host at one moment. *boot* is seconds since the boot *boot_id*."""

    boot_id: str
    boot: float
    wall: float

    @property
    def offset(self) -> float:
        return self.wall - self.boot


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Ties the store's time to the time since boot."""

    boot_id: str
    offset: float  # from seconds since boot to the store's time
    seen: float  # the store's time when this was written
    held_offset: float | None = None  # of a wall clock that has stepped and is not trusted yet
    held_until: float = 0.0  # seconds since boot
    jumps: tuple[ClockStep, ...] = ()  # unverified: until they are, no age is known
    ages_from: float = 0.0  # seconds since boot: then the jumps are verified
    steps: tuple[ClockStep, ...] = ()
    total: float = 0.0  # the sum of all steps of the store's time
    followed: Mapping[str, float] = field(default_factory=dict)  # the sum at each application's last shift

    def is_of_boot(self, read: ClockReading) -> bool:
        """Whether *read* counts from the same boot. Where boots have no id, only a shorter uptime shows a reboot."""
        return self.boot_id == read.boot_id and read.boot >= self.seen - self.offset - TOLERATED


def decide(known: Anchor | None, read: ClockReading) -> tuple[Anchor, float]:
    """Returns the new anchor, and the step of the store's time in seconds."""
    fresh = Anchor(boot_id=read.boot_id, offset=read.offset, seen=read.wall)
    if known is None:
        return fresh, 0.0
    if not known.is_of_boot(read):
        return _decide_after_boot(known, read)
    by = read.offset - known.offset
    if abs(by) <= TOLERATED:
        jumps = known.jumps if read.boot < known.ages_from else ()
        return replace(known, offset=read.offset, seen=read.wall, held_offset=None, jumps=jumps), 0.0
    if 0 < -by <= sum(jump.by for jump in known.jumps) + TOLERATED:
        return _stepped(known, read, by), by  # the clock was ahead since a boot
    held = replace(known, seen=read.boot + known.offset)
    if known.held_offset is None or abs(known.held_offset - read.offset) > TOLERATED:
        until = read.boot + CONFIRMED
        return replace(held, held_offset=read.offset, held_until=until, ages_from=until), 0.0
    if read.boot < known.held_until:
        return held, 0.0
    return replace(_stepped(known, read, by), jumps=()), by


def _decide_after_boot(known: Anchor, read: ClockReading) -> tuple[Anchor, float]:
    by = read.wall - known.seen
    held = 0.0 if known.held_offset is None else known.held_offset - known.offset
    if by < -TOLERATED:  # no elapsed time can be inferred
        return _stepped(known, read, by), by
    if TOLERATED < held <= by + TOLERATED:  # the clock still has the step that it had before the boot
        new = _stepped(known, read, held)
        return replace(new, jumps=with_jump(new.jumps, read.wall, by - held)), held
    jumps = with_jump(known.jumps, read.wall, by)  # the host was off, or its clock is ahead
    return replace(_stepped(known, read, 0.0), jumps=jumps), 0.0


def _stepped(known: Anchor, read: ClockReading, by: float) -> Anchor:
    """Returns the anchor for the wall clock of *read*, after a step by *by* seconds."""
    return replace(
        known,
        boot_id=read.boot_id,
        offset=read.offset,
        seen=read.wall,
        held_offset=None,
        jumps=correct(known.jumps, read.wall, by)[1],
        ages_from=read.boot + CONFIRMED,
        steps=with_step(known.steps, read.wall, by) if by else known.steps,
        total=known.total + by,
    )


class SteadyClock:
    """A clock whose wall time does not step. Thread-safe."""

    def __init__(self, clock: HostClock) -> None:
        self.host = clock
        self._boot_id: str = getattr(clock, "boot_id", "")
        self._anchor: Anchor | None = None
        self._lock = threading.Lock()
        self.stored = False  # the store has the anchor; otherwise it is local to this process
        self.monotonic, self.sleep, self.asleep = clock.monotonic, clock.sleep, clock.asleep

    def now(self) -> float:
        """Returns UNIX time."""
        now = self._certain_now()
        if now is not None:
            return now
        if not self.stored:
            with self._lock:
                self._anchor, _ = decide(self._anchor, self._read())
        return self._estimated_now()

    def older_than(self, age: float) -> float:
        """Returns the time before which everything is *age* seconds old, or 0 while that is unknown."""
        now, anchor, read = self.now(), self._anchor, self._read()
        if anchor is None:
            return 0.0 if self.stored else now - age
        if decide(anchor, read)[0].jumps:
            return 0.0
        # A new file has the time of the wall clock, which may have been set back.
        return cutoff(min(now, read.wall), age, anchor.steps)

    # -- with a store --------------------------------------------------------------------------------------------

    @property
    def anchor(self) -> Anchor | None:
        return self._anchor

    def keep_in_store(self) -> None:
        """Keeps the anchor in a store from now on. Discards the local one."""
        self._anchor, self.stored = None, True

    def put_back(self, anchor: Anchor | None) -> None:
        """Restores the anchor after a rollback."""
        self._anchor = anchor

    def now_for_writing(self, tx: Tx) -> float:
        """Returns the time of a transaction that may write. Handles a step of the wall clock first."""
        now = self._certain_now()
        if now is None:
            self.check(tx)
            now = self.now()
        return now

    def now_for_reading(self, tx: Tx) -> float:
        """Returns the time of a read-only transaction."""
        now = self._certain_now()
        if now is None:
            known = _load_anchor(tx)
            read = self._read()
            if known is not None and known.is_of_boot(read):
                new, by = decide(known, read)
                self._anchor = known if by else new
            now = self._estimated_now()
        return now

    def check(self, tx: Tx) -> None:
        """Compares the wall clock with elapsed time, and stores the result."""
        known, read = _load_anchor(tx), self._read()
        new, by = decide(known, read)
        self._anchor = new  # before this transaction reads the time
        step = Shift(by=by, to=new.seen)
        shifts = correct(known.jumps if known is not None else (), step.to, by)[0]
        for part in shifts:
            clock_steps.shift(tx, part)
        new = replace(new, followed=clock_steps.shift_applications(tx, new.total, new.followed, step, shifts))
        self._anchor = new
        host = socket.gethostname()
        if by and known is not None and (known.held_offset is None or not known.is_of_boot(read)):
            clock_steps.notify(tx, host, new.seen, by, _MOVED, over=True)
        if new.held_offset is not None and (known is None or known.held_offset != new.held_offset):
            clock_steps.end_notice(tx, host)
            clock_steps.notify(tx, host, new.seen, new.held_offset - new.offset, _HELD)
        elif known is not None and known.held_offset is not None and new.held_offset is None:
            clock_steps.end_notice(tx, host)
        if (
            known is None
            or replace(known, seen=0, offset=0) != replace(new, seen=0, offset=0)
            or (abs(known.offset - new.offset) > TOLERATED / 5 or abs(new.seen - known.seen) > _SEEN_EVERY)
        ):
            clock_steps.write(tx, asdict(new))

    def _certain_now(self) -> float | None:
        """Returns the time, or None if the clock must be checked first."""
        anchor = self._anchor
        if anchor is None:
            return None
        wall, boot = self.host.now(), self.host.monotonic()
        by = wall - boot - anchor.offset
        if -TOLERATED <= by <= TOLERATED:
            return wall if anchor.held_offset is None else None
        if anchor.held_offset is None or boot >= anchor.held_until or abs(wall - boot - anchor.held_offset) > TOLERATED:
            return None
        return boot + anchor.offset

    def _estimated_now(self) -> float:
        """Returns the best time until the store has been read."""
        anchor, read = self._anchor, self._read()
        if anchor is None or abs(read.offset - anchor.offset) <= TOLERATED:
            return read.wall
        return read.boot + anchor.offset

    def _read(self) -> ClockReading:
        while True:
            boot, wall = self.host.monotonic(), self.host.now()
            if self.host.monotonic() - boot < _QUICK:
                return ClockReading(self._boot_id, boot, wall)


def _load_anchor(tx: Tx) -> Anchor | None:
    values: JsonObject | None = clock_steps.read(tx)
    if not values or "boot_id" not in values:  # nothing, or the state of a server clock
        return None
    lists = {name: tuple(ClockStep(*step) for step in values[name]) for name in ("steps", "jumps")}
    return Anchor(**{**values, **lists})


# -- server clock ------------------------------------------------------------------------------------------------------
# Each process compares the server's clock with its own time since boot. The sum of all detected steps is stored, so
# that each step is handled once, by any process.

_WHERE = "the database"
_MAX_QUERY_SECONDS = 2.0  # a slower reply says nothing about the clock
_SERVER_SEEN_EVERY = 5.0  # seconds between two writes of the current time


class ServerClock:
    """Detects steps of the server's clock, and shifts stored times accordingly."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last: tuple[float, float] | None = None  # the offset from elapsed time, and the sum of steps
        self._last_good_at: float | None = None  # elapsed time at the last check without a step
        self._checked_at = 0.0  # by the server's clock
        self._resolved_count = 0.0  # the number of jumps that were known to be steps
        self._steps: tuple[ClockStep, ...] = ()
        self._ages_from = 0.0  # server time: until then nothing is deleted by age

    def check(self, tx: Tx) -> bool:
        """Handles a step since the last check. Returns False if the clock could not be checked."""
        if not clock_steps.lock(tx):
            return False
        boot = self._monotonic()
        now = now_of(tx)
        if self._monotonic() - boot > _MAX_QUERY_SECONDS:
            return False
        stored: JsonObject = clock_steps.read(tx) or {}
        total, seen = float(stored.get("total", 0.0)), float(stored.get("seen", now))
        steps = tuple(ClockStep(*step) for step in stored.get("steps", ()))
        ages_from, stepped_at = float(stored.get("ages_from", 0.0)), stored.get("stepped_at")
        jumped: list[float] | None = stored.get("jumped")
        resolved: list[float] = stored.get("resolved", [0, 0.0, 0.0])
        self._apply_resolved(resolved)
        by = self._detect_step(now, boot, total, seen, jumped)
        after = float(stored.get("after", now))
        if by:
            # Rows that were written since the last good check may have been written after the step.
            since = 2 * _SERVER_SEEN_EVERY if self._last_good_at is None else boot - self._last_good_at + SLACK
            after = now - min(abs(by) / 2, since)
            clock_steps.shift(tx, Shift(by=by, to=now, after=after))
            clock_steps.end_notice(tx, _WHERE)
            clock_steps.notify(tx, _WHERE, now, by, _MOVED)
            total, steps, stepped_at = total + by, with_step(steps, now, by), now
            ages_from = ages_from + by if ages_from > now - by else ages_from
            if jumped is not None:
                resolved, jumped = [resolved[0] + 1, jumped[1], by], None
        elif now > seen + NOTICED and self._last is None:
            # No process was running for a while: time has passed, or the clock is ahead. A process that was running
            # all the time, and has not checked yet, will know.
            ages_from, jumped = now + CONFIRMED, [seen, now]
        elif stepped_at is not None and now > stepped_at + CONFIRMED:
            clock_steps.end_notice(tx, _WHERE)
            stepped_at = None
        ages_from = min(ages_from, now + CONFIRMED)
        step = Shift(by=by, to=now, after=after)
        followed = clock_steps.shift_applications(tx, total, stored.get("followed", {}), step)
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
        if {**new, "seen": stored.get("seen")} != stored or abs(now - seen) > _SERVER_SEEN_EVERY:
            clock_steps.write(tx, {**new, "seen": now})
        self._last, self._steps, self._ages_from = (now - boot, total), steps, ages_from
        self._checked_at, self._resolved_count = now, resolved[0]
        if not by:  # otherwise a rollback must let the next check find the step again
            self._last_good_at = boot
        return True

    def _apply_resolved(self, resolved: list[float]) -> None:
        """Applies a jump that was found to be a step: the sum of steps was too small for later processes."""
        n, jumped_to, by = resolved
        if self._last is None or n == self._resolved_count:
            return
        offset, total = self._last
        if n > self._resolved_count + 1:
            self._last = None  # it is unknown which of them precede the last check
        elif self._checked_at >= jumped_to:
            self._last = offset, total + by

    def _detect_step(self, now: float, boot: float, total: float, seen: float, jumped: list[float] | None) -> float:
        """Returns the step in seconds, or 0.0.

        *jumped*: the known interval that the clock skipped while no process watched it.
        """
        if self._last is None:
            return now - seen if now < seen - TOLERATED else 0.0
        offset, before = self._last
        expected = boot + offset + total - before
        by = now - expected
        if abs(by) <= TOLERATED:
            return 0.0
        if jumped is not None and jumped[0] - TOLERATED <= expected < jumped[1]:
            return by  # this process was running
        # Other processes saw this time without a step: this host was stopped, like a paused virtual machine.
        return 0.0 if by > 0 and seen > expected + TOLERATED else by

    def older_than(self, now: float, age: float) -> float:
        """Returns the same as `SteadyClock.older_than`, by the last check."""
        return 0.0 if now < self._ages_from else cutoff(now, age, self._steps)
