"""Failures as groups: those that are the same one, counted, and found again when somebody acts on all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.fingerprint import alike, fingerprint
from tidegate.store.tx import Row, Tx

HOUR = 3600
KEPT_HOURS = 26
_SLICE = 5000  # notes that are added up at once


@dataclass(frozen=True, slots=True)
class Failed:
    """A job whose attempt went badly, or that will never have one."""

    id: int
    target: str
    kind: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Failures that are the same one, since *first_at*."""

    failure: str
    target: str
    kind: str  # of the last of them
    code: str
    message: str  # without what varies
    first_at: float
    last_at: float
    n: int


def note(tx: Tx, failed: Sequence[Failed]) -> None:
    """Says of each job which group it belongs to, and counts it there."""
    if not failed:
        return
    groups: Counter[tuple[str, str, str, str, str]] = Counter()
    rows = []
    for each in failed:
        name = fingerprint(each.target or each.kind, each.code, each.message)
        rows.append({"id": each.id, "failure": name})
        groups[name, each.target, each.kind, each.code, alike(each.message)] += 1
    tx.many("job_failure", sorted(rows, key=lambda row: row["id"]))
    tx.many("failure_notes", [
        {"failure": name, "target": target, "kind": kind, "code": code, "message": message, "n": n}
        for (name, target, kind, code, message), n in groups.items()
    ])  # fmt: skip


def fold(tx: Tx) -> bool:
    """Adds up what was noted; True when there is more of it. Only the leader does this."""
    rows = tx.all("failure_notes_take", {"n": _SLICE})
    if rows:
        hours: Counter[tuple[str, int]] = Counter()
        for failure, _, _, _, _, at, n in rows:
            hours[failure, _hour(at)] += n
        found = _together(rows)
        tx.many("failure_add", [
            {"failure": each.failure, "target": each.target, "kind": each.kind, "code": each.code,
             "message": each.message, "first_at": each.first_at, "last_at": each.last_at, "n": each.n}
            for each in found
        ])  # fmt: skip
        tx.many("failure_hours_add", [{"failure": name, "hour": hour, "n": n} for (name, hour), n in hours.items()])
    return len(rows) == _SLICE


def groups(tx: Tx, most: int) -> list[Group]:
    """Those that were met last, the newest first, with what is not added up yet."""
    known = [
        Group(failure=row[0], target=row[1], kind=row[2], code=row[3], message=row[4], first_at=row[5], last_at=row[6],
              n=int(row[7]))
        for row in tx.all("failures", {"n": most})
    ]  # fmt: skip
    found = _together(tx.all("failure_notes_all"), {each.failure: each for each in known})
    return sorted(found, key=lambda each: -each.last_at)[:most]


def jobs_of(tx: Tx, names: Iterable[str], most: int) -> dict[str, tuple[int, int]]:
    """How many jobs of each group failed for good, and how many are tried again, counted no further than *most*."""
    rows = tx.many("failure_jobs", [{"failure": name} for name in names], {"n": most})
    return {name: (int(failed), int(queued)) for name, failed, queued in rows}


def retriable(tx: Tx, names: Iterable[str], most: int) -> frozenset[str]:
    """The groups of which a failed job can be retried, of the first *most* of each."""
    return frozenset(row[0] for row in tx.many("failure_retriable", [{"failure": name} for name in names], {"n": most}))


def by_hour(tx: Tx, names: Iterable[str], now: float, hours: int = 24) -> dict[str, list[int]]:
    """How often each was met in each of the last hours, the oldest first."""
    last = _hour(now)
    found = {name: [0] * hours for name in names}
    rows = tx.many("failure_hours", [{"failure": name} for name in found], {"since": last - hours * HOUR})
    rows += [(row[0], _hour(row[5]), row[6]) for row in tx.all("failure_notes_all")]
    for name, hour, n in rows:
        place = hours - 1 - (last - int(hour)) // HOUR
        if name in found and 0 <= place < hours:
            found[name][place] += int(n)
    return found


def prune(tx: Tx, older_than: Callable[[float], float], kept: float, most: int) -> int:
    """Removes a slice of the groups that were last met *kept* seconds ago, and of hours that nobody looks at."""
    gone = tx.all("failures_prune", {"before": older_than(kept), "n": most})
    hours = tx.all("failure_hours_prune", {"before": _hour(older_than(KEPT_HOURS * HOUR)), "n": most})
    return max(len(gone), len(hours))


def _hour(at: float) -> int:
    return math.floor(at / HOUR) * HOUR


def _together(rows: Iterable[Row], known: dict[str, Group] | None = None) -> list[Group]:
    found = dict(known or {})
    for failure, target, kind, code, message, at, n in rows:
        old = found.get(failure)
        found[failure] = Group(
            failure=failure, target=target, kind=kind, code=code, message=message,
            first_at=at if old is None else min(old.first_at, at), last_at=at if old is None else max(old.last_at, at),
            n=n if old is None else old.n + n,
        )  # fmt: skip
    return [found[name] for name in sorted(found)]
