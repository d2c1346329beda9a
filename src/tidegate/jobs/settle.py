"""Settles attempts under their leases: outcomes, counters and failure groups."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.faults.redaction import fingerprint, normalise
from tidegate.jobs.job import AttemptOutcome, OutcomeKind, StoredState
from tidegate.store.base import Tx
from tidegate.validation import storable

# -- counters --------------------------------------------------------------------------------------------------------
# Jobs are not counted by query. Every change appends a difference, and the leader sums the differences up.

# The upper bounds of the duration histogram, in seconds. Longer attempts go into one more bucket.
BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
# Monotonic counters have "total" in their name, which distinguishes them from states.
FAILED, TOOK, TOOK_ALL = "failed_total:", "took_total:", "took_us_total"
RETRIED, EXPIRED = "manual_retry_total", "lease_expired_total"
DELIVERY = "delivery_total:"  # of notices, by outcome and channel
BAD = "bad_total"  # attempts that failed or asked for another attempt
_TOOK = tuple(f"{TOOK}{n}" for n in range(len(BUCKETS) + 1))


def add(tx: Tx, changes: Counter[tuple[str, str]]) -> None:
    """Adds differences by (queue, counter)."""
    rows = [{"queue": queue, "what": stage, "delta": delta} for (queue, stage), delta in changes.items() if delta]
    if rows:
        tx.query_many("tally", rows)


def count_moves(tx: Tx, moves: Mapping[tuple[str, str, str], int]) -> None:
    """Counts jobs that changed state, by (queue, old state, new state)."""
    changes: Counter[tuple[str, str]] = Counter()
    for (queue, old, new), n in moves.items():
        changes[queue, old] -= n
        changes[queue, new] += n
    add(tx, changes)


def count_failures(tx: Tx, codes: Counter[tuple[str, str]]) -> None:
    """Counts failures by (queue, code)."""
    add(tx, Counter({(queue, FAILED + code): n for (queue, code), n in codes.items()}))


def count_durations(spans: Iterable[tuple[str, float]]) -> Counter[tuple[str, str]]:
    """Counter differences for attempts given as (queue, seconds): histogram buckets, and the sum in microseconds."""
    by_queue: dict[str, list[float]] = {}
    for queue, span in spans:
        by_queue.setdefault(queue, []).append(span if span > 0 else 0.0)
    found: Counter[tuple[str, str]] = Counter()
    for queue, each in by_queue.items():
        found[queue, TOOK_ALL] = round(sum(each) * 1_000_000)
        counts = [0] * len(_TOOK)
        for span in each:
            counts[bisect_left(BUCKETS, span)] += 1
        found.update({(queue, what): n for what, n in zip(_TOOK, counts, strict=True) if n})
    return found


def count_retries(tx: Tx, queue: str, times: int = 1) -> None:
    add(tx, Counter({(queue, RETRIED): times}))


def read(tx: Tx) -> dict[tuple[str, str], int]:
    return {(queue, what): int(total) for queue, what, total in tx.query("tallies")}


def fold_counters(tx: Tx) -> int:
    """Sums up the appended differences. Returns how many rows it replaced. Only the leader does this."""
    rows = tx.query("tally_take")
    totals: Counter[tuple[str, str]] = Counter()
    for queue, what, delta in rows:
        totals[queue, what] += int(delta)
    add(tx, totals)
    return len(rows)


# -- failure groups --------------------------------------------------------------------------------------------------
# Identical failures are grouped by target, code and message, so that an operator can act on all of them.

HOUR = 3600
HOURLY_RETENTION = 26  # hours
_BATCH_SIZE = 5000  # failures that one transaction sums up


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job whose attempt failed, or that failed without an attempt."""

    id: int
    target: str
    kind: str
    code: str
    message: str


