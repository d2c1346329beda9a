"""Ending attempts, in batches, under their leases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.job import AttemptOutcome, OutcomeKind, StoredState
from tidegate.core.storable import storable
from tidegate.store import failures, tallies
from tidegate.store.failures import FailedJob
from tidegate.store.tx import Tx

PARENT_FAILED = "parent_failed"
_MAX_TEXT = 2000
# Attempts that came to an end of their own: how long they took says something.
_WENT_BADLY = (OutcomeKind.AGAIN, OutcomeKind.FAILED)
_MADE = (OutcomeKind.DONE, *_WENT_BADLY)
_MET_A_FAULT = (
    *_WENT_BADLY,
    OutcomeKind.GIVEN_BACK,
)  # given back with a code: a person must act before it is tried again


@dataclass(frozen=True, slots=True)
class Settled:
    """Which jobs were ended, and which outcomes came too late: their jobs belong to somebody else."""

    counted: frozenset[int]
    late: tuple[AttemptOutcome, ...]


def settle(tx: Tx, outcomes: Sequence[AttemptOutcome], worker: str) -> Settled:
    """Writes how attempts ended, their events and their numbers; a late one changes nothing but its event."""
    if not outcomes:
        return Settled(frozenset(), ())
    first: dict[tuple[int, int], AttemptOutcome] = {}
    for outcome in outcomes:  # an attempt ends once; a second word about it is too late
        first.setdefault((outcome.job.id, outcome.job.fence), outcome)
    # In order of their ids, like everybody who locks several jobs: two at once must not meet crosswise.
    rows = tx.query_many("settle", [_row(first[key]) for key in sorted(first)])
    ended = [(first[id_, fence], StoredState(state), children) for id_, fence, state, children, _ in rows]
    counted = {id(outcome) for outcome, _, _ in ended}
    late = tuple(outcome for outcome in outcomes if id(outcome) not in counted)
    tx.query_many("attempt_events", [_event(outcome, stage, worker) for outcome, stage, _ in ended])
    changes = Counter((outcome.job.queue, str(stage)) for outcome, stage, _ in ended)
    changes.subtract(Counter((outcome.job.queue, "running") for outcome, _, _ in ended))
    changes.update(
        (o.job.queue, tallies.FAILED + (_text(o.code) or "")) for o, stage, _ in ended if stage is StoredState.FAILED
    )
    changes.update((o.job.queue, tallies.BAD) for o, _, _ in ended if o.ending in _WENT_BADLY and not o.refund)
    changes.update(tallies.count_durations([
        (outcome.job.queue, row[-1] - outcome.job.claimed_at)
        for (outcome, _, _), row in zip(ended, rows, strict=True)
        if not outcome.refund and outcome.ending in _MADE
    ]))  # fmt: skip
    tallies.add(tx, changes)
    failures.record_failures(tx, [
        FailedJob(o.job.id, o.job.target, o.job.kind, _text(o.code) or "", _text(o.message) or "")
        for o, stage, _ in ended
        if o.code and o.ending in _MET_A_FAULT and stage is not StoredState.CANCELLED
    ])  # fmt: skip
    end_children(tx, {o.job.id: stage for o, stage, children in ended if children and stage.state.final})
    if late:
        _note_late(tx, late, worker)
    return Settled(frozenset(outcome.job.id for outcome, _, _ in ended), late)


def end_children(tx: Tx, ended: Mapping[int, StoredState]) -> None:
    """What the end of parents means for those that wait for them, and for theirs."""
    done = [parent for parent, stage in ended.items() if stage is StoredState.DONE]
    if done:
        _free(tx, done)
    fail_children(
        tx, {parent: orphaned(parent, stage) for parent, stage in ended.items() if stage is not StoredState.DONE}
    )


def orphaned(parent: int, stage: StoredState) -> str:
    """What is said of a child whose parent has ended otherwise than done."""
    return f"Job {parent}, which it waits for, {'was cancelled' if stage is StoredState.CANCELLED else 'has failed'}."


def fail_children(tx: Tx, whys: Mapping[int, str]) -> None:
    """Fails those that wait for parents which will not be done, and those that wait for these; *whys* by parent."""
    while whys:
        given = [{"parent": parent, "why": whys[parent]} for parent in sorted(whys)]
        rows = tx.query_many("fail_children", given, {"code": PARENT_FAILED})
        tx.query_many("action_events", [
            {"id": child, "kind": "failed", "code": PARENT_FAILED, "message": message, "actor": "parent"}
            for child, _, _, message, _, _ in rows
        ])  # fmt: skip
        failures.record_failures(
            tx, [FailedJob(id_, target, kind, PARENT_FAILED, text) for id_, _, _, text, target, kind in rows]
        )
        queues = Counter(row[1] for row in rows)
        tallies.count_moves(tx, {(queue, "blocked", "failed"): n for queue, n in queues.items()})
        tallies.count_failures(tx, Counter({(queue, PARENT_FAILED): n for queue, n in queues.items()}))
        whys = {child: orphaned(child, StoredState.FAILED) for child, _, children, _, _, _ in rows if children}


def _free(tx: Tx, parents: Iterable[int]) -> None:
    rows = tx.query_many("free_children", [{"parent": parent} for parent in sorted(parents)])
    tallies.count_moves(tx, Counter((queue, "blocked", state) for _, queue, state in rows if state != "blocked"))


def _note_late(tx: Tx, late: Sequence[AttemptOutcome], worker: str) -> None:
    """Says so in the history, but not when the answer to an earlier settle of the very same was lost on the way."""
    keys = {(outcome.job.id, outcome.job.fence): outcome for outcome in reversed(late)}
    rows = tx.query_many("attempt_rows", [{"job": job, "fence": fence} for job, fence in keys])
    kinds = {(job, fence): kind for job, fence, kind in rows}
    tx.query_many("stale_results", [
        {"id": job, "fence": fence, "attempt": outcome.job.attempt, "code": _text(outcome.code),
         "message": str(outcome.ending), "actor": worker}
        for (job, fence), outcome in keys.items()
        if kinds.get((job, fence)) not in (str(outcome.ending), str(OutcomeKind.CANCELLED))
    ])  # fmt: skip


def _row(outcome: AttemptOutcome) -> dict[str, object]:
    status = outcome.status
    return {
        "id": outcome.job.id, "fence": outcome.job.fence, "outcome": str(outcome.stage), "wait": outcome.wait,
        "refund": int(outcome.refund), "result": outcome.result, "code": _text(outcome.code),
        "status": status if status is not None and 0 <= status < 1_000_000 else None, "message": _text(outcome.message),
    }  # fmt: skip


def _event(outcome: AttemptOutcome, stage: StoredState, worker: str) -> dict[str, object]:
    job, row = outcome.job, _row(outcome)
    stopped = stage is StoredState.CANCELLED  # a person asked for it, whatever the handler said
    return {
        "job": job.id, "fence": job.fence, "kind": str(OutcomeKind.CANCELLED if stopped else outcome.ending),
        "attempt": job.attempt, "began_at": job.claimed_at, "code": row["code"], "status": row["status"],
        "message": row["message"], "actor": worker,
    }  # fmt: skip


def _text(text: str | None) -> str | None:
    """Whatever a handler raised: one bad character must not keep a whole batch out."""
    return None if text is None else storable(text, _MAX_TEXT)
