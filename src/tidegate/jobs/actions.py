"""Actions of operators on jobs and queues: retry, cancel, forget, pause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tidegate import audit
from tidegate.audit import Actor, AuditSubject
from tidegate.durations import Until, ahead
from tidegate.errors import NotFound, Rejected
from tidegate.jobs import settle
from tidegate.jobs.job import Job, JobEvent, StoredState
from tidegate.jobs.settle import PARENT_FAILED, end_children, fail_children
from tidegate.store.base import Tx, now_of
from tidegate.targets import table
from tidegate.targets.actions import meant_name, pause_detail, record_action


def get(tx: Tx, id_: int) -> Job | None:
    rows = tx.query("job", {"id": id_})
    return Job(*rows[0]) if rows else None


def events(tx: Tx, id_: int) -> list[JobEvent]:
    """The history of a job, oldest first: each attempt is two events, its start and its end."""
    job = get(tx, id_)
    if job is None:
        return []
    history = [JobEvent("queued", job.created_at, 0, 0)]
    for kind, at, attempt, fence, began, code, status, message, actor in tx.query("events", {"job": id_}):
        if kind == "refused":
            history.clear()  # it never was in the queue
        if began is not None:
            history.append(JobEvent("processing", began, attempt, fence, actor=actor))
        duration = None if began is None else max(0.0, at - began)
        history.append(JobEvent(kind, at, attempt, fence, code, status, message, actor, duration))
    if job.claimed_at is not None:
        history.append(JobEvent("processing", job.claimed_at, job.attempt, job.fence, actor=job.lease_by))
    # Events are stored by attempt. Sorting puts those that overlap with other attempts in order.
    return sorted(history, key=lambda event: (event.at, event.fence, event.kind != "processing"))


class LockedJob(NamedTuple):
    """The columns of a job that decide which actions are possible."""

    queue: str
    state: str
    children: int
    cancellable: int
    retry_forbidden: int

    @property
    def final(self) -> bool:
        return StoredState(self.state).state.final


def requeue_job(tx: Tx, id_: int, actor: str) -> bool:
    """Queues a failed or cancelled job again, with the children that failed because of it.

    The job waits for its parents again, also for one that has failed, which must be retried, too. Returns False in any
    other state, and when a retry is forbidden. Raises UniqueTaken when a duplicate holds its unique key.
    """
    parents = tx.query("parents_of", {"child": id_})  # lock in id order: parents before the job
    job = tx.first(LockedJob, "job_state", {"id": id_})
    if job is None or job.state not in ("failed", "cancelled") or job.retry_forbidden:
        return False
    waits_for = sum(state != "done" for _, state in parents)
    stage = tx.scalar(str, "retry", {"id": id_, "parents_open": waits_for})
    tx.query("forget_lost_leases", {"job": id_})
    _note(tx, [id_], "retried", actor)
    settle.count_moves(tx, {(job.queue, job.state, stage): 1})
    settle.count_retries(tx, job.queue)
    if job.children:
        _revive_children(tx, id_, actor)
    return True


def cancel_job(tx: Tx, id_: int, actor: str) -> str | None:
    """Cancels a job. Returns 'cancelled' if it was queued, 'asked' if it runs and its handler must stop first.

    Returns None when it is final, unknown or not cancellable.
    """
    job = tx.first(LockedJob, "job_state", {"id": id_})
    if job is None or job.final or not job.cancellable:
        return None
    if job.state == "running":
        tx.query("cancel_running", {"id": id_})
        _note(tx, [id_], "cancel_asked", actor)
        return "asked"
    tx.query("cancel_waiting", {"id": id_})
    _note(tx, [id_], "cancelled", actor)
    settle.count_moves(tx, {(job.queue, job.state, "cancelled"): 1})
    if job.children:
        end_children(tx, {id_: StoredState.CANCELLED})
    return "cancelled"


def run_now(tx: Tx, id_: int, actor: str) -> bool:
    """Makes a scheduled job ready now. Returns False when it does not wait for a time."""
    queue = tx.scalar_or_none(str, "bring_forward", {"id": id_})
    if queue is None:
        return False
    _note(tx, [id_], "brought_forward", actor)
    settle.count_moves(tx, {(queue, "waiting", "ready"): 1})
    return True


def delete_job(tx: Tx, id_: int) -> bool:
    """Removes a final job with its history, and releases its unique key.

    Returns False when it is not final, or an unfinished child needs its result.
    """
    return bool(_remove(tx, [id_], pruned=False))


def needed_by(tx: Tx, id_: int) -> int | None:
    """An unfinished child of this job; None when there is none."""
    return tx.scalar_or_none(int, "unfinished_children", {"id": id_})


def release_unique(tx: Tx, id_: int) -> bool:
    """Releases the unique key of a final job. Returns False when it is not final, or holds none."""
    return bool(tx.query("free_unique", {"id": id_}))


def forbid_retry(tx: Tx, id_: int, actor: str) -> bool:
    """Forbids retries of a final job. Returns False when it is not final, or retries are already forbidden."""
    job = tx.first(LockedJob, "job_state", {"id": id_})
    if job is None or not job.final or job.retry_forbidden:
        return False
    _note(tx, [id_], "barred", actor)
    return True


def prune(tx: Tx, queue: str, stage: StoredState, before: float, limit: int) -> int:
    """Removes a batch of old final jobs. Returns how many, so that the caller knows if there may be more.

    A job with an unfinished child stays.
    """
    old = tx.scalars(int, "old_jobs", {"queue": queue, "state": str(stage), "before": before, "n": limit})
    return _remove(tx, old, pruned=True)


def _remove(tx: Tx, ids: Iterable[int], *, pruned: bool) -> int:
    given = [{"id": id_} for id_ in sorted(ids)]
    tx.query_many("forget_lock", given)
    rows = tx.query_many("forget", given, {"pruned": int(pruned)})
    if not rows:
        return 0
    gone = [id_ for id_, _, _, _ in rows]
    tx.query("forgotten", {"id": str(max(gone))})
    # A child that was retried would wait for ever for a parent that can no longer be retried.
    orphaning = [id_ for id_, _, state, children in rows if children and state != "done"]
    fail_children(tx, {id_: f"Job {id_}, which it waits for, was forgotten." for id_ in orphaning})
    for name in ("forget_events", "forget_children", "forget_parents"):
        tx.query_many(name, [{"id": id_} for id_ in gone])
    settle.add(tx, Counter({key: -n for key, n in Counter((queue, state) for _, queue, state, _ in rows).items()}))
    return len(rows)


def _revive_children(tx: Tx, parent: int, actor: str) -> None:
    waiting = [parent]
    while waiting:
        given = [{"parent": id_} for id_ in waiting]
        tx.query_many("siblings", given)
        rows = tx.query_many("revive_children", given, {"code": PARENT_FAILED})
        _note(tx, [id_ for id_, _, _ in rows], "retried", actor)
        settle.count_moves(tx, Counter((queue, "failed", "blocked") for _, queue, _ in rows))
        waiting = sorted(child for child, _, children in rows if children)


def _note(tx: Tx, ids: Iterable[int], kind: str, actor: str) -> None:
    tx.query_many(
        "action_events", [{"id": id_, "kind": kind, "code": None, "message": None, "actor": actor} for id_ in ids]
    )


# -- actions on one job ----------------------------------------------------------------------------------------------
# They run in the caller's transaction and write an event with the actor. They raise NotFound or Rejected.


def retry(tx: Tx, job: int, by: str) -> None:
    """Queues a failed or cancelled job again: attempts restart, the history stays."""
    current = _require_job(tx, job)
    if try_retry(tx, job, by):
        return
    kinds = {event.kind for event in events(tx, job)}
    if "refused" in kinds:
        raise Rejected(f"job {job} was refused before it was queued, so it cannot be retried; enqueue it again")
    if "barred" in kinds:
        raise Rejected(f"what job {job} needs is gone, so it cannot be retried; enqueue it again")
    raise Rejected(f"job {job} is {current.state}; only a failed or cancelled job can be retried")


def try_retry(tx: Tx, job: int, by: str) -> bool:
    """As `retry`, but returns False where `retry` raises Rejected."""
    was = _before(tx, job, by)
    if not requeue_job(tx, job, str(by)):
        return False
    _did(tx, by, audit.RETRIED, job, was, {"state": "queued"})
    return True


def cancel(tx: Tx, job: int, by: str) -> str:
    """Cancels a job. Returns 'cancelled', or 'asked' if it runs and its handler must stop first."""
    current = _require_job(tx, job)
    done = try_cancel(tx, job, by)
    if done is None:
        raise Rejected(why_not_cancelled(current))
    return done


def try_cancel(tx: Tx, job: int, by: str) -> str | None:
    """As `cancel`, but returns None where `cancel` raises Rejected."""
    was = _before(tx, job, by)
    done = cancel_job(tx, job, str(by))
    if done is not None:
        _did(tx, by, audit.CANCELLED, job, was, {"state": "told to stop" if done == "asked" else done})
    return done


def why_not_cancelled(job: Job) -> str:
    if job.state.final:
        return f"job {job.id} is {job.state}; there is nothing to cancel"
    return f"job {job.id} is of the kind {job.kind!r}, whose jobs cannot be cancelled"


def forget(tx: Tx, job: int, by: str) -> None:
    """Removes a final job with its history. Raises Rejected while an unfinished child needs its result."""
    current = _require_job(tx, job)
    if not delete_job(tx, job):
        child = needed_by(tx, job)
        if current.state.final and child is not None:
            raise Rejected(
                f"job {child} has not ended and needs the result of job {job}; cancel it first, or wait for it"
            )
        raise Rejected(f"job {job} is {current.state}; only a job that has ended can be forgotten")
    # The job's history is deleted, so the event goes to its queue.
    table.append_event(tx, "queue", current.queue, "job_forgotten", str(by), fields={"job": job, "kind": current.kind})
    was = {"state": str(current.state), "code": current.error_code, "kind": current.kind}
    _did(tx, by, audit.FORGOTTEN, job, was, {"state": "gone"})


def _require_job(tx: Tx, job: int) -> Job:
    current = get(tx, job)
    if current is None:
        raise NotFound(f"there is no job {job}")
    return current


def _did(tx: Tx, by: str, action: str, job: int, was: Mapping[str, object], became: Mapping[str, object]) -> None:
    """Appends an audit entry if a user acted. The actions of a program are only in the job's history."""
    if isinstance(by, Actor):
        audit.append_entry(tx, by, action, AuditSubject(subject="job", name=str(job)), was=was, became=became)


