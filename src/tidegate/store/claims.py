"""Taking jobs: which lanes have some, claiming, leases, and what happens to those that were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.job import Claimed, Ending, Stage
from tidegate.store import tallies
from tidegate.store.settling import end_children
from tidegate.store.tx import Row, Tx

MOST_DEATHS = 3
_SLICE = 500


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue, a target and a key with ready jobs, and what holds it."""

    queue: str
    target: str
    lane: str
    hold: str | None = None
    hold_until: float | None = None
    paused_until: float | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        return self.queue, self.target, self.lane


START = ("", "", "")


def promote(tx: Tx) -> int:
    """Makes waiting jobs ready whose time has come."""
    moved = Counter(row[0] for row in tx.all("promote", {"n": _SLICE}))
    tallies.add(tx, Counter({(queue, "waiting"): -n for queue, n in moved.items()}))
    tallies.add(tx, Counter({(queue, "ready"): n for queue, n in moved.items()}))
    return sum(moved.values())


def next_due(tx: Tx) -> float | None:
    """When the next waiting job is due."""
    found: float | None = tx.all("next_due")[0][0]
    return found


def lanes(tx: Tx, after: tuple[str, str, str], most: int) -> list[Lane]:
    """The next lanes with ready jobs, after a place, going round once."""
    found = [Lane(*row) for row in _lanes(tx, after, most)]
    if len(found) < most and after != START:
        seen = {lane.place for lane in found}
        found += [lane for row in _lanes(tx, START, most - len(found)) if (lane := Lane(*row)).place not in seen]
    return found


def _lanes(tx: Tx, after: tuple[str, str, str], most: int) -> list[Row]:
    return tx.all("lanes", {"queue": after[0], "target": after[1], "lane": after[2], "most": most})


def claim(tx: Tx, lane: Lane, n: int, worker: str, lease: float) -> list[Claimed]:
    """Up to *n* ready jobs of a lane, under a lease, the most urgent and oldest first."""
    place = {"queue": lane.queue, "target": lane.target, "lane": lane.lane}
    rows = tx.all("claim", {**place, "n": n, "worker": worker, "lease": lease})
    found = sorted((Claimed(*row) for row in rows), key=lambda job: (-job.priority, job.id))
    if found:
        tallies.add(tx, Counter({(lane.queue, "ready"): -len(found), (lane.queue, "running"): len(found)}))
    return found


def mine(tx: Tx, worker: str) -> list[Claimed]:
    """Every job that this worker holds, also those whose claim it never heard of."""
    return [Claimed(*row) for row in tx.all("mine", {"worker": worker})]


@dataclass(frozen=True, slots=True)
class Renewed:
    id: int
    lease_until: float
    stop_asked: bool


def renew(tx: Tx, jobs: Sequence[Claimed], lease: float) -> list[Renewed]:
    """Longer leases; a job that does not come back is lost."""
    rows = tx.many("renew", [{"id": job.id, "fence": job.fence} for job in jobs], {"lease": lease})
    return [Renewed(id_, until, bool(asked)) for id_, until, asked in rows]


def save(tx: Tx, id_: int, fence: int, saved: str) -> bool:
    """Keeps something for the next attempt; False when the lease is lost."""
    return bool(tx.all("save", {"id": id_, "fence": fence, "saved": saved}))


def take_back(tx: Tx, code: str, message: str) -> int:
    """Takes jobs back from workers that were not heard of in time; one that killed three is failed."""
    rows = tx.all("lost_leases", {"n": _SLICE})
    if not rows:
        return 0
    given = []
    for id_, _, _, _, _, fence, _, _, _, deaths, _ in rows:
        dead = deaths + 1 >= MOST_DEATHS
        given.append({
            "id": id_, "fence": fence, "outcome": "failed" if dead else "ready",
            "code": code if dead else None, "message": message if dead else None,
        })  # fmt: skip
    taken = {row[0] for row in tx.many("take_back", given)}
    events, changes, codes = [], Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for id_, queue, _, _, _, fence, attempt, claimed_at, worker, deaths, children in rows:
        if id_ not in taken:
            continue
        dead = deaths + 1 >= MOST_DEATHS
        events.append({
            "job": id_, "fence": fence, "kind": str(Ending.LOST), "attempt": attempt, "began_at": claimed_at,
            "code": code, "status": None, "message": None, "actor": worker,
        })  # fmt: skip
        changes[queue, "running"] -= 1
        changes[queue, "failed" if dead else "ready"] += 1
        codes[queue, code] += dead
        if dead and children:
            end_children(tx, id_, Stage.FAILED)
    tx.many("attempt_events", events)
    tallies.add(tx, changes)
    tallies.failed(tx, codes)
    return len(taken)


def expire(tx: Tx, code: str, message: str) -> int:
    """Fails queued jobs that are too old to be of use."""
    return fail_queued(tx, tx.all("too_old", {"n": _SLICE}), code, message, "clock")


def fail_queued(tx: Tx, rows: Sequence[Row], code: str, message: str, actor: str) -> int:
    """Fails queued jobs, given as (id, queue, stage, children), with their event, their numbers and their children."""
    if not rows:
        return 0
    ended = {
        row[0] for row in tx.many("fail_queued", [{"id": row[0]} for row in rows], {"code": code, "message": message})
    }
    changes, codes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for id_, queue, stage, children in rows:
        if id_ not in ended:
            continue
        tx.all("action_event", {"id": id_, "kind": "failed", "code": code, "message": message, "actor": actor})
        changes[queue, stage] -= 1
        changes[queue, "failed"] += 1
        codes[queue, code] += 1
        if children:
            end_children(tx, id_, Stage.FAILED)
    tallies.add(tx, changes)
    tallies.failed(tx, codes)
    return len(ended)
