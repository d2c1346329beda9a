"""Bugs to plant, by name. Nothing of this is shipped; it shows that a run can fail."""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tests.acceptance.planted import PLANTS as STATEMENTS
from tests.acceptance.planted import changed, planted_store
from tests.chaos.orders import CALLED, THE_ENQUEUER, Orders
from tests.chaos.results import content, publish
from tidegate.clock import SYSTEM
from tidegate.store.base import Store, Tx
from tidegate.store.open import open_store
from tidegate.store.sql import Statement

T = TypeVar("T")

PLANTS = {
    "unfenced-settle": "a settle asks only whether its job runs, not for whom",
    "lost-commit": "one in ten jobs is acknowledged, and its transaction rolled back",
    "orphan-file": "the sweep removes nothing",
    "file-after-commit": "a result is recorded before its file is made",
    "blameless-parents": "a child fails for its parents when they are done",
    "hasty-conviction": "a job fails with the first worker that it loses, and is said to have crashed three",
    "own-wall-clock": "a worker on PostgreSQL prunes by its own clock, not by the server's",
}


def _blameless_parents(statement: Statement) -> Statement:
    if statement.name != "free_children":
        return statement
    time = re.search(r"due_at > (\S.*?) then 'waiting'", statement.sql)
    assert time is not None
    last = "parents_open = n"
    return changed(
        statement,
        (f"when due_at > {time[1]} then 'waiting' else 'ready' end", "else 'failed' end"),
        ("parents_open = parents_open - n,", f"""parents_open = parents_open - n,
            error_code = case when {last} then 'parent_failed' end,
            error_message = case when {last} then 'A parent has failed.' end,
            finished_at = case when {last} then {time[1]} end,"""),
    )  # fmt: skip


def _hasty_conviction(statement: Statement) -> Statement:
    if statement.name == "lost_leases":
        return changed(statement, ("lease_by, deaths_alone,", "lease_by, 3,"))
    if statement.name == "take_back":
        return changed(statement, ("deaths_alone = deaths_alone + ", "deaths_alone = 3 + 0 * "))
    return statement


_STATEMENTS = {"blameless-parents": _blameless_parents, "hasty-conviction": _hasty_conviction}


def planted_database(plant: str, url: str) -> Store | None:
    """A database with the bug inside it; None where the bug is elsewhere, or there is none."""
    if plant == "unfenced-settle":
        return planted_store(url, STATEMENTS["unfenced"])
    if plant in _STATEMENTS:
        return planted_store(url, _STATEMENTS[plant])
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
