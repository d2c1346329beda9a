"""What time it is for a database: its own clock, or the one that it was handed."""

from __future__ import annotations

from tidegate.store.tx import Tx


def now_of(tx: Tx) -> float:
    """The clock that leases and due times are measured with, UNIX time."""
    return float(tx.query("clock")[0][0])
