"""Inserts jobs, with unique keys and parents, and batches the inserts of several threads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.errors import StoreBusy, StoreError
from tidegate.jobs import settle
from tidegate.jobs.claim import QueuedJob, fail_queued
from tidegate.jobs.job import NewJob, StoredState
from tidegate.jobs.settle import PARENT_FAILED, FailedJob, orphaned
from tidegate.store.base import Store, Tx
from tidegate.store.group_commit import BatchItem, BatchLeader, fail

Made = list[tuple[str, str]]  # queue and stage of each new job
Rows = Sequence[dict[str, object]]

# A duplicate may end between the insert that it blocked and the lookup. Then the insert is tried again.
_TRIES = 3


class InsertResult(NamedTuple):
    """The ID of the new job, or of its duplicate."""

    id: int
    created: bool


def enqueue(tx: Tx, jobs: Sequence[NewJob]) -> list[InsertResult]:
    """Inserts jobs in the caller's transaction. Returns one result per job, in order."""
    states = _states(tx, jobs)
    waits_for = [
        [parent_id for parent_id in sorted(set(job.parents)) if states[parent_id] is not StoredState.DONE]
        for job in jobs
    ]
    rows = [_row(job, len(waits_for[i])) for i, job in enumerate(jobs)]
    plain = [i for i, job in enumerate(jobs) if job.unique_key is None]
    unique = [i for i, job in enumerate(jobs) if job.unique_key is not None]
    made: Made = []
    results = _plain(tx, jobs, rows, plain, made) | _unique(tx, jobs, rows, unique, made)
    orphans = _linked(tx, jobs, waits_for, states, results) if states else []
    settle.add(tx, Counter(made))
    for child, job, parent in orphans:
        message = orphaned(parent, states[parent])
        fail_queued(tx, [QueuedJob(child, job.queue, "blocked", 0, job.kind)], PARENT_FAILED, message, "parent")
    return [results[i] for i in range(len(jobs))]


def enqueue_one(tx: Tx, job: NewJob) -> InsertResult:
    """Inserts one job. Most have no unique key and no parents, and take a shorter path."""
    if not job.alone:
        return enqueue(tx, [job])[0]
    id_, state = tx.query("enqueue_one", _own(job))[0]
    tx.query("tally_one", {"queue": job.queue, "what": state})
    return InsertResult(id_, True)


def refuse(tx: Tx, job: NewJob, code: str, message: str) -> int:
    """Inserts a job that has already failed. It holds no unique key. Returns its ID."""
    row = {
        "queue": job.queue,
        "kind": job.kind,
        "target": job.target,
        "lane": job.lane,
        "args": job.args,
        "most_attempts": job.most_attempts,
        "code": code,
        "message": message,
    }
    made = tx.scalar(int, "refuse", row)
    tx.query_many(
        "action_events", [{"id": made, "kind": "refused", "code": code, "message": message, "actor": "intake"}]
    )
    settle.add(tx, Counter({(job.queue, "failed"): 1}))
    settle.count_failures(tx, Counter({(job.queue, code): 1}))
    settle.record_failures(tx, [FailedJob(made, job.target, job.kind, code, message)])
    return made


def _states(tx: Tx, jobs: Sequence[NewJob]) -> dict[int, StoredState]:
    """Locks the parents of all jobs and returns their states. Raises ValueError for an unknown one."""
    parents = sorted({parent for job in jobs for parent in job.parents})
    if not parents:
        return {}
    states = {
        id_: StoredState(state) for id_, state in tx.query_many("parents", [{"id": parent} for parent in parents])
    }
    for parent in parents:
        if parent not in states:
            raise ValueError(f"after: there is no job {parent}")
    return states


def _plain(tx: Tx, jobs: Sequence[NewJob], rows: Rows, wanted: Sequence[int], made: Made) -> dict[int, InsertResult]:
    if not wanted:
        return {}
    new = tx.query_many("enqueue", [rows[i] for i in wanted])
    if len(new) != len(wanted):
        raise StoreError(f"{len(wanted)} jobs were put in, {len(new)} came back")
    results = {}
    for i, (id_, _, _, state) in zip(wanted, sorted(new), strict=True):  # ids are assigned in the order of the rows
        results[i] = InsertResult(id_, created=True)
        made.append((jobs[i].queue, state))
    return results


