"""Rows of bulk actions, and their work batch by batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.audit import Actor
from tidegate.faults.redaction import redact
from tidegate.jobs import actions
from tidegate.jobs.actions import LockedJob
from tidegate.jobs.job import StoredState
from tidegate.store.base import Row, Tx
from tidegate.targets import table

# -- rows ------------------------------------------------------------------------------------------------------------
# The remaining jobs are stored in batches. A batch is deleted in the transaction that runs it, so no batch runs twice,
# even if the process is killed.

RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"
CHANGED, REFUSED = "changed", "refused"
BATCH_SIZE = 100
RETENTION = 30 * 86_400.0  # seconds after the end
MAX_CHANGED, MAX_REFUSED = 1000, 10_000  # stored outcomes per bulk action
LEASE = 10.0  # seconds after which another process continues


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperation:
    """A bulk action. *done* of *expected* jobs were processed."""

    id: int
    action: str
    filter: Mapping[str, object]
    actor: str
    origin: str
    reason: str
    state: str
    expected: int
    changed: int
    refused: int
    says: str
    started_at: float
    ended_at: float | None
    ended_by: str | None

    @property
    def done(self) -> int:
        return self.changed + self.refused

    @property
    def running(self) -> bool:
        return self.state == RUNNING

    def left(self, now: float) -> float:
        """The estimated remaining seconds; 0 when it has ended."""
        if not self.running:
            return 0.0
        each = (now - self.started_at) / self.done if self.done else 0.001
        return max(0.0, (self.expected - self.done) * each)


@dataclass(frozen=True, slots=True)
class BulkItem:
    """The outcome of one job, and *why* it was refused or a remark."""

    at: int
    job: int
    outcome: str
    why: str


def new(tx: Tx, action: str, wanted: Mapping[str, object], by: Actor, jobs: Sequence[int]) -> int:
    """Stores a bulk action on these jobs, in this order. Returns its id."""
    id_ = tx.scalar(
        int,
        "bulk_new",
        {
            "action": action,
            "filter": json.dumps(dict(wanted)),
            "actor": str(by),
            "origin": str(by.origin),
            "reason": redact(by.reason),
            "expected": len(jobs),
        },
    )
    tx.query_many(
        "bulk_parts_new",
        [{"at": at, "jobs": json.dumps(list(jobs[at : at + BATCH_SIZE]))} for at in range(0, len(jobs), BATCH_SIZE)],
        {"bulk": id_},
    )
    return id_


def get(tx: Tx, id_: int) -> BulkOperation | None:
    rows = tx.query("bulk", {"id": id_})
    return _bulk(rows[0]) if rows else None


def lock_operation(tx: Tx, id_: int) -> BulkOperation | None:
    """As `get`, and locks the row."""
    rows = tx.query("bulk_locked", {"id": id_})
    return _bulk(rows[0]) if rows else None


def list_operations(tx: Tx, limit: int, before: int = 2**62) -> list[BulkOperation]:
    """Bulk actions, newest first."""
    return [_bulk(row) for row in tx.query("bulks", {"before": before, "n": limit})]


def running(tx: Tx) -> dict[int, int]:
    """The running bulk actions, oldest first, and how many jobs of each are done."""
    return {int(id_): int(done) for id_, done in tx.query("bulks_running")}


def take(tx: Tx, id_: int) -> tuple[int, list[int]] | None:
    """Removes the next batch and returns its position and jobs; None when nothing is left."""
    return next(((at, json.loads(jobs)) for at, jobs in tx.query("bulk_part_take", {"bulk": id_})), None)


def put_back(tx: Tx, id_: int, at: int, jobs: Sequence[int]) -> None:
    """Stores each job of a batch as its own batch."""
    tx.query_many(
        "bulk_parts_new", [{"at": at + n, "jobs": json.dumps([job])} for n, job in enumerate(jobs)], {"bulk": id_}
    )


def note(
    tx: Tx, one: BulkOperation, at: int, jobs: Sequence[int], refused: Mapping[int, str], told: Mapping[int, str]
) -> None:
    """Stores the outcomes of a batch. *told*: remarks on changed jobs."""
    tx.query_many("bulk_items_put", list(_items(one, at, jobs, refused, told)), {"bulk": one.id})
    tx.query("bulk_far", {"id": one.id, "changed": len(jobs) - len(refused), "refused": len(refused)})


def _items(
    one: BulkOperation, at: int, jobs: Sequence[int], refused: Mapping[int, str], told: Mapping[int, str]
) -> Iterator[dict[str, object]]:
    kept = {CHANGED: one.changed, REFUSED: one.refused}
    for n, job in enumerate(jobs):
        outcome = REFUSED if job in refused else CHANGED
        kept[outcome] += 1
        if kept[outcome] <= (MAX_REFUSED if outcome == REFUSED else MAX_CHANGED):
            yield {"at": at + n, "job": job, "outcome": outcome, "why": refused.get(job) or told.get(job, "")}


def end(tx: Tx, id_: int, state: str, says: str = "", by: str | None = None) -> bool:
    """Ends a bulk action. Returns False when it had already ended."""
    ended = bool(tx.query("bulk_end", {"id": id_, "state": state, "says": says, "ended_by": by}))
    tx.query("bulk_parts_drop", {"bulk": id_})
    return ended


def items(tx: Tx, id_: int, *, refused_only: bool = False, after: int = -1, limit: int = 100) -> list[BulkItem]:
    """The stored outcomes, in the order of execution."""
    name = "bulk_items_refused" if refused_only else "bulk_items"
    return tx.query_as(BulkItem, name, {"bulk": id_, "after": after, "n": limit})


def prune(tx: Tx, before: float, limit: int) -> int:
    """Removes a batch of bulk actions that ended before then."""
    gone = tx.scalars(int, "bulks_prune", {"before": before, "n": limit})
    for id_ in gone:
        tx.query("bulk_items_drop", {"bulk": id_})
    return len(gone)


def leads(tx: Tx, id_: int, holder: str) -> bool:
    """Acquires or renews the lease on a bulk action. Returns False when another process holds it."""
    return bool(tx.query("lead", {"name": f"bulk {id_}", "holder": holder, "lease": LEASE}))


def release_lead(tx: Tx, id_: int, holder: str) -> None:
    tx.query("lead_over", {"name": f"bulk {id_}", "holder": holder})


def _bulk(row: Row) -> BulkOperation:
    id_, action, wanted, actor, origin, reason, state, expected, changed, refused, says, started, ended, by = row
    return BulkOperation(
        id=int(id_),
        action=action,
        filter=json.loads(wanted),
        actor=actor,
        origin=origin,
        reason=reason,
        state=state,
        expected=int(expected),
        changed=int(changed),
        refused=int(refused),
        says=says,
        started_at=started,
        ended_at=ended,
        ended_by=by,
    )


# -- batches ---------------------------------------------------------------------------------------------------------

DUPLICATE = "another job has taken its place"
GONE = "it is gone"
TOLD_TO_STOP = "it runs, and was told to stop"

# Returns the changed jobs with a remark on each.
Do = Callable[[Tx, Sequence[int], str], Mapping[int, str]]


def _retry(tx: Tx, ids: Sequence[int], by: str) -> Mapping[int, str]:
    return {id_: "" for id_ in ids if actions.requeue_job(tx, id_, by)}


def _cancel(tx: Tx, ids: Sequence[int], by: str) -> Mapping[int, str]:
    done = {id_: actions.cancel_job(tx, id_, by) for id_ in ids}
    return {id_: TOLD_TO_STOP if how == "asked" else "" for id_, how in done.items() if how is not None}


def _forget(tx: Tx, ids: Sequence[int], by: str) -> Mapping[int, str]:
    queues = {id_: job.queue for id_ in ids if (job := actions.get(tx, id_)) is not None}
    gone = {id_: "" for id_ in queues if actions.delete_job(tx, id_)}
    for queue, n in sorted(Counter(queues[id_] for id_ in gone).items()):
        # The jobs' history is deleted, so the event goes to their queue.
        table.append_event(tx, "queue", queue, "jobs_forgotten", by, fields={"jobs": n})
    return gone


DO: Mapping[str, Do] = {"retry": _retry, "cancel": _cancel, "forget": _forget}


def run_batch(tx: Tx, id_: int, holder: str) -> BulkOperation | None:
    """Runs the next batch. Returns None when another process runs the bulk action, or it does not exist.

    Raises UniqueTaken when one job has a duplicate. Nothing was done then; call `run_singly`.
    """
    one = _mine(tx, id_, holder)
    if one is None or not one.running:
        return one
    part = take(tx, id_)
    if part is None:
        end(tx, id_, FAILED, "the list of what was left to do is gone")
        return get(tx, id_)
    at, jobs = part
    done = DO[one.action](tx, jobs, one.actor)
    refused = {job: _why(tx, one.action, job) for job in jobs if job not in done}
    note(tx, one, at, jobs, refused, done)
    return _so_far(tx, one)


def run_singly(tx: Tx, id_: int, holder: str) -> BulkOperation | None:
    """After UniqueTaken: splits the batch into single jobs, or refuses the job of a batch of one."""
    one = _mine(tx, id_, holder)
    part = None if one is None or not one.running else take(tx, id_)
    if one is None or part is None:
        return one
    at, jobs = part
    if len(jobs) > 1:
        put_back(tx, id_, at, jobs)
        return one
    note(tx, one, at, jobs, {jobs[0]: DUPLICATE}, {})
    return _so_far(tx, one)


def _mine(tx: Tx, id_: int, holder: str) -> BulkOperation | None:
    return lock_operation(tx, id_) if leads(tx, id_, holder) else None


def _so_far(tx: Tx, one: BulkOperation) -> BulkOperation | None:
    far = get(tx, one.id)
    if far is not None and far.done >= far.expected and end(tx, far.id, DONE):
        return get(tx, far.id)
    return far


_STANDS = {
    "retry": "{}; only a failed or cancelled job can be retried",
    "cancel": "{}; there is nothing to cancel",
    "forget": "{}; only a job that has ended can be forgotten",
}


def _why(tx: Tx, action: str, id_: int) -> str:
    """Why a job was not changed, by its current state."""
    job = tx.first(LockedJob, "job_state", {"id": id_})
    if job is None:
        return GONE
    state = StoredState(job.state).state
    if action == "retry" and job.state in ("failed", "cancelled") and job.retry_forbidden:
        return "what it needs is gone; enqueue it again"
    if action == "cancel" and not state.final and not job.cancellable:
        return "jobs of its kind cannot be cancelled"
    if action == "forget" and state.final and (child := actions.needed_by(tx, id_)) is not None:
        return f"job {child} has not ended and needs its result"
    return _STANDS[action].format(f"it is {state} by now")
