"""What happened to queues and targets, in order, from any event on: for whoever follows.

On PostgreSQL ids are given out in one order and appear in another. So nothing is told that comes after a missing id
while somebody is still writing: what follows must not hide what comes late.
"""

from __future__ import annotations

from itertools import pairwise

from tidegate.store import gate_rows
from tidegate.store.gate_rows import TargetEvent
from tidegate.store.tx import Tx

GAP_TIMEOUT = 60.0  # seconds after which an id that is missing is given up
_RECENT_IDS = 1000  # ids that were given out last
_ANY = 2**62


def since(tx: Tx, after: int, *, limit: int = 100, subject: str = "", name: str = "") -> list[TargetEvent]:
    """The events after that one, the oldest first; their ids grow. With a *name* only those of that queue or target."""
    if name and not subject:
        raise ValueError("subject: give 'queue' or 'target' beside the name")
    wanted = {"after": after, "subject": subject, "name": name}
    kind = "happenings_of" if name else "happenings"
    if not tx.query(kind, {**wanted, "newest": _ANY, "n": 1}):
        return []
    # Asked for before they are read: of what is written in between, something may be missing.
    last = newest(tx)
    return [gate_rows.event_of(row) for row in tx.query(kind, {**wanted, "newest": last, "n": limit})]


def newest(tx: Tx) -> int:
    """The last event that may be told: none can appear before it any more. 0 when there is none."""
    recent = [(int(id_), float(age)) for id_, age in tx.query("happenings_recent", {"n": _RECENT_IDS})]
    if not recent:
        return 0
    before_gap = None
    for (id_, age), (below, _) in pairwise([*recent, (0, 0.0)]):
        if age > GAP_TIMEOUT:
            break
        if below < id_ - 1:
            before_gap = below
    if before_gap is None or not tx.others_write("tg_gate_event"):
        return recent[0][0]
    return before_gap
