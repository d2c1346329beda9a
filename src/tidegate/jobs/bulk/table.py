"""Rows of bulk actions, and their work batch by batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.audit import Actor
from tidegate.faults.redaction import redact
from tidegate.jobs import actions
from tidegate.jobs.job import StoredState
from tidegate.store.base import Row, Tx
from tidegate.targets import table

# The same thing done to many jobs, as rows: what was asked for, what is still to be done, what became of each job.
#
# What is to be done is kept in slices. A slice is removed in the transaction that does it, so a kill at any moment
# leaves it done or not done, and whoever goes on does none twice.

RUNNING, DONE, CANCELLED, FAILED = "running", "done", "cancelled", "failed"
CHANGED, REFUSED = "changed", "refused"
BATCH_SIZE = 100
RETENTION = 30 * 86_400.0  # seconds after it has ended
MAX_CHANGED, MAX_REFUSED = 1000, 10_000  # jobs of one of them whose outcome is kept
LEASE = 10.0  # seconds after which somebody else goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperation:
    """One of them; *done* of *expected* jobs were looked at."""

    id: int
    action: str
    filter: Mapping[str, Any]
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
        """Seconds that it still takes, as it went so far; 0 when it has ended."""
        if not self.running:
            return 0.0
        each = (now - self.started_at) / self.done if self.done else 0.001
        return max(0.0, (self.expected - self.done) * each)


@dataclass(frozen=True, slots=True)
class BulkItem:
    """What became of one job; *why* it was refused, or what else there is to say of it."""

    at: int
    job: int
    outcome: str
    why: str


def new(tx: Tx, action: str, wanted: Mapping[str, Any], by: Actor, jobs: Sequence[int]) -> int:
    """Writes down what is to be done to which jobs, in that order; returns its id."""
    id_ = int(
        tx.query(
            "bulk_new",
            {
                "action": action,
                "filter": json.dumps(dict(wanted)),
                "actor": str(by),
                "origin": str(by.origin),
                "reason": redact(by.reason),
                "expected": len(jobs),
            },
        )[0][0]
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
    """As `get`, kept still until the end."""
    rows = tx.query("bulk_locked", {"id": id_})
    return _bulk(rows[0]) if rows else None


def list_operations(tx: Tx, limit: int, before: int = 2**62) -> list[BulkOperation]:
    """The newest first."""
    return [_bulk(row) for row in tx.query("bulks", {"before": before, "n": limit})]


def running(tx: Tx) -> dict[int, int]:
    """Those that are under way, the oldest first, and how many jobs of each are done."""
    return {int(id_): int(done) for id_, done in tx.query("bulks_running")}


def take(tx: Tx, id_: int) -> tuple[int, list[int]] | None:
    """The next slice, with its place; None when nothing is left."""
    rows = tx.query("bulk_part_take", {"bulk": id_})
    return (int(rows[0][0]), json.loads(rows[0][1])) if rows else None


def put_back(tx: Tx, id_: int, at: int, jobs: Sequence[int]) -> None:
    """Each job of a slice as a slice of its own."""
    tx.query_many(
        "bulk_parts_new", [{"at": at + n, "jobs": json.dumps([job])} for n, job in enumerate(jobs)], {"bulk": id_}
    )


def note(
    tx: Tx, one: BulkOperation, at: int, jobs: Sequence[int], refused: Mapping[int, str], told: Mapping[int, str]
) -> None:
    """What became of a slice. *told*: what there is to say of jobs that were changed."""
    tx.query_many("bulk_items_put", list(_items(one, at, jobs, refused, told)), {"bulk": one.id})
    tx.query("bulk_far", {"id": one.id, "changed": len(jobs) - len(refused), "refused": len(refused)})


def _items(
    one: BulkOperation, at: int, jobs: Sequence[int], refused: Mapping[int, str], told: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    kept = {CHANGED: one.changed, REFUSED: one.refused}
    for n, job in enumerate(jobs):
        outcome = REFUSED if job in refused else CHANGED
        kept[outcome] += 1
        if kept[outcome] <= (MAX_REFUSED if outcome == REFUSED else MAX_CHANGED):
            yield {"at": at + n, "job": job, "outcome": outcome, "why": refused.get(job) or told.get(job, "")}


def end(tx: Tx, id_: int, state: str, says: str = "", by: str | None = None) -> bool:
    """Nothing more of it is done; False when it has ended already."""
    ended = bool(tx.query("bulk_end", {"id": id_, "state": state, "says": says, "ended_by": by}))
    tx.query("bulk_parts_drop", {"bulk": id_})
    return ended


def items(tx: Tx, id_: int, *, refused_only: bool = False, after: int = -1, limit: int = 100) -> list[BulkItem]:
    """In the order in which they were done."""
    name = "bulk_items_refused" if refused_only else "bulk_items"
    return [BulkItem(*row) for row in tx.query(name, {"bulk": id_, "after": after, "n": limit})]


def prune(tx: Tx, before: float, limit: int) -> int:
    """Removes a slice of those that ended before then."""
    gone = [int(row[0]) for row in tx.query("bulks_prune", {"before": before, "n": limit})]
    for id_ in gone:
        tx.query("bulk_items_drop", {"bulk": id_})
    return len(gone)


def leads(tx: Tx, id_: int, holder: str) -> bool:
    """Whether *holder* is the one who works on it; it stays so for a while."""
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


# One slice of what is done to many jobs, in one transaction: by the server, a worker or a command, whoever leads.

DUPLICATE = "another job has taken its place"
GONE = "it is gone"
TOLD_TO_STOP = "it runs, and was told to stop"

# Jobs that were changed, with what there is to say of each.
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
        # Their own history is gone with them, so their queue's tells of it.
        table.append_event(tx, "queue", queue, "jobs_forgotten", by, fields={"jobs": n})
    return gone


DO: Mapping[str, Do] = {"retry": _retry, "cancel": _cancel, "forget": _forget}


def run_batch(tx: Tx, id_: int, holder: str) -> BulkOperation | None:
    """Does the next slice and says how far it is; None when another is at it, or there is no such bulk action.

    UniqueTaken when the place of one of them is taken: nothing was done then, and `split` must come first.
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
    """After UniqueTaken: each job of the slice alone, so that the others go; one that is alone is refused."""
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
    """Why it was not changed, as it stands now."""
    rows = tx.query("job_state", {"id": id_})
    if not rows:
        return GONE
    _, stage, _, cancellable, barred = rows[0]
    state = StoredState(stage).state
    if action == "retry" and stage in ("failed", "cancelled") and barred:
        return "what it would need is gone; put it in anew"
    if action == "cancel" and not state.final and not cancellable:
        return "jobs of its kind cannot be cancelled"
    if action == "forget" and state.final and (child := actions.needed_by(tx, id_)) is not None:
        return f"job {child} has not ended and needs its result"
    return _STANDS[action].format(f"it is {state} by now")
