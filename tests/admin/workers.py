"""Workers as the store knows them."""

from __future__ import annotations

import json

from tidegate.store.base import Tx


def seen(tx: Tx, queues: list[str], stopping: int = 0) -> None:
    """A worker that was just heard of."""
    about = {
        "id": "w",
        "host": "h",
        "pid": 1,
        "queues": json.dumps(queues),
        "stopping": stopping,
        "outdated": 0,
        "beat": 1,
    }
    tx.query("worker_seen", about)
