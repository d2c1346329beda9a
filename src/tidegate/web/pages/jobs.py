"""`/queue`, `/queue/{name}` and `/failures`: job lists with a filter in the URL, and pausing a queue."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request, Response

from tidegate.audit import Actor
from tidegate.durations import seconds
from tidegate.errors import NotFound
from tidegate.jobs import actions as job_actions
from tidegate.jobs import history, listing, reports
from tidegate.jobs.listing import BUCKETS, STATES, Count, Filter, Triaged
from tidegate.jobs.reports import JobSummary, QueueReport
from tidegate.store.base import ResultPage, Tx, now_of
from tidegate.targets import table
from tidegate.targets.table import TargetEvent
from tidegate.validation import JsonObject
from tidegate.web.pages import charts, formatters
from tidegate.web.pages.formatters import of
from tidegate.web.pages.forms import Flash, act, answer, cursor_of, end_of
from tidegate.web.pages.render import page
from tidegate.web.site import Site, site_of

# -- job filter --------------------------------------------------------------------------------------------------------
#
# Read from the URL and repeated in every link and form.

_FAILURE = re.compile(r"[0-9a-f]{16}", re.ASCII)
_AGE = re.compile(r"([0-9]{1,4}[smhdw])([+-])", re.ASCII)
AGES = (
    ("5m+", "5 min or older"),
    ("1h+", "1 h or older"),
    ("1d+", "1 day or older"),
    ("7d+", "7 days or older"),
    ("5m-", "at most 5 min old"),
    ("1h-", "at most 1 h old"),
    ("1d-", "at most 1 day old"),
)
Text = Annotated[str, Query(max_length=300)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The filter in the URL. Invalid values are ignored."""

    queue: str = ""
    state: str = ""
    kind: str = ""
    target: str = ""
    code: str = ""
    failure: str = ""
    age: str = ""

    @property
    def wanted(self) -> Filter:
        older, younger = _ages(self.age)
        return Filter(
            queue=self.queue,
            state=self.state if self.state in STATES else "",
            kind=self.kind,
            target=self.target,
            code=self.code,
            failure=self.failure,
            older=older,
            younger=younger,
        )

    @property
    def query(self) -> dict[str, str]:
        """Return the filter as query parameters."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    def without(self, *names: str) -> Chosen:
        return replace(self, **dict.fromkeys(names, ""))

    def with_(self, **values: str) -> Chosen:
        return replace(self, **values)

    @property
    def words(self) -> list[tuple[str, str]]:
        """Return each condition as text, with its name."""
        conditions: JsonObject = {
            "queue": f"in the queue {self.queue}",
            "state": of(self.state).word.lower(),
            "kind": f"of the kind {self.kind}",
            "target": f"for {self.target}",
            "code": f"whose last failure was {self.code}",
            "failure": "of one group of failures",
            "age": dict(AGES).get(self.age, self.age),
        }
        return [(name, conditions[name]) for name in self.query]


def words_of(stored: JsonObject) -> list[str]:
    """Return the same for a stored filter, as `Filter.as_json` returns it."""
    of = {name: stored[name] for name in Chosen.__slots__ if name in stored}
    texts = [word for _, word in Chosen(**of).words]
    ages = {"older": "at least {} old", "younger": "at most {} old"}
    return texts + [text.format(formatters.span(stored[name])) for name, text in ages.items() if name in stored]


def chosen(
    queue: Text = "",
    state: Text = "",
    kind: Text = "",
    target: Text = "",
    code: Text = "",
    failure: Text = "",
    age: Text = "",
) -> Chosen:
    """Return the filter of a request."""
    return Chosen(
        queue=queue.strip(),
        state=state if state in STATES else "",
        kind=kind.strip(),
        target=target.strip(),
        code=code.strip(),
        failure=failure if _FAILURE.fullmatch(failure) else "",
        age=age if _AGE.fullmatch(age) else "",
    )


def _ages(age: str) -> tuple[float | None, float | None]:
    match = _AGE.fullmatch(age)
    if match is None:
        return None, None
    length = seconds(match[1])
    return (length, None) if match[2] == "+" else (None, length)


_PAGE_SIZE = 50
_COUNTED = 1000  # tab counts stop here
TABS = ("", "queued", "running", "failed", "done", "cancelled")
_STAGES_OF = {"queued": ("blocked", "waiting", "ready"), "": reports.STAGES}

Field = Annotated[str, Form(max_length=2000)]
Wanted = Annotated[Chosen, Depends(chosen)]
Cursor = Annotated[str, Query(max_length=500)]


@dataclass(frozen=True, slots=True)
class JobsPage:
    """The listed jobs and the state around them."""

    jobs: ResultPage[JobSummary]
    counts: dict[str, Count]
    queues: list[QueueReport]
    kinds: list[str]
    codes: list[str]
    events: list[TargetEvent]
    may: dict[int, tuple[str, ...]]  # available actions by job
    past: charts.Past | None  # of a single queue
    held: dict[str, str]  # what holds all jobs of a target


router = APIRouter()


@router.get("/queue")
def show_all(request: Request, wanted: Wanted, cursor: Cursor = "") -> Response:
    return _page(site_of(request), request, wanted, cursor, None)


@router.get("/queue/{name:path}")
def show_one(request: Request, name: str, wanted: Wanted, cursor: Cursor = "", span: Cursor = "") -> Response:
    return _page(site_of(request), request, wanted.with_(queue=name), cursor, name, charts.chosen(span))


@router.post("/queue/{name:path}/pause")
def pause(
    request: Request,
    name: str,
    back: Field = "",
    lasts: Field = "",
    until: Field = "",
    reason: Annotated[str, Form(max_length=300)] = "",
) -> Response:
    site = site_of(request)
    by = Actor.of(site.actor_of(request)).because(reason.strip())

    def work(tx: Tx) -> Flash:
        now = now_of(tx)
        end = job_actions.pause_queue(tx, name, end_of(lasts, until, now), by, site.queue.queues())
        text = f"The queue {name} is paused until {formatters.clock(end, now)}."
        return Flash(text=text, undo="resume_queue", of=name)

    return answer(request, act(site, work), back, "/queue", name)


@router.post("/queue/{name:path}/resume")
def resume(request: Request, name: str, back: Field = "") -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        if job_actions.resume_queue(tx, name, site.actor_of(request), site.queue.queues()):
            return Flash(text=f"The queue {name} goes on.")
        return Flash(text=f"The queue {name} was not paused.", tone="warn")

    return answer(request, act(site, work), back, "/queue", name)


def _page(
    site: Site, request: Request, chosen: Chosen, cursor: str, name: str | None, span: str = charts.DEFAULT
) -> Response:
    jobs_page = site.read(lambda tx: _load_page(tx, chosen, cursor, name, span))
    queue = next((report for report in jobs_page.queues if report.name == name), None)
    if name is not None and queue is None:
        if name not in site.queue.queues():
            raise NotFound(f"there is no queue {name!r}")
        queue = QueueReport(name=name, jobs={})
    in_links = chosen if name is None else chosen.without("queue")
    return page(
        request,
        "queue.html",
        seen=jobs_page,
        wanted=chosen,
        kept=in_links,
        queue=queue,
        path="/queue",
        tabs=TABS,
        ages=AGES,
        names=[] if name is None else [name],
        paged=bool(cursor),
        bulk=_bulk_actions(jobs_page, chosen),
        jobs_in_all=sum(sum(report.jobs.values()) for report in jobs_page.queues),
    )


def _load_page(tx: Tx, chosen: Chosen, cursor: str, name: str | None, span: str) -> JobsPage:
    queues = reports.queues(tx)
    jobs = cursor_of(cursor, lambda at: listing.jobs(tx, chosen.wanted, cursor=at, limit=_PAGE_SIZE))
    return JobsPage(
        jobs=jobs,
        counts=_counts(tx, chosen, queues, jobs, cursor),
        queues=queues,
        kinds=listing.kinds(tx),
        codes=listing.codes(tx),
        events=[] if name is None else table.events(tx, "queue", name, 8),
        may=job_actions.of_jobs(tx, (job.id for job in jobs.items)),
        held=reports.holding(tx, jobs.items),
        past=None if name is None else charts.of_queue(history.of_queue(tx, name, span), span, now_of(tx)),
    )


def _bulk_actions(jobs_page: JobsPage, chosen: Chosen) -> list[str]:
    """Return the bulk actions of a state: those available for at least one listed job."""
    if not chosen.state:
        return []
    return list(dict.fromkeys(action for actions in jobs_page.may.values() for action in actions))


def _counts(
    tx: Tx, chosen: Chosen, queues: list[QueueReport], jobs: ResultPage[JobSummary], cursor: str
) -> dict[str, Count]:
    """Return the job count of each tab: of all tabs if counters exist, else only of the current one."""
    if set(chosen.query) <= {"queue", "state"}:
        of = [queue for queue in queues if chosen.queue in ("", queue.name)]
        return {
            tab: Count(sum(report.jobs.get(stage, 0) for report in of for stage in _STAGES_OF.get(tab, (tab,))))
            for tab in {*TABS, chosen.state}
        }
    if jobs.next is None and not cursor:
        return {chosen.state: Count(len(jobs.items))}
    return {chosen.state: listing.count(tx, chosen.wanted, _COUNTED)}


# -- /failures ---------------------------------------------------------------------------------------------------------
#
# Failures grouped by what they need. Each group is retried or discarded as a whole.


@router.get("/failures")
def show(request: Request, bucket: Annotated[str, Query(max_length=40)] = "") -> Response:
    site = site_of(request)
    rows = site.read(lambda tx: listing.triage_failures(tx, site.codes, now_of(tx)))
    counts = {name: sum(row.bucket == name for row in rows) for name in BUCKETS}
    wanted = bucket if bucket in BUCKETS else ""
    return page(
        request,
        "failures.html",
        rows=[row for row in rows if _shown(row, wanted)],
        counts=counts,
        wanted=wanted,
        buckets=BUCKETS,
        newest=max((row.group.last_at for row in rows), default=None),
        codes=site.codes,
        most=len(rows) >= listing.MAX_GROUPS,
    )


def _shown(row: Triaged, wanted: str) -> bool:
    """Past failures are listed only on request."""
    return row.bucket == wanted if wanted else row.bucket != "over"
