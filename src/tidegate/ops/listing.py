"""Lists of jobs and targets, a page at a time, and how many there are without counting them all."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tidegate.ops import cursors, finding, target_reports
from tidegate.ops.finding import USUAL, Effort
from tidegate.ops.reports import STAGES, JobSummary
from tidegate.ops.searching import NEVER, QUEUED, JobQuery
from tidegate.ops.target_reports import StatusRow, TargetReport
from tidegate.ops.words import TARGETS, URGENCY
from tidegate.store import tallies
from tidegate.store.now import now_of
from tidegate.store.tx import Tx

T = TypeVar("T")

MAX_COUNTED = 10_000
STATES = ("queued", *STAGES)
_MARK = "j"  # of the cursors of jobs
_MAX_CHOICES = 300  # kinds or codes that a filter offers
_SLACK = 5.0  # seconds by which a job may have a smaller id than one that was made before it


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs; an empty text stands for any.

    *state* is a stage, or queued for blocked, waiting and ready together; *code* is that of the last failure, *failure*
    the group that it belongs to. *older* and *younger* are seconds since the job was made, at least and at most.
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

    def as_json(self) -> dict[str, Any]:
        """What is asked for, without what is not."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[T]):
    """Some of a list. *next* is the cursor of what follows; None at the end."""

    items: list[T]
    next: str | None

    def as_json(self, shown: Callable[[T], Any]) -> dict[str, Any]:
        return {"items": [shown(item) for item in self.items], "next_cursor": self.next}


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are; *capped*: at least so many."""

    n: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.n:,}+" if self.capped else f"{self.n:,}"

    def as_json(self) -> dict[str, Any]:
        return {"total": self.n, "total_is_capped": self.capped}


def jobs(
    tx: Tx, job_filter: Filter, *, cursor: str | None = None, limit: int = 50, effort: Effort = USUAL
) -> ResultPage[JobSummary]:
    """The jobs that match, the newest first. ValueError for a cursor that is none.

    A page may be short, even empty, and still have a next one: what matches is rare, and only so much is looked at for
    one page.
    """
    search = _search(tx, job_filter, slack=_SLACK)
    before = min(cursors.read_cursor(cursor, _MARK), search.below)
    seen = finding.ways(tx, search, effort).found(tx, before, limit + 1)
    items = [JobSummary(*row) for row in seen.rows[:limit]]
    reached = items[-1].id if len(seen.rows) > limit else seen.floor
    return ResultPage(items, cursors.write_cursor(_MARK, reached) if reached else None)


def count(tx: Tx, job_filter: Filter, limit: int = MAX_COUNTED, effort: Effort = USUAL) -> Count:
    """How many match, counted no further than *most*; at least so many when they are too rare to be counted."""
    narrow = (job_filter.kind, job_filter.target, job_filter.code, job_filter.failure)
    if not (any(narrow) or job_filter.older is not None or job_filter.younger is not None):
        states = {"": STAGES, "queued": QUEUED}.get(job_filter.state, (job_filter.state,))
        n = sum(
            n for (queue, what), n in tallies.read(tx).items() if what in states and job_filter.queue in ("", queue)
        )
        return Count(min(n, limit), capped=n > limit)
    search = replace(_search(tx, job_filter, slack=0), earliest=0.0, latest=NEVER)
    return Count(*finding.ways(tx, search, effort).counted(tx, limit))


def targets(
    tx: Tx, *, state: str = "", name: str = "", cursor: str | None = None, limit: int = 50
) -> ResultPage[TargetReport]:
    """Those that need attention first, then by name. *state* is a token; *name* is a part of the name."""
    if state and state not in TARGETS:
        raise ValueError(f"state: {state!r} is not allowed; give one of: {', '.join(TARGETS)}")
    after = _place(cursor)
    part = name.casefold()
    found = [
        stands for stands in by_urgency(target_reports.standings(tx))
        if state in ("", stands.token) and part in stands.name.casefold() and place(stands) > after
    ]  # fmt: skip
    items = found[:limit]
    return ResultPage([stands.report() for stands in items], _cursor(place(items[-1])) if len(found) > limit else None)


def by_urgency(found: list[StatusRow]) -> list[StatusRow]:
    return sorted(found, key=place)


def place(stands: StatusRow) -> tuple[int, str]:
    """Where it stands in the list."""
    return URGENCY[stands.token], stands.name


def kinds(tx: Tx) -> list[str]:
    """The kinds of jobs that have ended, and of the newest ones."""
    ended = {kind for _, kind in tx.query("list_places", {"queue": "", "most": _MAX_CHOICES})}
    return sorted(ended | {row[0] for row in tx.query("list_newest_kinds", {"n": _MAX_CHOICES})})


def codes(tx: Tx) -> list[str]:
    """The codes of the last failures of all jobs that are kept."""
    return [row[0] for row in tx.query("list_codes", {"most": _MAX_CHOICES})]


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
    return int(tx.query("list_id_at", {"moment": moment})[0][0])


def _place(cursor: str | None) -> tuple[int, str]:
    if cursor is None:
        return -1, ""
    try:
        rank, _, name = (
            base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode().partition(":")
        )
        return int(rank), name
    except ValueError:
        raise cursors.bad_cursor(cursor) from None


def _cursor(where: tuple[int, str]) -> str:
    return base64.urlsafe_b64encode(f"{where[0]}:{where[1]}".encode()).decode().rstrip("=")
