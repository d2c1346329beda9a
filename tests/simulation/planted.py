"""Bugs to plant in the statements of every machine, each with a seed whose run shows it. Nothing of this is shipped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.store.dialect import Statement

Change = Callable[[Statement], Statement]


def changed(name: str, *changes: tuple[str, str]) -> Change:
    """The statement *name* with other words in it."""

    def apply(statement: Statement) -> Statement:
        if statement.name != name:
            return statement
        sql = statement.sql
        for old, new in changes:
            assert old in sql, f"{name} has changed: plant the bug anew ({old!r})"
            sql = sql.replace(old, new)
        return replace(statement, sql=sql)

    return apply


# The bug; the statement that has it, whether it shows in calm weather, and a seed that shows it.
PLANTED: dict[str, tuple[Change, bool, int]] = {
    "a result counts whatever its lease": (
        changed(
            "settle",
            ("and tg_job.fence = :fence", ""),
            ("returning tg_job.id, tg_job.fence", "returning tg_job.id, :fence"),
        ),
        False,
        2,
    ),
    "a result is not kept": (changed("settle", ("result = :result", "result = null")), True, 1),
    "a claim takes no new fence": (changed("claim", ("fence = fence + 1", "fence = max(fence, 1)")), True, 1),
    "a claim counts no attempt": (changed("claim", ("attempt = attempt + 1", "attempt = max(attempt, 1)")), True, 1),
    "a lease is not renewed": (changed("renew", ("lease_until = :now + :lease", "lease_until = lease_until")), True, 1),
    "a lease that goes on is taken away": (
        lambda each: changed("take_back", (" and lease_until < :now", ""))(
            changed("lost_leases", ("lease_until < :now", "claimed_at < :now - 10"))(each)
        ),
        True,
        1,
    ),
    "what was lost is never found": (changed("lost_leases", ("lease_until < :now", "lease_until < 0")), False, 1),
    "a wait is not waited": (changed("promote", ("due_at <= :now", "due_at > 0")), True, 1),
    "a child is never free": (changed("free_children", ("parents_open > n", "parents_open > 0")), True, 1),
    "a number is kept twice": (changed("tally", (":delta)", ":delta * 2)")), True, 1),
    "a pause is forgotten": (
        changed("target_pause", (":name, :now, :now, :until", ":name, :now, :now, :now")),
        True,
        1,
    ),
    "a cancelled job goes on": (
        changed("cancel_waiting", ("state = 'cancelled', parents_open = 0, finished_at = :now", "priority = 0")),
        True,
        1,
    ),
    "nobody counts who is at work": (changed("running_of", ("select count(*)", "select 0")), True, 1),
    "a breaker opens for nobody": (changed("target_moved", ("where name", "where 1 = 0 and name")), True, 1),
}
