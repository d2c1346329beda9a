"""What a person may do to a job as it stands: one rule for buttons, for bulk actions and for their counts."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.job import StoredState
from tidegate.store.tx import Tx

RETRY, CANCEL, FORGET = "retry", "cancel", "forget"


def actions_of(stage: str, *, cancellable: bool, retry_forbidden: bool) -> tuple[str, ...]:
    """The actions, the most useful first. *barred*: what it would need to run was not kept, or is gone."""
    if not StoredState(stage).state.final:
        return (CANCEL,) if cancellable else ()
    return (
        (RETRY, FORGET) if stage in (StoredState.FAILED, StoredState.CANCELLED) and not retry_forbidden else (FORGET,)
    )


def of_jobs(tx: Tx, ids: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The actions of each job that is there."""
    rows = tx.query_many("doable", [{"id": id_} for id_ in ids])
    return {
        int(id_): actions_of(stage, cancellable=bool(cancellable), retry_forbidden=bool(barred))
        for id_, stage, cancellable, barred in rows
    }
