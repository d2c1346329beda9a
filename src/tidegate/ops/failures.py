"""What failed, as a person sorts it: groups of the same failure, and what each of them needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.codes import Code
from tidegate.core.fault import Reason
from tidegate.ops.listing import Count
from tidegate.store import failures
from tidegate.store.failures import FailureGroup
from tidegate.store.tx import Tx

MAX_GROUPS = 100  # groups that are looked at
MAX_FAILED_COUNTED = 1000  # jobs of one group
_PERSONS = (Reason.AUTH, Reason.QUOTA, Reason.CONFIG)  # what no waiting cures

# In the order in which somebody should look at them: token -> (word, icon, tone, what it is)
BUCKETS: Mapping[str, tuple[str, str, str, str]] = {
    "needs_you": ("Needs you", "alert", "bad", "Waiting does not cure these: a person must change something."),
    "unclassified": (
        "Not known",
        "help",
        "bad",
        "Nobody has said yet what these mean: look at one, and add a rule for it.",
    ),
    "gave_up": (
        "Gave up",
        "cross",
        "warn",
        "These jobs failed for good. Where a retry is offered, it helps once the cause is gone.",
    ),
    "retrying": ("Retrying", "again", "busy", "These jobs are tried again by themselves. There is nothing to do."),
    "over": ("Over", "done", "calm", "No job has this failure any more."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Triaged:
    """One group, with its jobs and the bucket that it belongs to."""

    group: FailureGroup
    bucket: str
    failed: Count  # jobs that failed for good
    queued: Count  # jobs that are tried again
    retriable: bool  # whether one of those that failed can be retried
    trend: Sequence[int]  # how often in each of the last 24 hours

    @property
    def who(self) -> str:
        """Whom it is about: a target, or a kind of job that has none."""
        return self.group.target or self.group.kind

    def as_json(self) -> dict[str, Any]:
        group = self.group
        return {
            "failure": group.failure, "bucket": self.bucket, "target": group.target or None, "kind": group.kind,
            "code": group.code, "message": group.message, "count": group.n, "first_at": group.first_at,
            "last_at": group.last_at, "jobs_failed": self.failed.n, "jobs_queued": self.queued.n,
            "jobs_are_capped": self.failed.capped or self.queued.capped, "trend": list(self.trend),
        }  # fmt: skip


def triage_failures(tx: Tx, codes: Mapping[str, Code], now: float) -> list[Triaged]:
    """The groups that were met last, those first that need somebody, then the newest."""
    found = failures.groups(tx, MAX_GROUPS)
    names = [each.failure for each in found]
    jobs = failures.jobs_in_groups(tx, names, MAX_FAILED_COUNTED + 1)
    trends, able = failures.by_hour(tx, names, now), failures.retriable(tx, names, MAX_FAILED_COUNTED)
    rows = []
    for each in found:
        failed, queued = (Count(min(n, MAX_FAILED_COUNTED), capped=n > MAX_FAILED_COUNTED) for n in jobs[each.failure])
        needs = bucket(each.code, codes.get(each.code), *jobs[each.failure])
        rows.append(Triaged(
            group=each, bucket=needs, failed=failed, queued=queued, retriable=failed.capped or each.failure in able,
            trend=trends[each.failure],
        ))  # fmt: skip
    order = list(BUCKETS)
    return sorted(rows, key=lambda row: (order.index(row.bucket), -row.group.last_at))


def bucket(name: str, code: Code | None, failed: int, queued: int) -> str:
    """What somebody has to do about failures of a code, with so many jobs that failed or are tried again."""
    if not failed + queued:
        return "over"
    if name == "unexpected":
        return "unclassified"
    if code is not None and code.reason in _PERSONS:
        return "needs_you"
    return "gave_up" if failed else "retrying"
