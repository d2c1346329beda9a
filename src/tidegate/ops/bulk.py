"""The same thing done to many jobs: counted first, put down as a thing of its own, then done slice by slice.

Whoever asked for it does it, or waits while the server does; and when they are gone, the server or a worker goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core.actor import Actor
from tidegate.core.progress import Progress, unheard
from tidegate.errors import NotThere, Refused, UniqueTaken
from tidegate.ops import allowed, cursors, listing
from tidegate.ops.listing import Count, Filter, Page
from tidegate.store import activity_rows, bulk_rows, bulk_work
from tidegate.store.activity_rows import Place
from tidegate.store.bulk_rows import Bulk, Item
from tidegate.store.tx import Store, Tx

MOST_AT_ONCE = 100_000
MOST_LEFT = 1000  # ids of jobs that were not changed, which an outcome names
_PAGE = 5000


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done to many: to jobs in which states, and to which of them if no state is asked for."""

    states: tuple[str, ...]
    usual: tuple[str, ...]
    only: str  # why not to others
    newest_first: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of them. *left* were not changed: a twin has taken their place, or they are not as they were.

    *bulk* is the id under which it is kept; None when nothing matched. *state* is running when another goes on with it.
    """

    matched: int
    changed: int = 0
    left: tuple[int, ...] = ()  # the first of them
    bulk: int | None = field(default=None, compare=False)
    state: str = field(default=bulk_rows.DONE, compare=False)

    @property
    def refused(self) -> int:
        return self.matched - self.changed

    def as_json(self) -> dict[str, Any]:
        return {"id": self.bulk, "matched": self.matched, "changed": self.changed, "left": list(self.left)}


class OtherNumber(Refused):
    """Not so many match as were expected, or too many; nothing was done."""

    def __init__(self, message: str, matched: int, expected: int) -> None:
        super().__init__(message)
        self.matched, self.expected = matched, expected


ACTIONS: Mapping[str, Action] = {
    "retry": Action(("failed", "cancelled"), ("failed",), "only failed or cancelled jobs can be retried"),
    "cancel": Action(
        ("queued", "blocked", "waiting", "ready", "running"), ("queued", "running"),
        "only queued or running jobs can be cancelled",
        newest_first=True,  # a job that waits for another ends with it, and would not be found any more
    ),
    "forget": Action(
        ("done", "failed", "cancelled"), ("done", "failed", "cancelled"), "only jobs that have ended can be forgotten",
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


def _states(action: str, wanted: Filter) -> tuple[str, ...]:
    if action not in ACTIONS:
        raise ValueError(f"action: {action!r} is not allowed; give one of: {', '.join(ACTIONS)}")
    about = ACTIONS[action]
    if wanted.state and wanted.state not in about.states:
        raise ValueError(f"state: {wanted.state!r} is not allowed here; {about.only}")
    return (wanted.state,) if wanted.state else about.usual


# -- doing it --------------------------------------------------------------------------------------------------------


def holder() -> str:
    """A name for one who works on them."""
    return f"bulk-{secrets.token_hex(6)}"


def begin(
    store: Store, action: str, wanted: Filter, by: str, *, expected: int, held_by: str = "", most: int = MOST_AT_ONCE
) -> Bulk | None:
    """Puts it down, if as many match as *expected*; Refused if not, None when nothing matches and nothing should.

    *held_by* is at it from the start; else whoever looks first.
    """
    ids = store.read(lambda tx: matching(tx, action, wanted, most))
    if len(ids) > most:
        raise OtherNumber(f"more than {most:,} jobs match; narrow it down", most, expected)
    if len(ids) != expected:
        said = f"{len(ids)} match, not {expected}; look again before you {action}"
        raise OtherNumber(said, len(ids), expected)
    if not ids:
        return None
    if ACTIONS[action].newest_first:
        ids.reverse()

    def put(tx: Tx) -> Bulk:
        id_ = bulk_rows.new(tx, action, wanted.as_json(), Actor.of(by), ids)
        about = {"action": action, "jobs": len(ids), "filter": wanted.as_json()}
        activity_rows.note(tx, by, "bulk_started", Place(subject="bulk", name=str(id_)), became=about)
        if held_by:
            bulk_rows.leads(tx, id_, held_by)
        return require(tx, id_)

    return store.write(put)


def step(store: Store, id_: int, held_by: str) -> Bulk | None:
    """Does the next slice of it; None when another is at it, or it is gone."""
    try:
        return store.write(lambda tx: bulk_work.advance(tx, id_, held_by))
    except UniqueTaken:
        return store.write(lambda tx: bulk_work.split(tx, id_, held_by))


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
    """Does it to all that match, if they are as many as *expected*; Refused if not. *progress* hears how far it is.

    What *progress* raises ends it between two slices: what is done is done, the rest is not.
    """
    me = holder()
    one = begin(store, action, wanted, by, expected=expected, held_by=me, most=most)
    if one is None:
        return Outcome(0)
    id_, heard = one.id, 0
    try:
        while one is not None and one.running:
            one = step(store, id_, me)
            if one is not None and one.done > heard:
                heard = one.done
                progress(one.done, one.expected)
    except BaseException:
        store.write(lambda tx: bulk_rows.end(tx, id_, bulk_rows.CANCELLED, "it was interrupted", by))
        raise
    finally:
        store.write(lambda tx: bulk_rows.let_go(tx, id_, me))
    return store.read(lambda tx: outcome(tx, require(tx, id_)))


def outcome(tx: Tx, one: Bulk) -> Outcome:
    """What became of it so far; what a cancelled one did not come to counts as not matched."""
    left = [each.job for each in bulk_rows.items(tx, one.id, refused_only=True, most=MOST_LEFT)]
    return Outcome(one.done, one.changed, tuple(sorted(left)), one.id, one.state)


def cancel(tx: Tx, id_: int, by: str) -> Bulk:
    """Ends it after the slice that it is at: what is done is done, the rest is not. Refused when it has ended."""
    one = bulk_rows.locked(tx, id_)
    if one is None:
        raise NotThere(_missing(id_))
    if not one.running:
        raise Refused(f"bulk action {id_} has ended: it is {one.state}")
    left = one.expected - one.done
    bulk_rows.end(tx, id_, bulk_rows.CANCELLED, f"{left:,} jobs stayed as they were", str(by))
    was = {"state": one.state, "done": one.done}
    activity_rows.note(tx, by, "bulk_cancelled", Place(subject="bulk", name=str(id_)), was=was, became={"left": left})
    return require(tx, id_)


# -- looking at it ---------------------------------------------------------------------------------------------------


def require(tx: Tx, id_: int) -> Bulk:
    found = bulk_rows.get(tx, id_)
    if found is None:
        raise NotThere(_missing(id_))
    return found


def listed(tx: Tx, *, cursor: str | None = None, most: int = 50) -> Page[Bulk]:
    """The newest first."""
    found = bulk_rows.listed(tx, most + 1, cursors.read(cursor, "b"))
    return Page(found[:most], cursors.written("b", found[most - 1].id) if len(found) > most else None)


def items(
    tx: Tx, id_: int, *, refused_only: bool = False, cursor: str | None = None, most: int = 100
) -> Page[Item]:  # fmt: skip
    """What became of its jobs, in the order in which they were done. Of very many only some are kept."""
    require(tx, id_)
    after = cursors.read(cursor, "i", -1)
    found = bulk_rows.items(tx, id_, refused_only=refused_only, after=after, most=most + 1)
    return Page(found[:most], cursors.written("i", found[most - 1].at) if len(found) > most else None)


def _missing(id_: int) -> str:
    return f"there is no bulk action {id_}; they are kept for 30 days after they have ended"
