"""What people ask of jobs and do to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidegate.core.job import Job, JobEvent, StoredState
from tidegate.store import tallies
from tidegate.store.settling import PARENT_FAILED, end_children, fail_children
from tidegate.store.tx import Tx


def get(tx: Tx, id_: int) -> Job | None:
    rows = tx.query("job", {"id": id_})
    return Job(*rows[0]) if rows else None


def events(tx: Tx, id_: int) -> list[JobEvent]:
    """The history of a job, oldest first: each attempt is two events, its start and its end."""
    job = get(tx, id_)
    if job is None:
        return []
    found = [JobEvent("queued", job.created_at, 0, 0)]
    for kind, at, attempt, fence, began, code, status, message, actor in tx.query("events", {"job": id_}):
        if kind == "refused":
            found.clear()  # it never was in the queue
        if began is not None:
            found.append(JobEvent("processing", began, attempt, fence, actor=actor))
        duration = None if began is None else max(0.0, at - began)
        found.append(JobEvent(kind, at, attempt, fence, code, status, message, actor, duration))
    if job.claimed_at is not None:
        found.append(JobEvent("processing", job.claimed_at, job.attempt, job.fence, actor=job.lease_by))
    # What happened while an attempt ran, or after others had begun, is kept beside that attempt.
    return sorted(found, key=lambda event: (event.at, event.fence, event.kind != "processing"))


def requeue_job(tx: Tx, id_: int, actor: str) -> bool:
    """A failed or cancelled job queued again, with the children that failed because of it; False when it is neither.

    Also False when it was refused at intake, or barred: what it would need was not kept, or is gone.

    It waits for its parents as it did at first, also for one that has failed: that one must be retried, too.
    UniqueTaken when a twin has taken its place.
    """
    parents = tx.query("parents_of", {"child": id_})  # before the job itself: whoever locks several goes by their ids
    rows = tx.query("job_state", {"id": id_})
    if not rows or rows[0][1] not in ("failed", "cancelled"):
        return False
    queue, before, children, _, barred = rows[0]
    if barred:
        return False
    waits_for = sum(state != "done" for _, state in parents)
    stage = tx.query("retry", {"id": id_, "parents_open": waits_for})[0][0]
    tx.query("forget_lost_leases", {"job": id_})
    _note(tx, [id_], "retried", actor)
    tallies.count_moves(tx, {(queue, before, stage): 1})
    tallies.count_retries(tx, queue)
    if children:
        _revive_children(tx, id_, actor)
    return True


def cancel_job(tx: Tx, id_: int, actor: str) -> str | None:
    """'cancelled' when it was queued, 'asked' when it runs and was told to stop.

    None when it is final or unknown, or of a kind that cannot be cancelled.
    """
    rows = tx.query("job_state", {"id": id_})
    if not rows or StoredState(rows[0][1]).state.final:
        return None
    queue, before, children, cancellable, _ = rows[0]
    if not cancellable:
        return None
    if before == "running":
        tx.query("cancel_running", {"id": id_})
        _note(tx, [id_], "cancel_asked", actor)
        return "asked"
    tx.query("cancel_waiting", {"id": id_})
    _note(tx, [id_], "cancelled", actor)
    tallies.count_moves(tx, {(queue, before, "cancelled"): 1})
    if children:
        end_children(tx, {id_: StoredState.CANCELLED})
    return "cancelled"


def run_now(tx: Tx, id_: int, actor: str) -> bool:
    """A job whose time has not come may go now; False when it does not wait for its time."""
    rows = tx.query("bring_forward", {"id": id_})
    if rows:
        _note(tx, [id_], "brought_forward", actor)
        tallies.count_moves(tx, {(rows[0][0], "waiting", "ready"): 1})
    return bool(rows)


def delete_job(tx: Tx, id_: int) -> bool:
    """Removes a final job with its history, and frees its unique.

    False when it is not final, or an unfinished job needs its result.
    """
    return bool(_remove(tx, [id_], pruned=False))


def needed_by(tx: Tx, id_: int) -> int | None:
    """A job that has not ended and depends on this one; None when there is none."""
    rows = tx.query("unfinished_children", {"id": id_})
    return int(rows[0][0]) if rows else None


def release_unique(tx: Tx, id_: int) -> bool:
    """Frees the unique of a final job, which stays; False when it is not final, or holds none."""
    return bool(tx.query("free_unique", {"id": id_}))


def forbid_retry(tx: Tx, id_: int, actor: str) -> bool:
    """Keeps a final job from being retried by anybody; False when it is not final, or barred already."""
    rows = tx.query("job_state", {"id": id_})
    if not rows or not StoredState(rows[0][1]).state.final or rows[0][4]:
        return False
    _note(tx, [id_], "barred", actor)
    return True


def prune(tx: Tx, queue: str, stage: StoredState, before: float, limit: int) -> int:
    """Removes a slice of old final jobs; returns how many, so that the caller knows if there may be more.

    A job that an unfinished job depends on stays.
    """
    old = tx.query("old_jobs", {"queue": queue, "state": str(stage), "before": before, "n": limit})
    return _remove(tx, [row[0] for row in old], pruned=True)


def _remove(tx: Tx, ids: Iterable[int], *, pruned: bool) -> int:
    given = [{"id": id_} for id_ in sorted(ids)]
    tx.query_many("forget_lock", given)
    rows = tx.query_many("forget", given, {"pruned": int(pruned)})
    if not rows:
        return 0
    tx.query("forgotten", {"id": str(max(row[0] for row in rows))})
    # A child that a person has queued again waits for a parent that can no longer be retried.
    orphaning = [id_ for id_, _, state, children in rows if children and state != "done"]
    fail_children(tx, {id_: f"Job {id_}, which it waits for, was forgotten." for id_ in orphaning})
    gone = [{"id": row[0]} for row in rows]
    for name in ("forget_events", "forget_children", "forget_parents"):
        tx.query_many(name, gone)
    tallies.add(tx, Counter({key: -n for key, n in Counter((queue, state) for _, queue, state, _ in rows).items()}))
    return len(rows)


def _revive_children(tx: Tx, parent: int, actor: str) -> None:
    waiting = [parent]
    while waiting:
        given = [{"parent": id_} for id_ in waiting]
        tx.query_many("siblings", given)
        rows = tx.query_many("revive_children", given, {"code": PARENT_FAILED})
        _note(tx, [row[0] for row in rows], "retried", actor)
        tallies.count_moves(tx, Counter((queue, "failed", "blocked") for _, queue, _ in rows))
        waiting = sorted(child for child, _, children in rows if children)


def _note(tx: Tx, ids: Iterable[int], kind: str, actor: str) -> None:
    tx.query_many("action_events", [
        {"id": id_, "kind": kind, "code": None, "message": None, "actor": actor} for id_ in ids
    ])  # fmt: skip
