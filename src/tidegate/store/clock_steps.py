"""Steps of the store's clock: how they shift stored times and affect ages.

A step is not elapsed time. Future times of unfinished work (ends of leases, retries, expiry, holds) move with the
clock. Ages do not count steps forward, so a clock that jumps ahead makes nothing old.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidegate import outbox
from tidegate.events import NoticeKind
from tidegate.guard.capacity import FillLevel
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.store.base import Tx

TOLERATED = 5.0  # seconds of a normal correction, as by NTP
NOTICED = 60.0  # seconds: users are notified of a larger step
CONFIRMED = 600.0  # seconds that a clock must agree with elapsed time before it is trusted again
MAX_STEPS = 20  # remembered steps
SLACK = 0.5  # seconds of correction between two checks that are not a step
_ROW = "clock"
_SHIFTS = (
    "shift_leases",
    "shift_waiting",
    "shift_blocked",
    "shift_expiry",  # moves the creation time, which the two before it compare
    "shift_running_expiry",
    "shift_holds",
    "shift_breakers",
    "shift_target_pauses",
    "shift_queue_pauses",
    "shift_leaders",
    "shift_workers",
    "shift_requests",
    "shift_notices",
    "shift_gate_events",
)
SHIFTS = "shift_"  # the prefix of application statements that shift times
_NONE_LATER = 1e18  # a time after which nothing was written


class ClockStep(NamedTuple):
    """A step or an unverified jump forward. *at* is the time after it."""

    at: float
    by: float


def cutoff(now: float, age: float, steps: Iterable[ClockStep]) -> float:
    """Returns the time that the clock showed *age* seconds ago."""
    at = now - age
    for step in sorted(steps, reverse=True):
        if at < step.at:
            at -= step.by
    return at


def with_step(steps: Sequence[ClockStep], now: float, by: float) -> tuple[ClockStep, ...]:
    """Returns the relevant steps after the clock has moved by *by* seconds, to *now*."""
    # A step back undoes the steps to a time that is now in the future. The rest of them is a smaller step forward.
    past = tuple(step for step in steps if step.at <= now)
    left = sum(step.by for step in steps if step.at > now) + by
    return (*past, ClockStep(now, left))[-MAX_STEPS:] if left > 0 else past


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """The clock moved by *by* seconds, to *to*. Rows written from *after* to *until* do not move.

    By default these were written after the step. Other connections keep writing, so a row may be slightly newer than
    *to*.
    """

    by: float
    to: float
    after: float = _NONE_LATER
    until: float | None = None

    @property
    def _until(self) -> float:
        return self.to + SLACK if self.until is None else self.until

    @property
    def params(self) -> dict[str, float | None]:
        """The parameters of statements that shift times.

        `jumped_at` is the time of the jump that a correction undoes. A time that is written again and again, with no
        column that says when, was written since the jump if it is later. Otherwise `jumped_at` is null.
        """
        return {
            "by": self.by,
            "was": self.to - self.by,
            "is": self.to,
            "after": self.after,
            "until": self._until,
            "jumped_at": self._until if self.after < 0 else None,
        }

    def moved(self, at: float) -> float:
        return at if self.after <= at <= self._until else at + self.by


# -- unverified jumps --------------------------------------------------------------------------------------------------
# While the host was off, its clock may have jumped ahead. Rows from before the jump have the right time, and rows from
# after it may have a wrong one. So a correction moves only the latter, unless it is larger than the jump.


def with_jump(jumps: Sequence[ClockStep], at: float, by: float) -> tuple[ClockStep, ...]:
    """Returns the unverified jumps after another one by *by* seconds, to *at*. A short one is not recorded."""
    if by <= NOTICED:
        return tuple(jumps)
    if len(jumps) == MAX_STEPS:  # merges the oldest two; rows between them then count as older, so nothing is early
        jumps = (ClockStep(jumps[1].at, jumps[0].by + jumps[1].by), *jumps[2:])
    return (*jumps, ClockStep(at, by))


def correct(jumps: Sequence[ClockStep], to: float, by: float) -> tuple[tuple[Shift, ...], tuple[ClockStep, ...]]:
    """Returns the shifts for a step by *by* seconds, to *to*, and the jumps that it leaves.

    A step back undoes the newest jump first.
    """
    shifts, remaining, left = list[Shift](), list[ClockStep](), by
    for jump in reversed(jumps):
        part = min(0.0, max(left, -jump.by))
        if part:
            shifts.append(Shift(by=part, to=to - left + part, after=-_NONE_LATER, until=jump.at - SLACK))
        if jump.by + part > NOTICED:
            remaining.append(ClockStep(jump.at + left, jump.by + part))
        left -= part
    if left:
        shifts.append(Shift(by=left, to=to))
    return tuple(shifts), tuple(reversed(remaining))


def shift(tx: Tx, step: Shift) -> None:
    """Shifts the times of unfinished work."""
    for name in _SHIFTS:
        tx.query(name, step.params)
    for name, capacity in tx.query("kept_capacities"):
        tx.query("target_capacity", {"name": name, "capacity": FillLevel.load(capacity).shift(step.moved).dump()})


def shift_applications(
    tx: Tx, total: float, followed: Mapping[str, float], step: Shift, shifts: Sequence[Shift] = ()
) -> dict[str, float]:
    """Shifts the times of the applications in this process. Returns the total shift of each application.

    *total* is the sum of all steps. *followed* is the sum that each application was shifted by. A process that does not
    have all applications may have handled an earlier step. *shifts* are the parts of *step*.
    """
    shifted = dict(followed)
    for name in tx.named(SHIFTS):
        app = name.partition(".")[0]
        if by := total - followed.get(app, total):
            for part in shifts if by == step.by and shifts else (replace(step, by=by),):
                tx.query(name, part.params)
        shifted[app] = total
    return shifted


def is_behind(tx: Tx, app: str) -> bool:
    """Whether the clock has made steps that an application's times were not shifted by."""
    stored = read(tx) or {}
    followed: Any = stored.get("followed", {})
    return bool(stored) and followed.get(app) != stored.get("total", 0.0)


def read(tx: Tx) -> dict[str, object] | None:
    """Returns the stored state of the clock, or None."""
    return tx.scalar_or_none(json.loads, "store_value", {"name": _ROW})


def lock(tx: Tx) -> bool:
    """Locks the state of the clock. Returns False if another process is checking the clock now."""
    tx.query("store_put", {"name": _ROW, "value": "null"})
    return bool(tx.query("clock_lock", {"name": _ROW}))


def write(tx: Tx, values: dict[str, object]) -> None:
    tx.query("clock_write", {"name": _ROW, "value": json.dumps(values)})


def notify(tx: Tx, where: str, now: float, by: float, what_happens: str, *, over: bool = False) -> None:
    """Raises one notice per episode of a large step. *over*: it needs no resolution."""
    if abs(by) < NOTICED:
        return
    direction = "ahead" if by > 0 else "back"
    outbox.raise_notice(
        tx,
        NewNotice(
            kind=NoticeKind.CLOCK,
            level="warning",
            place=NoticeSubject(subject=outbox.SERVER, name=where),
            episode=now,
            title=f"The clock of {where} was set {direction}",
            message=f"It moved {direction} by {_spelled(abs(by))}.",
            advice=f"{what_happens} Check the time of that machine and its time synchronization (NTP).",
            over=over,
        ),
    )


def end_notice(tx: Tx, where: str) -> None:
    outbox.resolve_notices(tx, NoticeSubject(subject=outbox.SERVER, name=where), (NoticeKind.CLOCK,))


def _spelled(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
