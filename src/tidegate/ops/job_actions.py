"""What people do to jobs: each checked first, each an event with its actor.

All of it happens in the caller's transaction. NotFound and Refused say why nothing was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.core.actor import Actor
from tidegate.core.job import Job
from tidegate.errors import NotFound, Rejected
from tidegate.store import activity_rows, gate_rows, people
from tidegate.store.activity_rows import AuditSubject
from tidegate.store.tx import Tx


def retry(tx: Tx, job: int, by: str) -> None:
    """Queues a failed or cancelled job again: attempts restart, history stays."""
    found = _require_job(tx, job)
    if try_retry(tx, job, by):
        return
    kinds = {event.kind for event in people.events(tx, job)}
    if "refused" in kinds:
        raise Rejected(f"job {job} was refused before it was queued, and cannot be retried; put it in anew")
    if "barred" in kinds:
        raise Rejected(f"what job {job} would need is gone, and it cannot be retried; put it in anew")
    raise Rejected(f"job {job} is {found.state}; only a failed or cancelled job can be retried")


def try_retry(tx: Tx, job: int, by: str) -> bool:
    """As `retry`; False when it cannot be."""
    was = _before(tx, job, by)
    if not people.requeue_job(tx, job, str(by)):
        return False
    _did(tx, by, activity_rows.RETRIED, job, was, {"state": "queued"})
    return True


def cancel(tx: Tx, job: int, by: str) -> str:
    """'cancelled', or 'asked' when it runs and its handler was told."""
    found = _require_job(tx, job)
    done = try_cancel(tx, job, by)
    if done is None:
        raise Rejected(why_not_cancelled(found))
    return done


def try_cancel(tx: Tx, job: int, by: str) -> str | None:
    """As `cancel`; None when it cannot be."""
    was = _before(tx, job, by)
    done = people.cancel_job(tx, job, str(by))
    if done is not None:
        _did(tx, by, activity_rows.CANCELLED, job, was, {"state": "told to stop" if done == "asked" else done})
    return done


def why_not_cancelled(job: Job) -> str:
    if job.state.final:
        return f"job {job.id} is {job.state}; there is nothing to cancel"
    return f"job {job.id} is of the kind {job.kind!r}, whose jobs cannot be cancelled"


def forget(tx: Tx, job: int, by: str) -> None:
    """Removes a final job with its history, and frees its unique. Refused while an unfinished job needs its result."""
    found = _require_job(tx, job)
    if not people.delete_job(tx, job):
        child = people.needed_by(tx, job)
        if found.state.final and child is not None:
            raise Rejected(
                f"job {child} has not ended and needs the result of job {job}; cancel it first, or wait for it"
            )
        raise Rejected(f"job {job} is {found.state}; only a job that has ended can be forgotten")
    # Its own history is gone with it, so its queue's tells of it.
    gate_rows.append_event(tx, "queue", found.queue, "job_forgotten", str(by), fields={"job": job, "kind": found.kind})
    was = {"state": str(found.state), "code": found.error_code, "kind": found.kind}
    _did(tx, by, activity_rows.FORGOTTEN, job, was, {"state": "gone"})


def _require_job(tx: Tx, job: int) -> Job:
    found = people.get(tx, job)
    if found is None:
        raise NotFound(f"there is no job {job}")
    return found


def _did(tx: Tx, by: str, action: str, job: int, was: Mapping[str, Any], became: Mapping[str, Any]) -> None:
    """What a person did to one job. What a program does to its own jobs is in their history, and nowhere else."""
    if isinstance(by, Actor):
        activity_rows.append_entry(tx, by, action, AuditSubject(subject="job", name=str(job)), was=was, became=became)


def _before(tx: Tx, job: int, by: str) -> dict[str, Any]:
    found = people.get(tx, job) if isinstance(by, Actor) else None
    return {} if found is None else {"state": str(found.state), "code": found.error_code or found.last_code}
