"""Why is this not running, and when will it? Everything is read from the store, so that any process can answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidegate.core.job import Job, StoredState
from tidegate.errors import NotFound
from tidegate.machine.gate import EndedBy
from tidegate.ops import gate_whys
from tidegate.ops.whys import WaitReason, WaitsFor, in_order, soon
from tidegate.store import gate_rows, people
from tidegate.store.now import now_of
from tidegate.store.tx import Tx

CYCLE = "cycle "  # before the name of a queue, in the store: when its next cycle begins
# A worker that has not been heard of for so long is not there.
WORKER_GONE = 35.0
_MAX_COUNTED = 1000
_ENDED = {"failed": "has failed", "cancelled": "was cancelled"}  # what a parent may be without being done


def job(tx: Tx, id_: int) -> list[WaitReason]:
    """Why a job is not running, the first reason first; empty when it runs or has ended.

    A job whose worker has disappeared does not run: it is taken back when its lease ends.
    """
    found = people.get(tx, id_)
    if found is None:
        raise NotFound(f"there is no job {id_}")
    stage, now = StoredState(found.stage), now_of(tx)
    if stage is StoredState.RUNNING:
        return list(_lost_worker(tx, found, now))
    if stage.state.final:
        return []
    reasons = [*gate_whys.of_queue(tx, found.queue, now), *gate_whys.of_target(tx, found.target, found.lane, now)]
    reasons += [*_itself(tx, found, now), *_cycle(tx, found.queue, now), *_no_worker(tx, found.queue, now)]
    return in_order(reasons) or [_alone(found) if found.suspect else _next(tx, found)]


def target(tx: Tx, name: str, key: str | None = None) -> list[WaitReason]:
    """What stands before the jobs of a target, or of one key of it, and before the calls of programs that guard it."""
    row = gate_rows.target(tx, name)
    if row is None:
        raise NotFound(f"there is no target {name!r}")
    now = now_of(tx)
    reasons = [*gate_whys.of_target(tx, name, key, now), *(() if key else gate_whys.of_programs(row, now))]
    return in_order(reasons)


def next_cycle(tx: Tx, queue: str) -> float | None:
    """When the next cycle of a queue begins; None where nobody works on it in cycles."""
    return next((float(value) for (value,) in tx.query("store_value", {"name": CYCLE + queue})), None)


def _itself(tx: Tx, found: Job, now: float) -> Iterator[WaitReason]:
    if found.stage == StoredState.BLOCKED:
        open_parents = tx.query("open_parents", {"child": found.id})
        dead = [(id_, _ENDED[state]) for id_, state in open_parents if state in _ENDED]
        names = ", ".join(str(id_) for id_, _ in open_parents[:5]) + (", ..." if len(open_parents) > 5 else "")
        said = f"It waits for job {names} to be done."
        if dead:
            said = f"It waits for job {dead[0][0]}, which {dead[0][1]}; retry that one."
        yield WaitReason(
            reason=WaitsFor.DEPENDENCY, subject=f"job {open_parents[0][0]}" if open_parents else f"job {found.id}",
            since=found.created_at, until=None, ended_by=EndedBy.PERSON if dead else EndedBy.JOB, message=said,
        )  # fmt: skip
    if found.stage == StoredState.WAITING and now < found.due_at:
        tried = f"Attempt {found.attempt} of {found.most_attempts} ended" if found.attempt else "It was put off"
        code = f" ({found.last_code})" if found.last_code else ""
        said = f"It is due {soon(found.due_at - now)}."
        yield WaitReason(
            reason=WaitsFor.SCHEDULED, subject=f"job {found.id}", since=found.last_at or found.created_at,
            until=found.due_at, ended_by=EndedBy.TIME,
            message=said if not found.last_at else f"{tried}{code}. {said}",
        )  # fmt: skip


def _cycle(tx: Tx, queue: str, now: float) -> Iterator[WaitReason]:
    at = next_cycle(tx, queue)
    if at is not None and now < at:
        yield WaitReason(
            reason=WaitsFor.SCHEDULED, subject=f"queue {queue}", since=None, until=at, ended_by=EndedBy.TIME,
            message=f"The queue {queue} is worked on in cycles; the next one begins {soon(at - now)}.",
        )  # fmt: skip


def _no_worker(tx: Tx, queue: str, now: float) -> Iterator[WaitReason]:
    seen: float | None = None
    old = False
    for _, _, _, _, seen_at, queues, stopping, outdated in tx.query("workers"):
        if queue not in json.loads(queues):
            continue
        there = not stopping and now - seen_at <= WORKER_GONE
        if there and not outdated:
            return
        old = old or there
        seen = seen_at if seen is None else max(seen, seen_at)
    said = f"No worker is there for the queue {queue}; start one."
    if old:
        said = f"The workers of the queue {queue} are older than the database; update and restart them."
    yield WaitReason(
        reason=WaitsFor.NO_WORKER, subject=f"queue {queue}", since=seen, until=None, ended_by=EndedBy.WORKER,
        message=said,
    )  # fmt: skip


def _alone(found: Job) -> WaitReason:
    return WaitReason(
        reason=WaitsFor.RUNS_ALONE, subject=f"job {found.id}", since=found.last_at, until=None,
        ended_by=EndedBy.WORKER, message="Its worker died while it ran. It runs alone, once a worker is free for that.",
    )  # fmt: skip


def _lost_worker(tx: Tx, found: Job, now: float) -> Iterator[WaitReason]:
    seen = next((row[4] for row in tx.query("workers") if row[0] == found.lease_by), found.claimed_at)
    if found.lease_until is None or seen is None or (now - seen <= WORKER_GONE and now < found.lease_until):
        return
    ends = f"ends {soon(found.lease_until - now)}" if now < found.lease_until else "has ended"
    yield WaitReason(
        reason=WaitsFor.NO_WORKER, subject=f"job {found.id}", since=seen, until=found.lease_until,
        ended_by=EndedBy.TIME,
        message=f"Its worker {found.lease_by} does not respond. Its lease {ends}; then another worker takes the job.",
    )  # fmt: skip


def _next(tx: Tx, found: Job) -> WaitReason:
    before = int(tx.query("ready_before", {
        "queue": found.queue, "target": found.target, "lane": found.lane, "priority": found.priority,
        "id": found.id, "n": _MAX_COUNTED + 1,
    })[0][0])  # fmt: skip
    count = f"more than {_MAX_COUNTED}" if before > _MAX_COUNTED else str(before)
    said = "It is next in line." if not before else f"It is in line; {count} others go first."
    return WaitReason(
        reason=WaitsFor.NEXT, subject=f"job {found.id}", since=max(found.due_at, found.created_at), until=None,
        ended_by=EndedBy.WORKER, message=said,
    )  # fmt: skip
