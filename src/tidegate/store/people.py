"""What people ask of jobs and do to them."""

from __future__ import annotations

from collections import Counter

from tidegate.core.job import Job, JobEvent, Stage
from tidegate.store import tallies
from tidegate.store.settling import PARENT_FAILED, end_children
from tidegate.store.tx import Tx


def get(tx: Tx, id_: int) -> Job | None:
    rows = tx.all("job", {"id": id_})
    return Job(*rows[0]) if rows else None


def events(tx: Tx, id_: int) -> list[JobEvent]:
    """The history of a job, oldest first: each attempt is two events, its start and its end."""
    job = get(tx, id_)
    if job is None:
        return []
    found = [JobEvent("queued", job.created_at, 0, 0)]
    for kind, at, attempt, fence, began, code, status, message, actor in tx.all("events", {"job": id_}):
        if began is not None:
            found.append(JobEvent("processing", began, attempt, fence, actor=actor))
        duration = None if began is None else max(0.0, at - began)
        found.append(JobEvent(kind, at, attempt, fence, code, status, message, actor, duration))
    if job.claimed_at is not None:
        found.append(JobEvent("processing", job.claimed_at, job.attempt, job.fence, actor=job.lease_by))
    return found


def retry(tx: Tx, id_: int, actor: str) -> bool:
    """A failed or cancelled job queued again, with the children that failed because of it; False when it is neither.

    UniqueTaken when a twin has taken its place.
    """
    before = get(tx, id_)
    rows = tx.all("retry", {"id": id_})
    if not rows or before is None:
        return False
    queue, stage, children = rows[0]
    tx.all("action_event", {"id": id_, "kind": "retried", "code": None, "message": None, "actor": actor})
    tallies.add(tx, Counter({(queue, stage): 1, (queue, before.stage): -1}))
    tallies.retried(tx, queue)
    if children:
        _revive_children(tx, id_, actor)
    return True


def cancel(tx: Tx, id_: int, actor: str) -> str | None:
    """'cancelled' when it was queued, 'asked' when it runs and was told to stop, None when it is final or unknown."""
    before = get(tx, id_)
    rows = tx.all("cancel_waiting", {"id": id_})
    if rows and before is not None:
        queue, children = rows[0]
        tx.all("action_event", {"id": id_, "kind": "cancelled", "code": None, "message": None, "actor": actor})
        tallies.add(tx, Counter({(queue, "cancelled"): 1, (queue, before.stage): -1}))
        if children:
            end_children(tx, id_, Stage.CANCELLED)
        return "cancelled"
    if tx.all("cancel_running", {"id": id_}):
        tx.all("action_event", {"id": id_, "kind": "cancel_asked", "code": None, "message": None, "actor": actor})
        return "asked"
    return None


def forget(tx: Tx, id_: int) -> bool:
    """Removes a final job with its history, and frees its unique; False when it is not final."""
    rows = tx.all("forget", {"id": id_})
    if not rows:
        return False
    tx.all("forget_events", {"id": id_})
    tx.all("forget_links", {"id": id_})
    tallies.add(tx, Counter({(rows[0][0], rows[0][1]): -1}))
    return True


def prune(tx: Tx, queue: str, stage: Stage, before: float, most: int) -> int:
    """Removes a slice of old final jobs; returns how many, so that the caller knows if there may be more."""
    old = [row[0] for row in tx.all("old_jobs", {"queue": queue, "state": str(stage), "before": before, "n": most})]
    return sum(forget(tx, id_) for id_ in old)


def _revive_children(tx: Tx, parent: int, actor: str) -> None:
    waiting = [parent]
    while waiting:
        rows = tx.all("revive_children", {"parent": waiting.pop(), "code": PARENT_FAILED})
        for child, queue, children in rows:
            tx.all("action_event", {"id": child, "kind": "retried", "code": None, "message": None, "actor": actor})
            tallies.add(tx, Counter({(queue, "blocked"): 1, (queue, "failed"): -1}))
            if children:
                waiting.append(child)
