"""Bugs to plant, by name. Nothing of this is shipped; it shows that a run can fail."""

from __future__ import annotations

import hashlib
import os
import random
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tests.acceptance.planted import PLANTS as STATEMENTS
from tests.acceptance.planted import planted_store
from tests.chaos.orders import CALLED, THE_ENQUEUER, Orders
from tests.chaos.results import content, publish
from tidegate.runtime.clock import SYSTEM
from tidegate.store.opening import open_store
from tidegate.store.tx import Store, Tx

T = TypeVar("T")

PLANTS = {
    "unfenced-settle": "a settle asks only whether its job runs, not for whom",
    "lost-commit": "one in ten jobs is acknowledged, and its transaction rolled back",
    "orphan-file": "the sweep removes nothing",
    "file-after-commit": "a result is recorded before its file is made",
    "own-wall-clock": "a worker on PostgreSQL prunes by its own clock, not by the server's",
}


def planted_database(plant: str, url: str) -> Store | None:
    """A database with the bug inside it; None where the bug is elsewhere, or there is none."""
    if plant == "unfenced-settle":
        return planted_store(url, STATEMENTS["unfenced"])
    if plant == "lost-commit" and os.environ[CALLED] == THE_ENQUEUER:
        return _forgetful(open_store(url, now=SYSTEM.now))
    if plant == "own-wall-clock":
        store = open_store(url, now=SYSTEM.now)
        setattr(store, "older_than", lambda age, now: SYSTEM.now() - age)  # noqa: B010 - as below
        return store
    return None


def _forgetful(store: Store) -> Store:
    """One that says yes to every write, and forgets some."""
    honest, dice = store.write, random.Random(os.getpid())

    def write(work: Callable[[Tx], T]) -> T:
        if dice.random() > 0.1:
            return honest(work)
        found: list[T] = []

        def undone(tx: Tx) -> T:
            found.append(work(tx))
            raise _Undone

        try:
            return honest(undone)
        except _Undone:
            return found[0]

    setattr(store, "write", write)  # noqa: B010 - a plain assignment to a method is none that mypy allows
    return store


class _Undone(Exception):
    """Takes a transaction back."""


def late_file(orders: Orders, job: int, fence: int, n: int) -> dict[str, Any]:
    """What `publish` returns, and the file only later."""
    threading.Timer(1.0, publish, (orders, job, fence, n)).start()
    data = content(job, fence, n)
    digest = hashlib.sha256(data).hexdigest()
    return {"n": n, "fence": fence, "file": f"{job}-{fence}.txt", "bytes": len(data), "sha256": digest}
