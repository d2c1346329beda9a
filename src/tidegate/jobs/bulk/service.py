"""Bulk actions: preview, start, run in batches and cancel.

The caller runs the batches, or the server does. If that process ends, the server or a worker continues.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tidegate import audit
from tidegate.audit import Actor, AuditSubject
from tidegate.errors import NotFound, Rejected, UniqueTaken
from tidegate.jobs import actions, listing
from tidegate.jobs.bulk import table
from tidegate.jobs.bulk.table import BulkItem, BulkOperation
from tidegate.jobs.listing import Count, Filter
from tidegate.store import base
from tidegate.store.base import Progress, ResultPage, Store, Tx, unheard

MAX_AT_ONCE = 100_000
MAX_LEFT = 1000  # ids of unchanged jobs in an outcome
_PAGE_SIZE = 5000


@dataclass(frozen=True, slots=True)
class BulkActionRule:
    """The states in which an action is allowed, and those it applies to by default."""

    states: tuple[str, ...]
    usual: tuple[str, ...]
    only: str  # the error message for other states
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """The outcome of a bulk action. *left*: jobs that were not changed, for example because of a duplicate.

    *bulk*: the id of the bulk action; None when nothing matched. *state*: "running" when another process continues it.
    """

    matched: int
    changed: int = 0
    left: tuple[int, ...] = ()  # up to `MAX_LEFT`
    bulk: int | None = field(default=None, compare=False)
    state: str = field(default=table.DONE, compare=False)

    @property
    def refused(self) -> int:
        return self.matched - self.changed

    def as_json(self) -> dict[str, object]:
        return {"id": self.bulk, "matched": self.matched, "changed": self.changed, "left": list(self.left)}


class OtherNumber(Rejected):
    """The number of matching jobs is not the expected one, or too large. Nothing was changed."""

    def __init__(self, message: str, matched: int, expected: int) -> None:
        super().__init__(message)
        self.matched, self.expected = matched, expected


ACTIONS: Mapping[str, BulkActionRule] = {
    "retry": BulkActionRule(("failed", "cancelled"), ("failed",), "only failed or cancelled jobs can be retried"),
    "cancel": BulkActionRule(
        ("queued", "blocked", "waiting", "ready", "running"),
        ("queued", "running"),
        "only queued or running jobs can be cancelled",
        newest_first=True,  # children before parents: cancelling a parent fails its children
    ),
    "forget": BulkActionRule(
        ("done", "failed", "cancelled"),
        ("done", "failed", "cancelled"),
        "only jobs that have ended can be forgotten",
    ),
}


def preview(tx: Tx, action: str, job_filter: Filter) -> Count:
    """How many jobs the action would change; *capped* above the maximum of one bulk action."""
    ids = matching(tx, action, job_filter)
    return Count(min(len(ids), MAX_AT_ONCE), capped=len(ids) > MAX_AT_ONCE)


def matching(tx: Tx, action: str, job_filter: Filter, limit: int = MAX_AT_ONCE) -> list[int]:
    """The ids of matching jobs that allow the action, oldest first; only slightly more than *limit*."""
    ids: list[int] = []
    for state in _states(action, job_filter):
        cursor: str | None = None
        while len(ids) <= limit:
            page = listing.jobs(tx, replace(job_filter, state=state), cursor=cursor, limit=_PAGE_SIZE)
            ids += [id_ for id_, able in actions.of_jobs(tx, (job.id for job in page.items)).items() if action in able]
            if (cursor := page.next) is None:
                break
    return sorted(ids)


def _states(action: str, job_filter: Filter) -> tuple[str, ...]:
    if action not in ACTIONS:
        raise ValueError(f"action: {action!r} is not allowed; give one of: {', '.join(ACTIONS)}")
    about = ACTIONS[action]
    if job_filter.state and job_filter.state not in about.states:
        raise ValueError(f"state: {job_filter.state!r} is not allowed here; {about.only}")
    return (job_filter.state,) if job_filter.state else about.usual


# -- running ---------------------------------------------------------------------------------------------------------


def holder() -> str:
    """A unique name for a process that runs batches."""
    return f"bulk-{secrets.token_hex(6)}"


def begin(
    store: Store,
    action: str,
    job_filter: Filter,
    by: str,
    *,
    expected: int,
    held_by: str = "",
    limit: int = MAX_AT_ONCE,
) -> BulkOperation | None:
    """Stores a bulk action if the number of matches equals *expected*. Raises OtherNumber if not.

    Returns None when nothing matches and nothing is expected. *held_by*: the process that runs it; the first to claim
    it if empty.
    """
    ids = store.read(lambda tx: matching(tx, action, job_filter, limit))
    if len(ids) > limit:
        raise OtherNumber(f"more than {limit:,} jobs match; narrow it down", limit, expected)
    if len(ids) != expected:
        said = f"{len(ids)} match, not {expected}; look again before you {action}"
        raise OtherNumber(said, len(ids), expected)
    if not ids:
        return None
    if ACTIONS[action].newest_first:
        ids.reverse()

    def put(tx: Tx) -> BulkOperation:
        id_ = table.new(tx, action, job_filter.as_json(), Actor.of(by), ids)
        about = {"action": action, "jobs": len(ids), "filter": job_filter.as_json()}
        audit.append_entry(tx, by, "bulk_started", AuditSubject(subject="bulk", name=str(id_)), became=about)
        if held_by:
            table.leads(tx, id_, held_by)
        return require(tx, id_)

    return store.write(put)


def step(store: Store, id_: int, held_by: str) -> BulkOperation | None:
    """Runs the next batch. Returns None when another process runs it, or it does not exist."""
    try:
        return store.write(lambda tx: table.run_batch(tx, id_, held_by))
    except UniqueTaken:
        return store.write(lambda tx: table.run_singly(tx, id_, held_by))


def run(
    store: Store,
    action: str,
    job_filter: Filter,
    by: str,
    *,
    expected: int,
    progress: Progress = unheard,
    limit: int = MAX_AT_ONCE,
) -> BulkOutcome:
    """Runs a bulk action to its end if the number of matches equals *expected*. Raises OtherNumber if not.

    *progress* is called after each batch. An exception from it cancels the remaining batches.
    """
    me = holder()
    one = begin(store, action, job_filter, by, expected=expected, held_by=me, limit=limit)
    if one is None:
        return BulkOutcome(0)
    id_, heard = one.id, 0
    try:
        while one is not None and one.running:
            one = step(store, id_, me)
            if one is not None and one.done > heard:
                heard = one.done
                progress(one.done, one.expected)
    except BaseException:
        store.write(lambda tx: table.end(tx, id_, table.CANCELLED, "it was interrupted", by))
        raise
    finally:
        store.write(lambda tx: table.release_lead(tx, id_, me))
    return store.read(lambda tx: outcome(tx, require(tx, id_)))


def outcome(tx: Tx, one: BulkOperation) -> BulkOutcome:
    """The outcome so far. Jobs that a cancelled action did not reach do not count as matched."""
    left = [item.job for item in table.items(tx, one.id, refused_only=True, limit=MAX_LEFT)]
    return BulkOutcome(one.done, one.changed, tuple(sorted(left)), one.id, one.state)


def cancel(tx: Tx, id_: int, by: str) -> BulkOperation:
    """Cancels the remaining batches. Raises Rejected when the bulk action has ended."""
    one = table.lock_operation(tx, id_)
    if one is None:
        raise NotFound(_missing(id_))
    if not one.running:
        raise Rejected(f"bulk action {id_} has ended: it is {one.state}")
    left = one.expected - one.done
    table.end(tx, id_, table.CANCELLED, f"{left:,} jobs stayed as they were", str(by))
    was = {"state": one.state, "done": one.done}
    audit.append_entry(
        tx, by, "bulk_cancelled", AuditSubject(subject="bulk", name=str(id_)), was=was, became={"left": left}
    )
    return require(tx, id_)


# -- reading ---------------------------------------------------------------------------------------------------------


def require(tx: Tx, id_: int) -> BulkOperation:
    operation = table.get(tx, id_)
    if operation is None:
        raise NotFound(_missing(id_))
    return operation


def list_operations(tx: Tx, *, cursor: str | None = None, limit: int = 50) -> ResultPage[BulkOperation]:
    """Bulk actions, newest first."""
    operations = table.list_operations(tx, limit + 1, base.read_cursor(cursor, "b"))
    return ResultPage(
        operations[:limit], base.write_cursor("b", operations[limit - 1].id) if len(operations) > limit else None
    )


def items(
    tx: Tx, id_: int, *, refused_only: bool = False, cursor: str | None = None, limit: int = 100
) -> ResultPage[BulkItem]:
    """The outcomes of its jobs, in the order of execution. Their number is limited."""
    require(tx, id_)
    after = base.read_cursor(cursor, "i", -1)
    rows = table.items(tx, id_, refused_only=refused_only, after=after, limit=limit + 1)
    return ResultPage(rows[:limit], base.write_cursor("i", rows[limit - 1].at) if len(rows) > limit else None)


def _missing(id_: int) -> str:
    return f"there is no bulk action {id_}; they are kept for 30 days after they have ended"
