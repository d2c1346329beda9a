"""Reasons why a job waits, and a test of its target now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidegate import audit
from tidegate.audit import AuditSubject
from tidegate.errors import NotFound, Rejected
from tidegate.guard.breaker_state import HALF_OPEN, OPEN
from tidegate.guard.hold import EndedBy
from tidegate.jobs import actions, claim, settle
from tidegate.jobs.claim import ReadyTarget
from tidegate.jobs.job import Job, StoredState
from tidegate.store.base import Tx, now_of
from tidegate.targets import actions as target_actions
from tidegate.targets import breaker, explain, table
from tidegate.targets.explain import WaitReason, WaitsFor, in_order, soon
from tidegate.targets.table import StoredKeyHealth, TargetRow

# -- wait reasons ----------------------------------------------------------------------------------------------------
# They are read from the store alone, so that any process can explain a job.

CYCLE = "cycle "  # key prefix of the store value with the next drain of a queue
WORKER_GONE = 35.0  # seconds without a heartbeat after which a worker counts as stopped
_MAX_COUNTED = 1000
_ENDED = {"failed": "has failed", "cancelled": "was cancelled"}  # final states of a parent that block its children


def job(tx: Tx, id_: int) -> list[WaitReason]:
    """Why a job is not running, the most important reason first; empty when it runs or has ended.

    A running job whose worker has disappeared has a reason, too: it is rescued when its lease ends.
    """
    current = actions.get(tx, id_)
    if current is None:
        raise NotFound(f"there is no job {id_}")
    stage, now = StoredState(current.stage), now_of(tx)
    if stage is StoredState.RUNNING:
        return list(_lost_worker(tx, current, now))
    if stage.state.final:
        return []
    reasons = [*explain.of_queue(tx, current.queue, now), *explain.of_target(tx, current.target, current.lane, now)]
    reasons += [*_itself(tx, current, now), *_cycle(tx, current.queue, now), *_no_worker(tx, current.queue, now)]
    return in_order(reasons) or [_alone(current) if current.suspect else _next(tx, current)]


def next_cycle(tx: Tx, queue: str) -> float | None:
    """When the next drain of a queue starts; None if the queue is not batch-only."""
    return tx.scalar_or_none(float, "store_value", {"name": CYCLE + queue})


class _OpenParent(NamedTuple):
    id: int
    state: str


def _itself(tx: Tx, found: Job, now: float) -> Iterator[WaitReason]:
    if found.stage == StoredState.BLOCKED:
        open_parents = tx.query_as(_OpenParent, "open_parents", {"child": found.id})
        dead = next((parent for parent in open_parents if parent.state in _ENDED), None)
        names = ", ".join(str(parent.id) for parent in open_parents[:5]) + (", ..." if len(open_parents) > 5 else "")
        said = f"It waits for job {names} to be done."
        if dead is not None:
            said = f"It waits for job {dead.id}, which {_ENDED[dead.state]}; retry that one."
        yield WaitReason(
            reason=WaitsFor.DEPENDENCY,
            subject=f"job {open_parents[0].id if open_parents else found.id}",
            since=found.created_at,
            until=None,
            ended_by=EndedBy.JOB if dead is None else EndedBy.PERSON,
            message=said,
        )
    if found.stage == StoredState.WAITING and now < found.due_at:
        tried = f"Attempt {found.attempt} of {found.most_attempts} ended" if found.attempt else "It was put off"
        code = f" ({found.last_code})" if found.last_code else ""
        said = f"It is due {soon(found.due_at - now)}."
        yield WaitReason(
            reason=WaitsFor.SCHEDULED,
            subject=f"job {found.id}",
            since=found.last_at or found.created_at,
            until=found.due_at,
            ended_by=EndedBy.TIME,
            message=said if not found.last_at else f"{tried}{code}. {said}",
        )


def _cycle(tx: Tx, queue: str, now: float) -> Iterator[WaitReason]:
    at = next_cycle(tx, queue)
    if at is not None and now < at:
        yield WaitReason(
            reason=WaitsFor.SCHEDULED,
            subject=f"queue {queue}",
            since=None,
            until=at,
            ended_by=EndedBy.TIME,
            message=f"The queue {queue} is worked on in cycles; the next one begins {soon(at - now)}.",
        )


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
        reason=WaitsFor.NO_WORKER,
        subject=f"queue {queue}",
        since=seen,
        until=None,
        ended_by=EndedBy.WORKER,
        message=said,
    )


def _alone(found: Job) -> WaitReason:
    return WaitReason(
        reason=WaitsFor.RUNS_ALONE,
        subject=f"job {found.id}",
        since=found.last_at,
        until=None,
        ended_by=EndedBy.WORKER,
        message="Its worker died while it ran. It runs alone, once a worker is free for that.",
    )


def _lost_worker(tx: Tx, found: Job, now: float) -> Iterator[WaitReason]:
    seen = next((at for id_, _, _, _, at, *_ in tx.query("workers") if id_ == found.lease_by), found.claimed_at)
    if found.lease_until is None or seen is None or (now - seen <= WORKER_GONE and now < found.lease_until):
        return
    ends = f"ends {soon(found.lease_until - now)}" if now < found.lease_until else "has ended"
    yield WaitReason(
        reason=WaitsFor.NO_WORKER,
        subject=f"job {found.id}",
        since=seen,
        until=found.lease_until,
        ended_by=EndedBy.TIME,
        message=f"Its worker {found.lease_by} does not respond. Its lease {ends}; then another worker takes the job.",
    )


def _next(tx: Tx, found: Job) -> WaitReason:
    before = tx.scalar(
        int,
        "ready_before",
        {
            "queue": found.queue,
            "target": found.target,
            "lane": found.lane,
            "priority": found.priority,
            "id": found.id,
            "n": _MAX_COUNTED + 1,
        },
    )
    count = f"more than {_MAX_COUNTED}" if before > _MAX_COUNTED else str(before)
    said = "It is next in line." if not before else f"It is in line; {count} others go first."
    return WaitReason(
        reason=WaitsFor.NEXT,
        subject=f"job {found.id}",
        since=max(found.due_at, found.created_at),
        until=None,
        ended_by=EndedBy.WORKER,
        message=said,
    )


# -- target tests ----------------------------------------------------------------------------------------------------
# A test runs one waiting job now, to see whether the target has recovered. It allows only what the gates would allow
# later: an open breaker becomes half-open, and a held key gets its single probe. A pause stays, because an operator
# ordered it. Capacity, rate and concurrency stay, because they do not depend on health.

TESTED = "target_tested"
_MAX_LANES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTest:
    """The job that tests a target. *waits*: why it still waits; empty when it can run now."""

    target: str
    key: str
    job: int
    breaker: str  # the state that it is in now
    waits: list[WaitReason]

    @property
    def says(self) -> str:
        """The result as a sentence for users."""
        who = f"key {self.key} of {self.target}" if self.key else self.target
        if not self.waits:
            return f"Job {self.job} tries {who} now."
        return f"Job {self.job} tries {who} next, but it has to wait: {self.waits[0].message}"

    def as_json(self) -> dict[str, object]:
        waits = [why.as_json() for why in self.waits]
        return {"target": self.target, "key": self.key, "job": self.job, "breaker": self.breaker, "waits": waits}


@dataclass(frozen=True, slots=True)
class _Candidate:
    id: int
    lane: str
    ready: bool  # else it waits for its next attempt


def begin(tx: Tx, name: str, by: str, key: str | None = None) -> TargetTest:
    """Lets one job of a target or key run now. Raises Rejected when nothing holds it, or no job waits."""
    row, now = target_actions.require_target(tx, name)
    if row.paused_until is not None and now < row.paused_until:
        raise Rejected(f"{name} is paused by {row.paused_by}; resume it first")
    shut = row.breaker.state == OPEN and not (row.breaker.until is not None and row.breaker.until <= now)
    held = _held(tx, name, key, now)
    candidate = _candidate(tx, name, key, held, shut=shut)
    if candidate is None:
        raise Rejected(_nothing_to_test(row, held, key, shut=shut))
    hold = held.get(candidate.lane)
    if hold is not None and hold.probe:
        raise Rejected(f"job {hold.probe} is trying it already")
    after = row.breaker
    if shut:
        after = breaker.half_open(row.breaker, now)
        target_actions.move_breaker(tx, name, row.breaker, after, by, TESTED)
    if hold is not None:
        _let_probe(tx, name, candidate.lane, now)
    if not candidate.ready:
        actions.run_now(tx, candidate.id, str(by))
    lane = candidate.lane or None
    table.append_event(tx, "target", name, TESTED, str(by), key_text=lane, fields={"job": candidate.id})
    if not shut:
        place, was = AuditSubject(subject="target", name=name, lane=lane), "" if hold is None else hold.reason
        audit.append_entry(tx, by, TESTED, place, was={"state": was}, became={"state": "a job tries it"})
    waits = [why for why in job(tx, candidate.id) if why.reason is not WaitsFor.NEXT]
    return TargetTest(target=name, key=candidate.lane, job=candidate.id, breaker=after.state, waits=waits)


def _held(tx: Tx, name: str, key: str | None, now: float) -> dict[str, StoredKeyHealth]:
    """The held keys of a target, or only *key* if it is held."""
    one = None if key is None else table.hold(tx, name, key)
    rows = table.holds_of(tx, name, _MAX_LANES) if key is None else [] if one is None else [one]
    return {
        row.lane: row
        for row in rows
        if row.reason != table.NOT_HELD and not (row.until is not None and row.until <= now)
    }


def _candidate(
    tx: Tx, name: str, key: str | None, held: Mapping[str, StoredKeyHealth], *, shut: bool
) -> _Candidate | None:
    """The job for a test: a ready one, preferably of a key that is not held; else one that waits for a retry."""
    lanes = [place for place in _ready(tx, name, key) if shut or place[1] in held]
    for queue, lane in sorted(lanes, key=lambda place: place[1] in held):
        first = tx.scalar_or_none(int, "first_ready", {"queue": queue, "target": name, "lane": lane})
        if first is not None:
            return _Candidate(first, lane, ready=True)
    place = {"target": name, "lane": key or "", "any_lane": int(key is None)}
    for id_, lane in tx.query("retrying_of", {**place, "n": _MAX_LANES}):
        if shut or lane in held:
            return _Candidate(int(id_), lane, ready=False)
    return None


def _ready(tx: Tx, name: str, key: str | None) -> Iterator[tuple[str, str]]:
    """Queues and keys in which jobs of a target may be ready."""
    for (queue, stage), n in sorted(settle.read(tx).items()):
        if stage == "ready" and n:
            if key is not None:
                yield queue, key
                continue
            for lane in claim.ready_keys(tx, ReadyTarget(queue, name), None, _MAX_LANES):
                yield queue, lane.lane


def _let_probe(tx: Tx, name: str, key_text: str, now: float) -> None:
    """Ends the wait of a hold now, so that one job can be the probe."""
    row = table.lock_holds(tx, [(name, key_text)]).get((name, key_text))
    if row is not None:
        rest = replace(row.rest, until=now) if row.rest.disabled else row.rest
        table.put_hold(tx, replace(row, until=now, rest=rest, probe=None))


def _nothing_to_test(row: TargetRow, held: Mapping[str, StoredKeyHealth], key: str | None, *, shut: bool) -> str:
    who = f"key {key} of {row.name}" if key else row.name
    if shut or (held if key is None else key in held):
        return f"no job of {who} waits that could test it"
    if row.breaker.state == HALF_OPEN:
        return f"{who} is being tested already"
    if row.summary is not None:
        return f"a program guards {who} without jobs, so there is no job to test it with; the program retries it"
    return f"nothing holds {who}; its jobs go when they are due"
