"""Clocks of a store that do not step: of this host, and of a database server."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from tidegate.store import clock_steps
from tidegate.store.base import Tx
from tidegate.store.clock_steps import CONFIRMED, NOTICED, SLACK, TOLERATED, ClockStep, Shift, cutoff, with_step

# Wall time that does not step: the clock of a queue, and of a store on this host.
#
# It runs with the host's time since boot. The wall clock is followed while both agree within a few seconds. After a
# larger step the time goes on as if nothing had happened, until the wall clock either returns or has kept its new time
# for ten minutes. What is agreed on is stored, so that all processes on one SQLite file have the same time, also those
# that start in the middle of a step.

_SEEN_EVERY = 10.0  # seconds between two writes of the time that was reached
_QUICK = 0.5  # seconds: two clocks are read at the same moment, unless the process was stopped in between
_MOVED = "Leases, retries and expiry were moved with it, and nothing has become older by it."
_HELD = "Times stay as they were until the clock is right again, or has kept its new time for 10 minutes."


class HostClock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    def sleep(self, wait: float) -> None: ...

    async def asleep(self, wait: float) -> None: ...


class ClockReading(NamedTuple):
    """Both clocks of a host at one moment. *boot* are seconds since the boot that is called *boot_id*."""

    boot_id: str
    boot: float
    wall: float

    @property
    def offset(self) -> float:
        return self.wall - self.boot


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What ties the store's time to the time since boot."""

    boot_id: str
    offset: float  # from seconds since boot to the store's time
    seen: float  # the store's time when this was written
    held_offset: float | None = None  # that of a wall clock which has stepped and is not believed yet
    held_until: float = 0.0  # seconds since boot
    ages_from: float = 0.0  # seconds since boot: before that, nothing is deleted because of its age
    steps: tuple[ClockStep, ...] = ()
    total: float = 0.0  # the sum of all steps that the store's time has made
    followed: Mapping[str, float] = field(default_factory=dict)  # that sum when an application's times moved last


def decide(known: Anchor | None, read: ClockReading) -> tuple[Anchor, float]:
    """The anchor from now on, and by how many seconds the store's time steps."""
    fresh = Anchor(boot_id=read.boot_id, offset=read.offset, seen=read.wall)
    if known is None:
        return fresh, 0.0
    if known.boot_id != read.boot_id:
        by = read.wall - known.seen
        fresh = replace(fresh, total=known.total, followed=known.followed)
        if by < -TOLERATED:  # no time has passed at all, as far as anyone can know
            return replace(fresh, steps=with_step(known.steps, read.wall, by), total=known.total + by), by
        doubtful = by > NOTICED  # the host was off, or its clock is ahead
        return replace(fresh, steps=known.steps, ages_from=read.boot + CONFIRMED if doubtful else 0.0), 0.0
    by = read.offset - known.offset
    if abs(by) <= TOLERATED:
        return replace(known, offset=read.offset, seen=read.wall, held_offset=None), 0.0
    now = read.boot + known.offset
    if known.held_offset is None or abs(known.held_offset - read.offset) > TOLERATED:
        until = read.boot + CONFIRMED
        ages_from = until if read.boot < known.ages_from else known.ages_from
        return replace(known, seen=now, held_offset=read.offset, held_until=until, ages_from=ages_from), 0.0
    if read.boot < known.held_until:
        return replace(known, seen=now), 0.0
    steps = with_step(known.steps, read.wall, by)
    return replace(known, offset=read.offset, seen=read.wall, held_offset=None, steps=steps, total=known.total + by), by


