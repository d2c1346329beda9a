"""Bugs to plant: statements without their fence. Nothing of this is shipped; it shows that the checker can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from tests.acceptance.program import Orders, Program
from tidegate.clock import SYSTEM
from tidegate.jobs.gates import ClaimGates
from tidegate.jobs.producer import WakeSignal
from tidegate.jobs.threads import ThreadExecutors
from tidegate.jobs.worker import Worker, WorkerPolicy
from tidegate.process import Watchdog, on_signals
from tidegate.store.base import Store
from tidegate.store.open import core_statements
from tidegate.store.sql import Dialect, Statement


def _unfenced(statement: Statement) -> Statement:
    """A settle that asks only whether the job runs, as many queues do."""
    if statement.name != "settle":
        return statement
    given = ":fence" if ":fence" in statement.sql else "given.fence"  # SQLite returns no column of another table
    return changed(
        statement,
        (f"and tg_job.fence = {given} and state", "and state"),
        ("returning tg_job.id, tg_job.fence,", f"returning tg_job.id, {given},"),
    )


def _by_id_alone(statement: Statement) -> Statement:
    """A settle that asks nothing at all."""
    if statement.name != "settle":
        return statement
    return changed(_unfenced(statement), ("and state || '' = 'running'\nreturning", "\nreturning"))


def changed(statement: Statement, *changes: tuple[str, str]) -> Statement:
    """The statement with other words in it."""
    sql = statement.sql
    for old, new in changes:
        assert old in sql, f"the statement has changed: plant the bug anew ({old!r})"
        sql = sql.replace(old, new)
    one = statement.one and changed(statement.one, *changes)  # for a result that comes by itself
    return replace(statement, sql=sql, one=one)


PLANTS: dict[str, Callable[[Statement], Statement]] = {"unfenced": _unfenced, "by-id-alone": _by_id_alone}


def work_with(plant: str, program: Program, orders: Orders) -> None:
    policy = WorkerPolicy(concurrency=orders.concurrency, **orders.numbers)
    worker = Worker(
        planted_store(orders.url, PLANTS[plant]),
        {job.kind.name: job.kind for job in program.kinds},
        ClaimGates({}, lambda: 0.5),
        clock=SYSTEM,
        executors=ThreadExecutors(orders.concurrency),
        wake=WakeSignal(),
        policy=policy,
        queues=frozenset({"chaos"}),
        store_id="planted",
    )

    async def main() -> None:
        stop = asyncio.Event()
        with on_signals(stop, Watchdog(policy.longest_stop)):
            await worker.run(stop)

    asyncio.run(main())


def planted_store(url: str, change: Callable[[Statement], Statement]) -> Store:
    if url.startswith("sqlite"):
        from tidegate.store.sqlite import SqliteStore

        statements = [change(each) for each in core_statements(Dialect.SQLITE)]
        return SqliteStore(url.removeprefix("sqlite:///"), statements, SYSTEM.now)
    from tidegate.store.postgres import PostgresStore

    return PostgresStore(url, [change(each) for each in core_statements(Dialect.POSTGRES)])
