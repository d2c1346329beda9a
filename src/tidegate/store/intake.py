"""Putting jobs in: one or many, with twins and parents, in the caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.job import NewJob, Stage
from tidegate.errors import StoreError
from tidegate.store import tallies
from tidegate.store.tx import Tx

# A twin may end between the insert that met it and the look for it; then the insert is tried again.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Taken:
    """The job that now stands for what was asked: a new one, or its twin."""

    id: int
    created: bool


def enqueue(tx: Tx, jobs: Sequence[NewJob]) -> list[Taken]:
    """One answer per job, in order. Everything is written, or nothing."""
    found: dict[int, Taken] = {}
    plain = [i for i, job in enumerate(jobs) if job.unique_key is None and not job.parents]
    rows = tx.many("enqueue", [_row(jobs[i]) for i in plain])
    if len(rows) != len(plain):
        raise StoreError(f"{len(plain)} jobs were put in, {len(rows)} came back")
    found |= {i: Taken(row[0], created=True) for i, row in zip(plain, sorted(rows), strict=True)}
    unique = [i for i, job in enumerate(jobs) if job.unique_key is not None and not job.parents]
    found |= _unique(tx, jobs, unique)
    for i, job in enumerate(jobs):
        if job.parents:
            found[i] = _child(tx, job)
    made = [jobs[i] for i, taken in found.items() if taken.created and not jobs[i].parents]
    tallies.add(tx, Counter((job.queue, str(_stage(job))) for job in made))
    return [found[i] for i in range(len(jobs))]


def refuse(tx: Tx, job: NewJob, code: str, message: str) -> int:
    """A job that failed before it was queued; it holds no unique."""
    row = {
        "queue": job.queue, "kind": job.kind, "target": job.target, "lane": job.lane, "args": job.args,
        "most_attempts": job.most_attempts, "code": code, "message": message,
    }  # fmt: skip
    made = int(tx.all("refuse", row)[0][0])
    tallies.add(tx, Counter({(job.queue, "failed"): 1}))
    tallies.failed(tx, Counter({(job.queue, code): 1}))
    return made


def _unique(tx: Tx, jobs: Sequence[NewJob], wanted: Sequence[int]) -> dict[int, Taken]:
    """Inserts what has no twin; a key that stands twice in one call is one job."""
    found: dict[int, Taken] = {}
    for _ in range(_TRIES):
        missing = [i for i in wanted if i not in found]
        if not missing:
            return found
        first = {(jobs[i].kind, jobs[i].unique_key): i for i in reversed(missing)}
        made = {(kind, key): id_ for id_, kind, key in tx.many("enqueue", [_row(jobs[i]) for i in first.values()])}
        keys = [{"kind": kind, "unique_key": key} for kind, key in first if (kind, key) not in made]
        twins = {(kind, key): id_ for id_, kind, key in tx.many("twins", keys)}
        for i in missing:
            key = (jobs[i].kind, jobs[i].unique_key)
            if key in made:
                found[i] = Taken(made[key], created=first[key] == i)
            elif key in twins:
                found[i] = Taken(twins[key], created=False)
    missing = [i for i in wanted if i not in found]
    if missing:
        raise StoreError(f"the twin of job {jobs[missing[0]].unique_key!r} came and went; try again")
    return found


def _child(tx: Tx, job: NewJob) -> Taken:
    """A job with parents: blocked while one of them is open, failed when one has failed."""
    states = {}
    for parent in sorted(set(job.parents)):  # in order: two intakes that lock the same parents must not meet crosswise
        rows = tx.all("parents", {"id": parent})
        if not rows:
            raise ValueError(f"after: there is no job {parent}")
        states[parent] = Stage(rows[0][1])
    bad = [parent for parent, stage in states.items() if stage in (Stage.FAILED, Stage.CANCELLED)]
    if bad:
        return Taken(refuse(tx, job, "parent_failed", f"Job {bad[0]}, which it waits for, has failed."), created=True)
    waits_for = [parent for parent, stage in states.items() if stage is not Stage.DONE]
    rows = tx.many("enqueue", [_row(job, len(waits_for))])
    if not rows:
        twin = tx.many("twins", [{"kind": job.kind, "unique_key": job.unique_key}])
        if not twin:
            raise StoreError(f"the twin of job {job.unique_key!r} came and went; try again")
        return Taken(int(twin[0][0]), created=False)
    made = int(rows[0][0])
    tx.many("link", [{"parent": parent, "child": made} for parent in states])
    for parent in waits_for:
        tx.all("adopt_child", {"id": parent})
    tallies.add(tx, Counter({(job.queue, "blocked" if waits_for else str(_stage(job))): 1}))
    return Taken(made, created=True)


def _stage(job: NewJob) -> Stage:
    return Stage.READY if job.due_at is None else Stage.WAITING


def _row(job: NewJob, parents_open: int = 0) -> dict[str, object]:
    return {
        "queue": job.queue, "kind": job.kind, "target": job.target, "lane": job.lane, "priority": job.priority,
        "due_at": job.due_at, "expires_at": job.expires_at, "args": job.args, "most_attempts": job.most_attempts,
        "unique_key": job.unique_key, "unique_while": job.unique_while, "parents": len(set(job.parents)), "parents_open": parents_open,
    }  # fmt: skip
