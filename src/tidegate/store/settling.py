"""Ending attempts, in batches, under their leases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.job import Outcome, Stage
from tidegate.store import tallies
from tidegate.store.tx import Tx

PARENT_FAILED = "parent_failed"


@dataclass(frozen=True, slots=True)
class Settled:
    """Which outcomes count, and which came too late: their jobs belong to somebody else."""

    counted: frozenset[int]
    late: tuple[Outcome, ...]


def settle(tx: Tx, outcomes: Sequence[Outcome], worker: str) -> Settled:
    """Writes how attempts ended, their events and their numbers; a late one changes nothing but its event."""
    if not outcomes:
        return Settled(frozenset(), ())
    rows = tx.many("settle", [_row(outcome) for outcome in outcomes])
    children = {row[0] for row in rows if row[2]}
    counted = frozenset(row[0] for row in rows)
    late = tuple(outcome for outcome in outcomes if outcome.job.id not in counted)
    good = [outcome for outcome in outcomes if outcome.job.id in counted]
    tx.many("attempt_events", [_event(outcome, worker) for outcome in good])
    changes = Counter((outcome.job.queue, str(outcome.stage)) for outcome in good)
    changes.subtract(Counter((outcome.job.queue, "running") for outcome in good))
    tallies.add(tx, changes)
    tallies.failed(tx, Counter((o.job.queue, o.code or "") for o in good if o.stage is Stage.FAILED))
    for outcome in good:
        if outcome.job.id in children and outcome.stage.state.final:
            end_children(tx, outcome.job.id, outcome.stage)
    for outcome in late:
        if not _already_counted(tx, outcome):
            note = {"kind": "stale_result", "code": outcome.code, "message": str(outcome.ending), "actor": worker}
            tx.all("action_event", {"id": outcome.job.id, **note})
    return Settled(counted, late)


def end_children(tx: Tx, parent: int, stage: Stage) -> None:
    """What the end of a parent means for those that wait for it, and for theirs."""
    waiting = [(parent, stage)]
    while waiting:
        ended, how = waiting.pop()
        if how is Stage.DONE:
            freed = tx.all("free_children", {"parent": ended})
            now_open = [(queue, state) for _, queue, state in freed if state != "blocked"]
            tallies.add(tx, Counter(now_open))
            tallies.add(tx, Counter({(queue, "blocked"): -n for queue, n in Counter(q for q, _ in now_open).items()}))
            continue
        message = f"Job {ended}, which it waits for, has failed."
        rows = tx.all("fail_children", {"parent": ended, "code": PARENT_FAILED, "message": message})
        for child, _, grandchildren in rows:
            tx.all(
                "action_event",
                {"id": child, "kind": "failed", "code": PARENT_FAILED, "message": None, "actor": "parent"},
            )
            if grandchildren:
                waiting.append((child, Stage.FAILED))
        queues = Counter(queue for _, queue, _ in rows)
        tallies.add(tx, Counter({(queue, "blocked"): -n for queue, n in queues.items()}))
        tallies.add(tx, Counter({(queue, "failed"): n for queue, n in queues.items()}))
        tallies.failed(tx, Counter({(queue, PARENT_FAILED): n for queue, n in queues.items()}))


def _already_counted(tx: Tx, outcome: Outcome) -> bool:
    """Whether this very outcome was written before: the answer to an earlier settle was lost on the way."""
    rows = tx.all("attempt_row", {"job": outcome.job.id, "fence": outcome.job.fence})
    return bool(rows) and rows[0][0] == str(outcome.ending)


def _row(outcome: Outcome) -> dict[str, object]:
    return {
        "id": outcome.job.id, "fence": outcome.job.fence, "outcome": str(outcome.stage), "wait": outcome.wait,
        "refund": int(outcome.refund), "result": outcome.result, "code": outcome.code, "status": outcome.status,
        "message": outcome.message,
    }  # fmt: skip


def _event(outcome: Outcome, worker: str) -> dict[str, object]:
    job = outcome.job
    return {
        "job": job.id, "fence": job.fence, "kind": str(outcome.ending), "attempt": job.attempt,
        "began_at": job.claimed_at, "code": outcome.code, "status": outcome.status, "message": outcome.message,
        "actor": worker,
    }  # fmt: skip