def _before(tx: Tx, job: int, by: str) -> dict[str, object]:
    current = get(tx, job) if isinstance(by, Actor) else None
    return {} if current is None else {"state": str(current.state), "code": current.error_code or current.last_code}


# -- allowed actions -------------------------------------------------------------------------------------------------
# One rule for buttons, bulk actions and their counts.

RETRY, CANCEL, FORGET = "retry", "cancel", "forget"


def actions_of(stage: str, *, cancellable: bool, retry_forbidden: bool) -> tuple[str, ...]:
    """The allowed actions for a state, the most useful first. *retry_forbidden*: its input was not kept."""
    if not StoredState(stage).state.final:
        return (CANCEL,) if cancellable else ()
    return (
        (RETRY, FORGET) if stage in (StoredState.FAILED, StoredState.CANCELLED) and not retry_forbidden else (FORGET,)
    )


def of_jobs(tx: Tx, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The allowed actions of each existing job."""
    rows = tx.query_many("doable", [{"id": id_} for id_ in ids])
    return {
        int(id_): actions_of(stage, cancellable=bool(cancellable), retry_forbidden=bool(barred))
        for id_, stage, cancellable, barred in rows
    }


# -- queues ----------------------------------------------------------------------------------------------------------


def pause_queue(tx: Tx, name: str, until: Until, by: str, known: Collection[str] = ()) -> float:
    """Stops claims from a queue until *until*. Returns that time. *known*: queues that may have no job yet."""
    _require_queue(tx, name, known)
    now = now_of(tx)
    end = ahead(until, now)
    was = _paused_until(tx, name)
    tx.query("queue_pause", {"name": name, "until": end, "actor": str(by)})
    record_action(
        tx,
        by,
        "queue_paused",
        AuditSubject(subject="queue", name=name),
        {"until": end},
        pause_detail(was, now),
        pause_detail(end, now),
    )
    return end


def resume_queue(tx: Tx, name: str, by: str, known: Collection[str] = ()) -> bool:
    """Ends a pause; False when there was none."""
    _require_queue(tx, name, known)
    was = _paused_until(tx, name)
    if not tx.query("queue_resume", {"name": name}):
        return False
    record_action(
        tx,
        by,
        "queue_resumed",
        AuditSubject(subject="queue", name=name),
        {},
        pause_detail(was, now_of(tx)),
        pause_detail(None, 0.0),
    )
    return True


def _paused_until(tx: Tx, name: str) -> float | None:
    return next((until for queue, _, until, _ in tx.query("queue_rows") if queue == name), None)


def _require_queue(tx: Tx, name: str, known: Collection[str]) -> None:
    queues = {queue for queue, _ in settle.read(tx)} | set(known)
    if name not in queues:
        raise NotFound(f"there is no queue {name!r}{meant_name(name, queues)}")
