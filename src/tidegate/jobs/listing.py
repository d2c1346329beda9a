"""Lists of jobs, targets and failures, page by page."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tidegate.faults.codes import Code
from tidegate.faults.fault import Reason
from tidegate.jobs import search as job_search
from tidegate.jobs import settle
from tidegate.jobs.reports import STAGES, JobSummary
from tidegate.jobs.search import NEVER, QUEUED, USUAL, Effort, JobQuery
from tidegate.jobs.settle import FailureGroup
from tidegate.labels import TARGETS, URGENCY
from tidegate.store import base
from tidegate.store.base import ResultPage, Tx, now_of
from tidegate.targets import reports
from tidegate.targets.reports import StatusRow, TargetReport

T = TypeVar("T")

MAX_COUNTED = 10_000
STATES = ("queued", *STAGES)
_MARK = "j"  # the prefix of job cursors
_MAX_CHOICES = 300  # kinds or codes that a filter offers
_SLACK = 5.0  # seconds by which the order of ids and of creation times may differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter for jobs. An empty text matches any value.

    *state*: a stored state, or "queued" for blocked, waiting and ready. *code*: of the last failure. *failure*: the
    failure group. *older* and *younger*: the minimum and maximum age in seconds.
    """

    queue: str = ""
    state: str = ""
    kind: str = ""
    target: str = ""
    code: str = ""
    failure: str = ""
    older: float | None = None
    younger: float | None = None

    def __post_init__(self) -> None:
        if self.state and self.state not in STATES:
            raise ValueError(f"state: {self.state!r} is not allowed; give one of: {', '.join(STATES)}")
        for name in ("older", "younger"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}: {value!r} is not allowed; give seconds, 0 or more")

    def as_json(self) -> dict[str, object]:
        """The fields that are set."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True)
class Count:
    """A count. If *capped*, it is a lower bound."""

    n: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.n:,}+" if self.capped else f"{self.n:,}"

    def as_json(self) -> dict[str, object]:
        return {"total": self.n, "total_is_capped": self.capped}


def jobs(
    tx: Tx, job_filter: Filter, *, cursor: str | None = None, limit: int = 50, effort: Effort = USUAL
) -> ResultPage[JobSummary]:
    """The matching jobs, newest first. Raises ValueError for an invalid cursor.

    A page may be short or empty and still have a next one, because one page scans a limited number of rows.
    """
    search = _search(tx, job_filter, slack=_SLACK)
    before = min(base.read_cursor(cursor, _MARK), search.below)
    seen = job_search.ways(tx, search, effort).found(tx, before, limit + 1)
    items = seen.rows[:limit]
    reached = items[-1].id if len(seen.rows) > limit else seen.floor
    return ResultPage(items, base.write_cursor(_MARK, reached) if reached else None)


def count(tx: Tx, job_filter: Filter, limit: int = MAX_COUNTED, effort: Effort = USUAL) -> Count:
    """The number of matching jobs, counted up to *limit*; a lower bound if matches are too rare to count them all."""
    narrow = (job_filter.kind, job_filter.target, job_filter.code, job_filter.failure)
    if not (any(narrow) or job_filter.older is not None or job_filter.younger is not None):
        states = {"": STAGES, "queued": QUEUED}.get(job_filter.state, (job_filter.state,))
        n = sum(n for (queue, what), n in settle.read(tx).items() if what in states and job_filter.queue in ("", queue))
        return Count(min(n, limit), capped=n > limit)
    search = replace(_search(tx, job_filter, slack=0), earliest=0.0, latest=NEVER)
    return Count(*job_search.ways(tx, search, effort).counted(tx, limit))


def targets(
    tx: Tx, *, state: str = "", name: str = "", cursor: str | None = None, limit: int = 50
) -> ResultPage[TargetReport]:
    """Targets by urgency, then by name. *state*: a status token. *name*: a part of the name."""
    if state and state not in TARGETS:
        raise ValueError(f"state: {state!r} is not allowed; give one of: {', '.join(TARGETS)}")
    after = _place(cursor)
    part = name.casefold()
    rows = [
        stands
        for stands in by_urgency(reports.standings(tx))
        if state in ("", stands.token) and part in stands.name.casefold() and place(stands) > after
    ]
    items = rows[:limit]
    return ResultPage([stands.report() for stands in items], _cursor(place(items[-1])) if len(rows) > limit else None)


def by_urgency(found: list[StatusRow]) -> list[StatusRow]:
    return sorted(found, key=place)


def place(stands: StatusRow) -> tuple[int, str]:
    """The sort key of a target: urgency, then name."""
    return URGENCY[stands.token], stands.name


def kinds(tx: Tx) -> list[str]:
    """The kinds of ended jobs and of the newest jobs."""
    ended = {kind for _, kind in tx.query("list_places", {"queue": "", "most": _MAX_CHOICES})}
    return sorted(ended | {*tx.scalars(str, "list_newest_kinds", {"n": _MAX_CHOICES})})


def codes(tx: Tx) -> list[str]:
    """The codes of the last failures of all jobs."""
    return tx.scalars(str, "list_codes", {"most": _MAX_CHOICES})


def _search(tx: Tx, job_filter: Filter, *, slack: float) -> JobQuery:
    now = now_of(tx)
    search = JobQuery(
        queue=job_filter.queue,
        state=job_filter.state,
        kind=job_filter.kind,
        target=job_filter.target,
        code=job_filter.code,
        failure=job_filter.failure,
    )
    if job_filter.older is not None:
        latest = now - job_filter.older
        search = replace(search, latest=latest, below=_id_at(tx, latest + slack) + 1)
    if job_filter.younger is not None:
        earliest = now - job_filter.younger
        search = replace(search, earliest=earliest, above=_id_at(tx, math.nextafter(earliest - slack, -math.inf)))
    return search


def _id_at(tx: Tx, moment: float) -> int:
    return tx.scalar(int, "list_id_at", {"moment": moment})


def _place(cursor: str | None) -> tuple[int, str]:
    if cursor is None:
        return -1, ""
    try:
        rank, _, name = (
            base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode().partition(":")
        )
        return int(rank), name
    except ValueError:
        raise base.bad_cursor(cursor) from None


def _cursor(where: tuple[int, str]) -> str:
    return base64.urlsafe_b64encode(f"{where[0]}:{where[1]}".encode()).decode().rstrip("=")


# -- failures --------------------------------------------------------------------------------------------------------

MAX_GROUPS = 100
MAX_FAILED_COUNTED = 1000  # jobs of one group
_PERSONS = (Reason.AUTH, Reason.QUOTA, Reason.CONFIG)  # an operator must act; retries do not help

# In order of urgency: token -> (label, icon, tone, description)
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
    """A failure group with its job counts and its bucket."""

    group: FailureGroup
    bucket: str
    failed: Count  # failed jobs
    queued: Count  # jobs that wait for a retry
    retriable: bool  # whether a failed job can be retried
    trend: Sequence[int]  # failures in each of the last 24 hours

    @property
    def who(self) -> str:
        """The target, or the kind of job if it has no target."""
        return self.group.target or self.group.kind

    def as_json(self) -> dict[str, object]:
        group = self.group
        return {
            "failure": group.failure,
            "bucket": self.bucket,
            "target": group.target or None,
            "kind": group.kind,
            "code": group.code,
            "message": group.message,
            "count": group.n,
            "first_at": group.first_at,
            "last_at": group.last_at,
            "jobs_failed": self.failed.n,
            "jobs_queued": self.queued.n,
            "jobs_are_capped": self.failed.capped or self.queued.capped,
            "trend": list(self.trend),
        }


def triage_failures(tx: Tx, codes: Mapping[str, Code], now: float) -> list[Triaged]:
    """The most recent failure groups, by bucket and then newest first."""
    groups = settle.groups(tx, MAX_GROUPS)
    names = [group.failure for group in groups]
    jobs = settle.jobs_in_groups(tx, names, MAX_FAILED_COUNTED + 1)
    trends, able = settle.by_hour(tx, names, now), settle.retriable(tx, names, MAX_FAILED_COUNTED)
    rows = []
    for group in groups:
        failed, queued = (Count(min(n, MAX_FAILED_COUNTED), capped=n > MAX_FAILED_COUNTED) for n in jobs[group.failure])
        needs = bucket(group.code, codes.get(group.code), *jobs[group.failure])
        rows.append(
            Triaged(
                group=group,
                bucket=needs,
                failed=failed,
                queued=queued,
                retriable=failed.capped or group.failure in able,
                trend=trends[group.failure],
            )
        )
    order = list(BUCKETS)
    return sorted(rows, key=lambda row: (order.index(row.bucket), -row.group.last_at))


def bucket(name: str, code: Code | None, failed: int, queued: int) -> str:
    """The bucket of a failure code, by the number of its failed and queued jobs."""
    if not failed + queued:
        return "over"
    if name == "unexpected":
        return "unclassified"
    if code is not None and code.reason in _PERSONS:
        return "needs_you"
    return "gave_up" if failed else "retrying"
