"""The same thing done to many jobs: counted first, then done in slices, never in one long transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core.progress import Progress, unheard
from tidegate.errors import Refused, UniqueTaken
from tidegate.ops import allowed, listing
from tidegate.ops.listing import Count, Filter
from tidegate.store import gate_rows, people
from tidegate.store.tx import Store, Tx

MOST_AT_ONCE = 100_000
_SLICE = 100
_PAGE = 5000

Done = Callable[[Tx, Sequence[int], str], Collection[int]]  # the ids that were changed


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done to many: to jobs in which states, and to which of them if no state is asked for."""

    states: tuple[str, ...]
    usual: tuple[str, ...]
    only: str  # why not to others
    do: Done
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of them; *left* were not changed: a twin has taken their place, or they are not as they were."""

    matched: int
    changed: int = 0
    left: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {"matched": self.matched, "changed": self.changed, "left": list(self.left)}


def _retry(tx: Tx, ids: Sequence[int], by: str) -> Collection[int]:
    return {id_ for id_ in ids if people.retry(tx, id_, by)}


def _cancel(tx: Tx, ids: Sequence[int], by: str) -> Collection[int]:
    return {id_ for id_ in ids if people.cancel(tx, id_, by) is not None}


def _forget(tx: Tx, ids: Sequence[int], by: str) -> Collection[int]:
    queues = {id_: job.queue for id_ in ids if (job := people.get(tx, id_)) is not None}
    gone = {id_ for id_ in queues if people.forget(tx, id_)}
    for queue, n in sorted(Counter(queues[id_] for id_ in gone).items()):
        # Their own history is gone with them, so their queue's tells of it.
        gate_rows.happened(tx, "queue", queue, "jobs_forgotten", by, fields={"jobs": n})
    return gone


ACTIONS: Mapping[str, Action] = {
    "retry": Action(("failed", "cancelled"), ("failed",), "only failed or cancelled jobs can be retried", _retry),
    "cancel": Action(
        ("queued", "blocked", "waiting", "ready", "running"), ("queued", "running"),
        "only queued or running jobs can be cancelled", _cancel,
        newest_first=True,  # a job that waits for another ends with it, and would not be found any more
    ),
    "forget": Action(
        ("done", "failed", "cancelled"), ("done", "failed", "cancelled"), "only jobs that have ended can be forgotten",
        _forget,
    ),
}  # fmt: skip


def preview(tx: Tx, action: str, wanted: Filter) -> Count:
    """How many jobs it would be; *capped* when they are more than can be done at once."""
    found = matching(tx, action, wanted)
    return Count(min(len(found), MOST_AT_ONCE), capped=len(found) > MOST_AT_ONCE)


def matching(tx: Tx, action: str, wanted: Filter, most: int = MOST_AT_ONCE) -> list[int]:
    """The ids of the jobs that are meant and to which it may be done, the oldest first; not many more than *most*."""
    found: list[int] = []
    for state in _states(action, wanted):
        cursor: str | None = None
        while len(found) <= most:
            page = listing.jobs(tx, replace(wanted, state=state), cursor=cursor, most=_PAGE)
            found += [
                id_ for id_, able in allowed.of_jobs(tx, (job.id for job in page.items)).items() if action in able
            ]
            if (cursor := page.next) is None:
                break
    return sorted(found)


def run(
    store: Store,
    action: str,
    wanted: Filter,
    by: str,
    *,
    expected: int,
    progress: Progress = unheard,
    most: int = MOST_AT_ONCE,
) -> Outcome:
    """Does it to all that match, if they are as many as *expected*; Refused if not. *progress* hears how far it is."""
    ids = store.read(lambda tx: matching(tx, action, wanted, most))
    if len(ids) > most:
        raise Refused(f"more than {most:,} jobs match; narrow it down")
    if len(ids) != expected:
        raise Refused(f"{len(ids)} match, not {expected}; look again before you {action}")
    if ACTIONS[action].newest_first:
        ids.reverse()
    left: list[int] = []
    for at in range(0, len(ids), _SLICE):
        some = ids[at : at + _SLICE]
        left += _slice(store, ACTIONS[action].do, some, by)
        progress(at + len(some), len(ids))
    return Outcome(len(ids), len(ids) - len(left), tuple(sorted(left)))


def _states(action: str, wanted: Filter) -> tuple[str, ...]:
    if action not in ACTIONS:
        raise ValueError(f"action: {action!r} is not allowed; give one of: {', '.join(ACTIONS)}")
    about = ACTIONS[action]
    if wanted.state and wanted.state not in about.states:
        raise ValueError(f"state: {wanted.state!r} is not allowed here; {about.only}")
    return (wanted.state,) if wanted.state else about.usual


def _slice(store: Store, do: Done, ids: Sequence[int], by: str) -> list[int]:
    """Those that were not changed."""
    try:
        changed = store.write(lambda tx: do(tx, ids, by))
    except UniqueTaken:
        if len(ids) == 1:
            return list(ids)
        # One of them has a twin: each alone, so that the others go.
        return [id_ for one in ids for id_ in _slice(store, do, [one], by)]
    return [id_ for id_ in ids if id_ not in changed]
