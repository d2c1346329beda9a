"""One slice of what is done to many jobs, in one transaction: by the server, a worker or a command, whoever leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tidegate.core.job import StoredState
from tidegate.store import bulk_rows, gate_rows, people
from tidegate.store.bulk_rows import BulkOperation
from tidegate.store.tx import Tx

DUPLICATE = "another job has taken its place"
GONE = "it is gone"
TOLD_TO_STOP = "it runs, and was told to stop"

# Jobs that were changed, with what there is to say of each.
Do = Callable[[Tx, Sequence[int], str], Mapping[int, str]]


def _retry(tx: Tx, ids: Sequence[int], by: str) -> Mapping[int, str]:
    return {id_: "" for id_ in ids if people.requeue_job(tx, id_, by)}


def _cancel(tx: Tx, ids: Sequence[int], by: str) -> Mapping[int, str]:
    done = {id_: people.cancel_job(tx, id_, by) for id_ in ids}
    return {id_: TOLD_TO_STOP if how == "asked" else "" for id_, how in done.items() if how is not None}


def _forget(tx: Tx, ids: Sequence[int], by: str) -> Mapping[int, str]:
    queues = {id_: job.queue for id_ in ids if (job := people.get(tx, id_)) is not None}
    gone = {id_: "" for id_ in queues if people.delete_job(tx, id_)}
    for queue, n in sorted(Counter(queues[id_] for id_ in gone).items()):
        # Their own history is gone with them, so their queue's tells of it.
        gate_rows.append_event(tx, "queue", queue, "jobs_forgotten", by, fields={"jobs": n})
    return gone


DO: Mapping[str, Do] = {"retry": _retry, "cancel": _cancel, "forget": _forget}


def run_batch(tx: Tx, id_: int, holder: str) -> BulkOperation | None:
    """Does the next slice and says how far it is; None when another is at it, or there is no such bulk action.

    UniqueTaken when the place of one of them is taken: nothing was done then, and `split` must come first.
    """
    one = _mine(tx, id_, holder)
    if one is None or not one.running:
        return one
    part = bulk_rows.take(tx, id_)
    if part is None:
        bulk_rows.end(tx, id_, bulk_rows.FAILED, "the list of what was left to do is gone")
        return bulk_rows.get(tx, id_)
    at, jobs = part
    done = DO[one.action](tx, jobs, one.actor)
    refused = {job: _why(tx, one.action, job) for job in jobs if job not in done}
    bulk_rows.note(tx, one, at, jobs, refused, done)
    return _so_far(tx, one)


def run_singly(tx: Tx, id_: int, holder: str) -> BulkOperation | None:
    """After UniqueTaken: each job of the slice alone, so that the others go; one that is alone is refused."""
    one = _mine(tx, id_, holder)
    part = None if one is None or not one.running else bulk_rows.take(tx, id_)
    if one is None or part is None:
        return one
    at, jobs = part
    if len(jobs) > 1:
        bulk_rows.put_back(tx, id_, at, jobs)
        return one
    bulk_rows.note(tx, one, at, jobs, {jobs[0]: DUPLICATE}, {})
    return _so_far(tx, one)


def _mine(tx: Tx, id_: int, holder: str) -> BulkOperation | None:
    return bulk_rows.lock_operation(tx, id_) if bulk_rows.leads(tx, id_, holder) else None


def _so_far(tx: Tx, one: BulkOperation) -> BulkOperation | None:
    far = bulk_rows.get(tx, one.id)
    if far is not None and far.done >= far.expected and bulk_rows.end(tx, far.id, bulk_rows.DONE):
        return bulk_rows.get(tx, far.id)
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
    if action == "forget" and state.final and (child := people.needed_by(tx, id_)) is not None:
        return f"job {child} has not ended and needs its result"
    return _STANDS[action].format(f"it is {state} by now")
