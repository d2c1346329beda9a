"""What a step of the store's clock means for the times that are stored, and for the age of what is old.

A step is not elapsed time. Times that lie ahead of unfinished work (ends of leases, retries, expiry, holds) move with
the clock. Ages are counted without the steps forward, so a clock that jumps ahead makes nothing old.
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

TOLERATED = 5.0  # seconds by which a clock may be corrected at once, as NTP does
NOTICED = 60.0  # seconds: users are notified of a larger step
CONFIRMED = 600.0  # seconds that a clock must agree with elapsed time before it is believed again
MAX_STEPS = 20  # that are remembered
SLACK = 0.5  # seconds by which a clock may be corrected between two checks without a step
_ROW = "clock"
_SHIFTS = (
    "shift_leases",
    "shift_expiry",
    "shift_running_expiry",
    "shift_waiting",
    "shift_blocked",
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
SHIFTS = "shift_"  # how the names of the statements begin that move the times of an application
_NONE_LATER = 1e18  # a time after which nothing was written


class ClockStep(NamedTuple):
    """A step forward: *at* is the time that the clock showed after it."""

    at: float
    by: float


def cutoff(now: float, age: float, steps: Iterable[ClockStep]) -> float:
    """The time that the clock showed *age* seconds ago."""
    found = now - age
    for step in sorted(steps, reverse=True):
        if found < step.at:
            found -= step.by
    return found


def with_step(steps: Sequence[ClockStep], now: float, by: float) -> tuple[ClockStep, ...]:
    """The steps that still count after the clock has moved by *by* seconds, to *now*."""
    # A step back undoes the steps to a time that lies ahead now. What is left of them is a smaller step forward.
    kept = tuple(step for step in steps if step.at <= now)
    left = sum(step.by for step in steps if step.at > now) + by
    return (*kept, ClockStep(now, left))[-MAX_STEPS:] if left > 0 else kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """The clock was moved by *by* seconds, to *to*. What was written from *after* on was written after that.

    Other connections go on writing, so a row may be a little newer than *to*.
    """

    by: float
    to: float
    after: float = _NONE_LATER

    @property
    def params(self) -> dict[str, float]:
        return {"by": self.by, "was": self.to - self.by, "is": self.to, "after": self.after, "until": self.to + SLACK}

    def moved(self, at: float) -> float:
        return at if self.after <= at <= self.to + SLACK else at + self.by


def shift(tx: Tx, step: Shift) -> None:
    """Moves the times of unfinished work."""
    for name in _SHIFTS:
        tx.query(name, step.params)
    for name, kept in tx.query("kept_capacities"):
        tx.query("target_capacity", {"name": name, "capacity": FillLevel.load(kept).shift(step.moved).dump()})


def shift_applications(tx: Tx, total: float, followed: Mapping[str, float], step: Shift) -> dict[str, float]:
    """Moves the times of the applications that this process knows; returns how far each has followed the clock.

    *total* is the sum of all steps, and *followed* that up to which each application was moved. Another process may
    have found a step that does not know all of them.
    """
    found = dict(followed)
    for name in tx.named(SHIFTS):
        app = name.partition(".")[0]
        if by := total - followed.get(app, total):
            tx.query(name, replace(step, by=by).params)
        found[app] = total
    return found


def is_behind(tx: Tx, app: str) -> bool:
    """Whether the clock has made steps that the times of an application did not follow."""
    found = read(tx) or {}
    followed: Any = found.get("followed", {})
    return bool(found) and followed.get(app) != found.get("total", 0.0)


def read(tx: Tx) -> dict[str, object] | None:
    """What is stored about the clock; None when nothing is."""
    rows = tx.query("store_value", {"name": _ROW})
    return json.loads(rows[0][0]) if rows else None


def lock(tx: Tx) -> bool:
    """Locks what is stored about the clock. False when another process has it, which checks the clock right now."""
    tx.query("store_put", {"name": _ROW, "value": "null"})
    return bool(tx.query("clock_lock", {"name": _ROW}))


def write(tx: Tx, values: dict[str, object]) -> None:
    tx.query("clock_write", {"name": _ROW, "value": json.dumps(values)})


def notify(tx: Tx, where: str, now: float, by: float, what_happens: str, *, over: bool = False) -> None:
    """One notice per episode, for a step that is large. *over*: nothing remains to be waited for."""
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