class _FailureNote(NamedTuple):
    """Failures of a group that are not summed up yet."""

    failure: str
    target: str
    kind: str
    code: str
    message: str
    at: float
    n: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Identical failures since *first_at*."""

    failure: str
    target: str
    kind: str  # of the last of them
    code: str
    message: str  # without variable parts such as numbers
    first_at: float
    last_at: float
    n: int


def record_failures(tx: Tx, failed: Sequence[FailedJob]) -> None:
    """Assigns each job to its failure group and counts it there."""
    if not failed:
        return
    groups: Counter[tuple[str, str, str, str, str]] = Counter()
    named: dict[int, str] = {}
    for job in failed:
        name = named[job.id] = fingerprint(job.target or job.kind, job.code, job.message)
        groups[name, job.target, job.kind, job.code, normalise(job.message)] += 1
    tx.query_many("job_failure", [{"id": id_, "failure": name} for id_, name in sorted(named.items())])
    tx.query_many(
        "failure_notes",
        [
            {"failure": name, "target": target, "kind": kind, "code": code, "message": message, "n": n}
            for (name, target, kind, code, message), n in groups.items()
        ],
    )


def fold_failures(tx: Tx) -> bool:
    """Sums up a batch of recorded failures. Returns True when there are more. Only the leader does this."""
    rows = tx.query_as(_FailureNote, "failure_notes_take", {"n": _BATCH_SIZE})
    if rows:
        hours: Counter[tuple[str, int]] = Counter()
        for note in rows:
            hours[note.failure, _hour(note.at)] += note.n
        found = _together(rows)
        tx.query_many(
            "failure_add",
            [
                {
                    "failure": each.failure,
                    "target": each.target,
                    "kind": each.kind,
                    "code": each.code,
                    "message": each.message,
                    "first_at": each.first_at,
                    "last_at": each.last_at,
                    "n": each.n,
                }
                for each in found
            ],
        )
        tx.query_many(
            "failure_hours_add", [{"failure": name, "hour": hour, "n": n} for (name, hour), n in hours.items()]
        )
    return len(rows) == _BATCH_SIZE


def groups(tx: Tx, limit: int) -> list[FailureGroup]:
    """The most recent failure groups, newest first, including failures that are not summed up yet."""
    known = {group.failure: group for group in tx.query_as(FailureGroup, "failures", {"n": limit})}
    found = _together(tx.query_as(_FailureNote, "failure_notes_all"), known)
    return sorted(found, key=lambda each: -each.last_at)[:limit]


def jobs_in_groups(tx: Tx, names: Iterable[str], limit: int) -> dict[str, tuple[int, int]]:
    """How many jobs of each group have failed, and how many are queued for a retry, each counted up to *limit*."""
    rows = tx.query_many("failure_jobs", [{"failure": name} for name in names], {"n": limit})
    return {name: (int(failed), int(queued)) for name, failed, queued in rows}


def retriable(tx: Tx, names: Iterable[str], limit: int) -> frozenset[str]:
    """The groups with a failed job that can be retried, among the first *limit* jobs of each."""
    return frozenset(
        name for (name,) in tx.query_many("failure_retriable", [{"failure": name} for name in names], {"n": limit})
    )


def by_hour(tx: Tx, names: Iterable[str], now: float, hours: int = 24) -> dict[str, list[int]]:
    """The failures of each group in each of the last hours, oldest first."""
    last = _hour(now)
    found = {name: [0] * hours for name in names}
    rows = tx.query_many("failure_hours", [{"failure": name} for name in found], {"since": last - hours * HOUR})
    rows += [(note.failure, _hour(note.at), note.n) for note in tx.query_as(_FailureNote, "failure_notes_all")]
    for name, hour, n in rows:
        place = hours - 1 - (last - int(hour)) // HOUR
        if name in found and 0 <= place < hours:
            found[name][place] += int(n)
    return found


def prune(tx: Tx, older_than: Callable[[float], float], kept: float, limit: int) -> int:
    """Removes a batch of groups without a failure for *kept* seconds, and of hours past their retention."""
    gone = tx.query("failures_prune", {"before": older_than(kept), "n": limit})
    hours = tx.query("failure_hours_prune", {"before": _hour(older_than(HOURLY_RETENTION * HOUR)), "n": limit})
    return max(len(gone), len(hours))


def _hour(at: float) -> int:
    return math.floor(at / HOUR) * HOUR


def _together(rows: Iterable[_FailureNote], known: dict[str, FailureGroup] | None = None) -> list[FailureGroup]:
    found = dict(known or {})
    for failure, target, kind, code, message, at, n in rows:
        old = found.get(failure)
        found[failure] = FailureGroup(
            failure=failure,
            target=target,
            kind=kind,
            code=code,
            message=message,
            first_at=at if old is None else min(old.first_at, at),
            last_at=at if old is None else max(old.last_at, at),
            n=n if old is None else old.n + n,
        )
    return [found[name] for name in sorted(found)]


# -- settling --------------------------------------------------------------------------------------------------------

PARENT_FAILED = "parent_failed"
_MAX_TEXT = 2000
# Attempts that were not interrupted: only their duration is counted.
_WENT_BADLY = (OutcomeKind.AGAIN, OutcomeKind.TRIAL, OutcomeKind.FAILED)
_MADE = (OutcomeKind.DONE, *_WENT_BADLY)
_MET_A_FAULT = (
    *_WENT_BADLY,
    OutcomeKind.GIVEN_BACK,
)  # released with a code: an operator must act before the next attempt


@dataclass(frozen=True, slots=True)
class Settled:
    """Settled jobs, and late outcomes: their lease was lost, and another worker may hold the job."""

    counted: frozenset[int]
    late: tuple[AttemptOutcome, ...]


def settle(tx: Tx, outcomes: Sequence[AttemptOutcome], worker: str) -> Settled:
    """Writes outcomes, events and counters. A late outcome writes only an event."""
    if not outcomes:
        return Settled(frozenset(), ())
    first: dict[tuple[int, int], AttemptOutcome] = {}
    for outcome in outcomes:  # an attempt ends once; a second outcome is late
        first.setdefault((outcome.job.id, outcome.job.fence), outcome)
    # Lock in id order, like all code that locks several jobs, to avoid deadlocks.
    rows = tx.query_many("settle", [_row(first[key]) for key in sorted(first)])
    ended = [(first[id_, fence], StoredState(state), children) for id_, fence, state, children, _ in rows]
    counted = {id(outcome) for outcome, _, _ in ended}
    late = tuple(outcome for outcome in outcomes if id(outcome) not in counted)
    tx.query_many("attempt_events", [_event(outcome, stage, worker) for outcome, stage, _ in ended])
    changes = Counter((outcome.job.queue, str(stage)) for outcome, stage, _ in ended)
    changes.subtract(Counter((outcome.job.queue, "running") for outcome, _, _ in ended))
    changes.update(
        (o.job.queue, FAILED + (_text(o.code) or "")) for o, stage, _ in ended if stage is StoredState.FAILED
    )
    changes.update((o.job.queue, BAD) for o, _, _ in ended if o.ending in _WENT_BADLY and not o.refund)
    changes.update(
        count_durations(
            [
                (outcome.job.queue, row[-1] - outcome.job.claimed_at)
                for (outcome, _, _), row in zip(ended, rows, strict=True)
                if not outcome.refund and outcome.ending in _MADE
            ]
        )
    )
    add(tx, changes)
    record_failures(
        tx,
        [
            FailedJob(o.job.id, o.job.target, o.job.kind, _text(o.code) or "", _text(o.message) or "")
            for o, stage, _ in ended
            if o.code and o.ending in _MET_A_FAULT and stage is not StoredState.CANCELLED
        ],
    )
    end_children(tx, {o.job.id: stage for o, stage, children in ended if children and stage.state.final})
    if late:
        _note_late(tx, late, worker)
    return Settled(frozenset(outcome.job.id for outcome, _, _ in ended), late)


def end_children(tx: Tx, ended: Mapping[int, StoredState]) -> None:
    """Unblocks the children of done parents, and fails the descendants of failed or cancelled ones."""
    done = [parent for parent, stage in ended.items() if stage is StoredState.DONE]
    if done:
        _free(tx, done)
    fail_children(
        tx, {parent: orphaned(parent, stage) for parent, stage in ended.items() if stage is not StoredState.DONE}
    )


def orphaned(parent: int, stage: StoredState) -> str:
    """The error message of a child whose parent has failed or was cancelled."""
    return f"Job {parent}, which it waits for, {'was cancelled' if stage is StoredState.CANCELLED else 'has failed'}."


def fail_children(tx: Tx, whys: Mapping[int, str]) -> None:
    """Fails the children of parents that will not be done, and all their descendants. *whys*: messages by parent."""
    while whys:
        given = [{"parent": parent, "why": whys[parent]} for parent in sorted(whys)]
        rows = tx.query_many("fail_children", given, {"code": PARENT_FAILED})
        tx.query_many(
            "action_events",
            [
                {"id": child, "kind": "failed", "code": PARENT_FAILED, "message": message, "actor": "parent"}
                for child, _, _, message, _, _ in rows
            ],
        )
        record_failures(
            tx, [FailedJob(id_, target, kind, PARENT_FAILED, text) for id_, _, _, text, target, kind in rows]
        )
        queues = Counter(queue for _, queue, _, _, _, _ in rows)
        count_moves(tx, {(queue, "blocked", "failed"): n for queue, n in queues.items()})
        count_failures(tx, Counter({(queue, PARENT_FAILED): n for queue, n in queues.items()}))
        whys = {child: orphaned(child, StoredState.FAILED) for child, _, children, _, _, _ in rows if children}


def _free(tx: Tx, parents: Iterable[int]) -> None:
    rows = tx.query_many("free_children", [{"parent": parent} for parent in sorted(parents)])
    count_moves(tx, Counter((queue, "blocked", state) for _, queue, state in rows if state != "blocked"))


def _note_late(tx: Tx, late: Sequence[AttemptOutcome], worker: str) -> None:
    """Records late outcomes in the history, unless the same outcome was settled and only the response was lost."""
    keys = {(outcome.job.id, outcome.job.fence): outcome for outcome in reversed(late)}
    rows = tx.query_many("attempt_rows", [{"job": job, "fence": fence} for job, fence in keys])
    kinds = {(job, fence): kind for job, fence, kind in rows}
    tx.query_many(
        "stale_results",
        [
            {
                "id": job,
                "fence": fence,
                "attempt": outcome.job.attempt,
                "code": _text(outcome.code),
                "message": str(outcome.ending),
                "actor": worker,
            }
            for (job, fence), outcome in keys.items()
            if kinds.get((job, fence)) not in (str(outcome.ending), str(OutcomeKind.CANCELLED))
        ],
    )


def _row(outcome: AttemptOutcome) -> dict[str, object]:
    status = outcome.status
    return {
        "id": outcome.job.id,
        "fence": outcome.job.fence,
        "outcome": str(outcome.stage),
        "wait": outcome.wait,
        "refund": int(outcome.refund or outcome.ending is OutcomeKind.TRIAL),
        "result": outcome.result,
        "code": _text(outcome.code),
        "status": status if status is not None and 0 <= status < 1_000_000 else None,
        "message": _text(outcome.message),
    }


def _event(outcome: AttemptOutcome, stage: StoredState, worker: str) -> dict[str, object]:
    job, row = outcome.job, _row(outcome)
    stopped = stage is StoredState.CANCELLED  # a user cancelled the job, whatever the handler returned
    return {
        "job": job.id,
        "fence": job.fence,
        "kind": str(OutcomeKind.CANCELLED if stopped else outcome.ending),
        "attempt": job.attempt,
        "began_at": job.claimed_at,
        "code": row["code"],
        "status": row["status"],
        "message": row["message"],
        "actor": worker,
    }


def _text(text: str | None) -> str | None:
    """A text that every database accepts: one bad character must not fail a whole batch."""
    return None if text is None else storable(text, _MAX_TEXT)
