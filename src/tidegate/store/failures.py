"""Failures as groups: those that are the same one, counted, and found again when somebody acts on all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.fingerprint import fingerprint, normalise
from tidegate.store.tx import Row, Tx

HOUR = 3600
HOURLY_RETENTION = 26
_BATCH_SIZE = 5000  # notes that are added up at once


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job whose attempt went badly, or that will never have one."""

    id: int
    target: str
    kind: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failures that are the same one, since *first_at*."""

    failure: str
    target: str
    kind: str  # of the last of them
    code: str
    message: str  # without what varies
    first_at: float
    last_at: float
    n: int


def record_failures(tx: Tx, failed: Sequence[FailedJob]) -> None:
    """Says of each job which group it belongs to, and counts it there."""
    if not failed:
        return
    groups: Counter[tuple[str, str, str, str, str]] = Counter()
    rows = []
    for each in failed:
        name = fingerprint(each.target or each.kind, each.code, each.message)
        rows.append({"id": each.id, "failure": name})
        groups[name, each.target, each.kind, each.code, normalise(each.message)] += 1
    tx.query_many("job_failure", sorted(rows, key=lambda row: row["id"]))
    tx.query_many("failure_notes", [
        {"failure": name, "target": target, "kind": kind, "code": code, "message": message, "n": n}
        for (name, target, kind, code, message), n in groups.items()
    ])  # fmt: skip


def fold_failures(tx: Tx) -> bool:
    """Adds up what was noted; True when there is more of it. Only the leader does this."""
    rows = tx.query("failure_notes_take", {"n": _BATCH_SIZE})
    if rows:
        hours: Counter[tuple[str, int]] = Counter()
        for failure, _, _, _, _, at, n in rows:
            hours[failure, _hour(at)] += n
        found = _together(rows)
        tx.query_many("failure_add", [
            {"failure": each.failure, "target": each.target, "kind": each.kind, "code": each.code,
             "message": each.message, "first_at": each.first_at, "last_at": each.last_at, "n": each.n}
            for each in found
        ])  # fmt: skip
        tx.query_many(
            "failure_hours_add", [{"failure": name, "hour": hour, "n": n} for (name, hour), n in hours.items()]
        )
    return len(rows) == _BATCH_SIZE


def groups(tx: Tx, limit: int) -> list[FailureGroup]:
    """Those that were met last, the newest first, with what is not added up yet."""
    known = [
        FailureGroup(
            failure=row[0],
            target=row[1],
            kind=row[2],
            code=row[3],
            message=row[4],
            first_at=row[5],
            last_at=row[6],
            n=int(row[7]),
        )
        for row in tx.query("failures", {"n": limit})
    ]
    found = _together(tx.query("failure_notes_all"), {each.failure: each for each in known})
    return sorted(found, key=lambda each: -each.last_at)[:limit]


def jobs_in_groups(tx: Tx, names: Iterable[str], limit: int) -> dict[str, tuple[int, int]]:
    """How many jobs of each group failed for good, and how many are tried again, counted no further than *most*."""
    rows = tx.query_many("failure_jobs", [{"failure": name} for name in names], {"n": limit})
    return {name: (int(failed), int(queued)) for name, failed, queued in rows}


def retriable(tx: Tx, names: Iterable[str], limit: int) -> frozenset[str]:
    """The groups of which a failed job can be retried, of the first *most* of each."""
    return frozenset(
        row[0] for row in tx.query_many("failure_retriable", [{"failure": name} for name in names], {"n": limit})
    )


def by_hour(tx: Tx, names: Iterable[str], now: float, hours: int = 24) -> dict[str, list[int]]:
    """How often each was met in each of the last hours, the oldest first."""
    last = _hour(now)
    found = {name: [0] * hours for name in names}
    rows = tx.query_many("failure_hours", [{"failure": name} for name in found], {"since": last - hours * HOUR})
    rows += [(row[0], _hour(row[5]), row[6]) for row in tx.query("failure_notes_all")]
    for name, hour, n in rows:
        place = hours - 1 - (last - int(hour)) // HOUR
        if name in found and 0 <= place < hours:
            found[name][place] += int(n)
    return found


def prune(tx: Tx, older_than: Callable[[float], float], kept: float, limit: int) -> int:
    """Removes a slice of the groups that were last met *kept* seconds ago, and of hours that nobody looks at."""
    gone = tx.query("failures_prune", {"before": older_than(kept), "n": limit})
    hours = tx.query("failure_hours_prune", {"before": _hour(older_than(HOURLY_RETENTION * HOUR)), "n": limit})
    return max(len(gone), len(hours))


def _hour(at: float) -> int:
    return math.floor(at / HOUR) * HOUR


def _together(rows: Iterable[Row], known: dict[str, FailureGroup] | None = None) -> list[FailureGroup]:
    found = dict(known or {})
    for failure, target, kind, code, message, at, n in rows:
        old = found.get(failure)
        found[failure] = FailureGroup(
            failure=failure, target=target, kind=kind, code=code, message=message,
            first_at=at if old is None else min(old.first_at, at), last_at=at if old is None else max(old.last_at, at),
            n=n if old is None else old.n + n,
        )  # fmt: skip
    return [found[name] for name in sorted(found)]