class SteadyClock:
    """A clock whose wall time does not step. Safe under threads."""

    def __init__(self, clock: HostClock) -> None:
        self.host = clock
        self._boot_id: str = getattr(clock, "boot_id", "") or uuid.uuid4().hex
        self._anchor: Anchor | None = None
        self._lock = threading.Lock()
        self.stored = False  # a store keeps the anchor; else this process alone decides
        self.monotonic, self.sleep, self.asleep = clock.monotonic, clock.sleep, clock.asleep

    def now(self) -> float:
        """UNIX time."""
        found = self._sure()
        if found is not None:
            return found
        if not self.stored:
            with self._lock:
                self._anchor, _ = decide(self._anchor, self._read())
        return self._unsure()

    def older_than(self, age: float) -> float:
        """The time before which everything is at least *age* seconds old; 0 while that cannot be known."""
        now, anchor, read = self.now(), self._anchor, self._read()
        if anchor is None:
            return now - age
        if read.boot < anchor.ages_from:
            return 0.0
        # A file that was just written has the time of the wall clock, which may have been set back.
        return cutoff(min(now, read.wall), age, anchor.steps)

    # -- with a store --------------------------------------------------------------------------------------------

    @property
    def anchor(self) -> Anchor | None:
        return self._anchor

    def keep_in_store(self) -> None:
        """From now on a store keeps the anchor, and what was decided without it does not count."""
        self._anchor, self.stored = None, True

    def put_back(self, anchor: Anchor | None) -> None:
        """A transaction was rolled back that had changed it."""
        self._anchor = anchor

    def now_for_writing(self, tx: Tx) -> float:
        """The time of a transaction that may write; deals with a step of the wall clock first."""
        found = self._sure()
        if found is None:
            self.check(tx)
            found = self.now()
        return found

    def now_for_reading(self, tx: Tx) -> float:
        """The time of a transaction that may not."""
        found = self._sure()
        if found is None:
            known = _stored(tx)
            if known is not None and known.boot_id == self._boot_id:
                new, by = decide(known, self._read())
                self._anchor = known if by else new
            found = self._unsure()
        return found

    def check(self, tx: Tx) -> None:
        """Compares the wall clock with elapsed time, and stores what follows from it."""
        known, read = _stored(tx), self._read()
        new, by = decide(known, read)
        self._anchor = new  # before anything else in this transaction asks for the time
        step = Shift(by=by, to=new.seen)
        if by:
            clock_steps.shift(tx, step)
        new = replace(new, followed=clock_steps.shift_applications(tx, new.total, new.followed, step))
        self._anchor = new
        host = socket.gethostname()
        if by and known is not None and known.boot_id != new.boot_id:
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

    def _sure(self) -> float | None:
        """The time, where nothing is to be decided."""
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

    def _unsure(self) -> float:
        """The time until the store has been asked."""
        anchor, read = self._anchor, self._read()
        if anchor is None or abs(read.offset - anchor.offset) <= TOLERATED:
            return read.wall
        return read.boot + anchor.offset

    def _read(self) -> ClockReading:
        while True:
            boot, wall = self.host.monotonic(), self.host.now()
            if self.host.monotonic() - boot < _QUICK:
                return ClockReading(self._boot_id, boot, wall)


def _stored(tx: Tx) -> Anchor | None:
    found: dict[str, Any] | None = clock_steps.read(tx)
    if not found or "boot_id" not in found:  # nothing, or what another kind of clock has stored
        return None
    return Anchor(**{**found, "steps": tuple(ClockStep(*step) for step in found["steps"])})


# The clock of a database server, compared with the elapsed time of this host.
#
# Each process that checks it remembers how far the server's clock was from its own time since boot. What is stored is
# the sum of all steps that were found, so that each is found once, whichever process does.

_WHERE = "the database"
_MAX_QUERY_SECONDS = 2.0  # seconds that the answer may take, or nothing can be said
_SERVER_SEEN_EVERY = 5.0  # seconds between two writes of the time that was reached


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
        if self._monotonic() - boot > _MAX_QUERY_SECONDS:
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
            since = 2 * _SERVER_SEEN_EVERY if self._right_at is None else boot - self._right_at + SLACK
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
        if {**new, "seen": found.get("seen")} != found or abs(now - seen) > _SERVER_SEEN_EVERY:
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
