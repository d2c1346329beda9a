"""What a step of the store's clock means for the times that are stored, and for the age of what is old.

A step is not elapsed time. Times that lie ahead of unfinished work (ends of leases, retries, expiry, holds) move with
the clock. Ages are counted without the steps forward, so a clock that jumps ahead makes nothing old.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidegate.core.events import NoticeKind
from tidegate.store import notice_rows
from tidegate.store.notice_rows import NewNotice, Place
from tidegate.store.tx import Tx

TOLERATED = 5.0  # seconds by which a clock may be corrected at once, as NTP does
NOTICED = 60.0  # seconds: users are notified of a larger step
CONFIRMED = 600.0  # seconds that a clock must agree with elapsed time before it is believed again
MAX_STEPS = 20  # that are remembered
_SLACK = 0.5  # seconds that a clock may be corrected by between two checks without a step
_ROW = "clock"
_SHIFTS = (
    "shift_leases", "shift_expiry", "shift_running_expiry", "shift_retries", "shift_holds", "shift_breakers",
    "shift_target_pauses", "shift_queue_pauses", "shift_leaders", "shift_workers", "shift_requests",
)  # fmt: skip


class Step(NamedTuple):
    """A step forward: *at* is the time that the clock showed after it."""

    at: float
    by: float


def cutoff(now: float, age: float, steps: Iterable[Step]) -> float:
    """The time that the clock showed *age* seconds ago."""
    found = now - age
    for step in sorted(steps, reverse=True):
        if found < step.at:
            found -= step.by
    return found


def with_step(steps: Sequence[Step], now: float, by: float) -> tuple[Step, ...]:
    """The steps that still count after the clock has moved by *by* seconds, to *now*."""
    # A step back undoes the steps to a time that lies ahead now. What is left of them is a smaller step forward.
    kept = tuple(step for step in steps if step.at <= now)
    left = sum(step.by for step in steps if step.at > now) + by
    return (*kept, Step(now, left))[-MAX_STEPS:] if left > 0 else kept


def shift(tx: Tx, now: float, by: float, *, within: float | None = None) -> None:
    """Moves the times of unfinished work: the clock was moved by *by* seconds, to *now*.

    *within*: the step was made so many seconds ago or less. Rows that were written since then stay.
    """
    params = {
        "by": by, "was": now - by, "is": now, "all": int(within is None),
        "after": now - (within or 0.0) - _SLACK, "until": now + _SLACK,
    }  # fmt: skip
    for name in _SHIFTS:
        tx.all(name, params)


def read(tx: Tx) -> dict[str, object] | None:
    """What is stored about the clock; None when nothing is."""
    rows = tx.all("store_value", {"name": _ROW})
    return json.loads(rows[0][0]) if rows else None


def lock(tx: Tx) -> bool:
    """Locks what is stored about the clock. False when another process has it, which checks the clock right now."""
    tx.all("store_put", {"name": _ROW, "value": "null"})
    return bool(tx.all("clock_lock", {"name": _ROW}))


def write(tx: Tx, values: dict[str, object]) -> None:
    tx.all("clock_write", {"name": _ROW, "value": json.dumps(values)})


def notify(tx: Tx, where: str, now: float, by: float, what_happens: str, *, over: bool = False) -> None:
    """One notice per episode, for a step that is large. *over*: nothing remains to be waited for."""
    if abs(by) < NOTICED:
        return
    direction = "ahead" if by > 0 else "back"
    notice_rows.raised(tx, NewNotice(
        kind=NoticeKind.CLOCK, level="warning", place=Place(subject=notice_rows.SERVER, name=where), episode=now,
        title=f"The clock of {where} was set {direction}", message=f"It moved {direction} by {_spelled(abs(by))}.",
        advice=f"{what_happens} Check the time of that machine and its time synchronization (NTP).", over=over,
    ))  # fmt: skip


def end_notice(tx: Tx, where: str) -> None:
    notice_rows.ended(tx, Place(subject=notice_rows.SERVER, name=where), (NoticeKind.CLOCK,))


def _spelled(seconds: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds"