def _unique(tx: Tx, jobs: Sequence[NewJob], rows: Rows, wanted: Sequence[int], made: Made) -> dict[int, InsertResult]:
    """Inserts jobs without a duplicate. A key that occurs twice in one call is one job."""
    results: dict[int, InsertResult] = {}
    for _ in range(_TRIES):
        missing = [i for i in wanted if i not in results]
        if not missing:
            return results
        first = {(jobs[i].kind, jobs[i].unique_key): i for i in reversed(missing)}
        given = tx.query_many("enqueue", [rows[i] for i in sorted(first.values())])
        new = {(kind, key): id_ for id_, kind, key, _ in given}
        made += [(jobs[first[kind, key]].queue, state) for _, kind, key, state in given]
        keys = [{"kind": kind, "unique_key": key} for kind, key in first if (kind, key) not in new]
        duplicates = {(kind, key): id_ for id_, kind, key in tx.query_many("twins", keys)} if keys else {}
        for i in missing:
            key = (jobs[i].kind, jobs[i].unique_key)
            if key in new:
                results[i] = InsertResult(new[key], created=first[key] == i)
            elif key in duplicates:
                results[i] = InsertResult(duplicates[key], created=False)
    missing = [i for i in wanted if i not in results]
    if missing:
        raise _fleeting(jobs[missing[0]])
    return results


def _linked(
    tx: Tx,
    jobs: Sequence[NewJob],
    waits_for: Sequence[Sequence[int]],
    states: dict[int, StoredState],
    results: dict[int, InsertResult],
) -> list[tuple[int, NewJob, int]]:
    """Links new children to their parents. Returns (id, child, parent) for parents that failed or were cancelled."""
    new = [i for i, job in enumerate(jobs) if job.parents and results[i].created]
    links = [{"parent": parent, "child": results[i].id} for i in new for parent in sorted(set(jobs[i].parents))]
    if links:
        tx.query_many("link", links)
    adopted = Counter(parent for i in new for parent in waits_for[i])
    if adopted:
        tx.query_many("adopt_children", [{"id": parent, "n": n} for parent, n in sorted(adopted.items())])
    ended = (StoredState.FAILED, StoredState.CANCELLED)
    dead = [(i, next((wait for wait in waits_for[i] if states[wait] in ended), None)) for i in new]
    return [(results[i].id, jobs[i], parent) for i, parent in dead if parent is not None]


def _fleeting(job: NewJob) -> StoreError:
    return StoreError(f"the twin of job {job.unique_key!r} came and went; try again")


def _row(job: NewJob, parents_open: int) -> dict[str, object]:
    return {
        **_own(job),
        "unique_key": job.unique_key,
        "unique_while": job.unique_while,
        "parents": len(set(job.parents)),
        "parents_open": parents_open,
    }


def _own(job: NewJob) -> dict[str, object]:
    """The validated columns that do not depend on other jobs."""
    for field, value in (("due_at", job.due_at), ("due_in", job.due_in), ("expires_in", job.expires_in)):
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{field}: {value} is no moment")
    if "\0" in job.lane:
        raise ValueError(f"key: {job.lane!r:.60} has a NUL in it, which no database keeps")
    return {
        "queue": job.queue,
        "kind": job.kind,
        "target": job.target,
        "lane": job.lane,
        "priority": job.priority,
        "due_at": job.due_at,
        "due_in": job.due_in,
        "expires_in": job.expires_in,
        "args": job.args,
        "most_attempts": job.most_attempts,
        "cancellable": int(job.cancellable),
    }


class InsertBatcher(BatchLeader[NewJob]):
    """Combines the inserts of several threads into one statement, to save round trips. An error affects only its job.

    Only for jobs without a unique key and parents: a unique job may wait for the transaction of its duplicate, and the
    whole batch would wait with it.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def put(self, job: NewJob) -> InsertResult:
        """Inserts a job. It is on disk when this returns."""
        result: InsertResult = self._led(BatchItem(job))
        return result

    def _perform(self, batch: list[BatchItem[NewJob]]) -> None:
        jobs = [piece.work for piece in batch]
        try:
            taken = self._store.write(lambda tx: enqueue(tx, jobs))
        except Exception as error:
            # After StoreBusy the batch may be committed, so it must not be inserted again.
            if len(batch) == 1 or isinstance(error, StoreBusy):
                fail(batch, error)
                return
            for piece in batch:
                self._perform([piece])
        else:
            for piece, result in zip(batch, taken, strict=True):
                piece.result = result

    def _taken_back(self, others: list[BatchItem[NewJob]]) -> list[BatchItem[NewJob]]:
        for item in (item for item in others if item.result is None and item.error is None):
            item.error = StoreBusy("the thread that put the job in was interrupted; it may be there")
        return []
