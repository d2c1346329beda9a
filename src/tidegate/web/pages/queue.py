"""`/queue` and `/queue/{name}`: jobs by state, with a filter that lives in the URL; and pausing a queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request, Response

from tidegate.core.actor import Actor
from tidegate.errors import NotFound
from tidegate.ops import actions, allowed, history, listing, reports
from tidegate.ops.listing import Count, ResultPage
from tidegate.ops.reports import JobSummary, QueueReport
from tidegate.store import gate_rows
from tidegate.store.gate_rows import TargetEvent
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.pages import charts, filtering, times
from tidegate.web.pages.filtering import AGES, Chosen
from tidegate.web.pages.paging import cursor_of
from tidegate.web.pages.pausing import end_of
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Flash, act, answer
from tidegate.web.site import Site, site_of

_PAGE_SIZE = 50
_COUNTED = 1000  # a number beside a tab is counted no further
TABS = ("", "queued", "running", "failed", "done", "cancelled")
_STAGES_OF = {"queued": ("blocked", "waiting", "ready"), "": reports.STAGES}

Field = Annotated[str, Form(max_length=2000)]
Wanted = Annotated[Chosen, Depends(filtering.chosen)]
Cursor = Annotated[str, Query(max_length=500)]


@dataclass(frozen=True, slots=True)
class JobsPage:
    """The jobs that were asked for, and what surrounds them."""

    jobs: ResultPage[JobSummary]
    counts: dict[str, Count]
    queues: list[QueueReport]
    kinds: list[str]
    codes: list[str]
    events: list[TargetEvent]
    may: dict[int, tuple[str, ...]]  # what can be done to each job
    past: charts.Past | None  # of one queue
    held: dict[str, str]  # what stands before all jobs of a target


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

    def work(tx: Tx) -> tuple[float, float]:
        now = now_of(tx)
        end = end_of(lasts, until, now)
        return actions.pause_queue(tx, name, end, by, site.queue.queues()), now

    said = act(site, work, lambda end: Flash(
        text=f"The queue {name} is paused until {times.clock(*end)}.", undo="resume_queue", of=name
    ))  # fmt: skip
    return answer(request, said, back, "/queue", name)


@router.post("/queue/{name:path}/resume")
def resume(request: Request, name: str, back: Field = "") -> Response:
    site = site_of(request)

    def say(was: bool) -> Flash:
        if was:
            return Flash(text=f"The queue {name} goes on.")
        return Flash(text=f"The queue {name} was not paused.", tone="warn")

    by = site.actor_of(request)
    said = act(site, lambda tx: actions.resume_queue(tx, name, by, site.queue.queues()), say)
    return answer(request, said, back, "/queue", name)


def _page(
    site: Site, request: Request, chosen: Chosen, cursor: str, name: str | None, span: str = charts.DEFAULT
) -> Response:
    seen = site.read(lambda tx: _load_page(tx, chosen, cursor, name, span))
    queue = next((each for each in seen.queues if each.name == name), None)
    if name is not None and queue is None:
        if name not in site.queue.queues():
            raise NotFound(f"there is no queue {name!r}")
        queue = QueueReport(name=name, jobs={})
    kept = chosen if name is None else chosen.without("queue")
    return page(
        request, "queue.html", seen=seen, wanted=chosen, kept=kept, queue=queue, path="/queue", tabs=TABS, ages=AGES,
        names=[] if name is None else [name], paged=bool(cursor), bulk=_together(seen, chosen),
        jobs_in_all=sum(sum(each.jobs.values()) for each in seen.queues),
    )  # fmt: skip


def _load_page(tx: Tx, chosen: Chosen, cursor: str, name: str | None, span: str) -> JobsPage:
    queues = reports.queues(tx)
    jobs = cursor_of(cursor, lambda given: listing.jobs(tx, chosen.wanted, cursor=given, limit=_PAGE_SIZE))
    return JobsPage(
        jobs=jobs,
        counts=_counts(tx, chosen, queues, jobs, cursor),
        queues=queues,
        kinds=listing.kinds(tx),
        codes=listing.codes(tx),
        events=[] if name is None else gate_rows.events(tx, "queue", name, 8),
        may=allowed.of_jobs(tx, (job.id for job in jobs.items)),
        held=reports.holding(tx, jobs.items),
        past=None if name is None else charts.of_queue(history.of_queue(tx, name, span), span, now_of(tx)),
    )


def _together(seen: JobsPage, chosen: Chosen) -> list[str]:
    """What is offered for all jobs of a state: what can be done to one of those that are shown."""
    if not chosen.state:
        return []
    return list(dict.fromkeys(action for actions in seen.may.values() for action in actions))


def _counts(
    tx: Tx, chosen: Chosen, queues: list[QueueReport], jobs: ResultPage[JobSummary], cursor: str
) -> dict[str, Count]:
    """How many jobs a tab has, in the scope of the list: of all where tallies know it, else of the one shown."""
    if set(chosen.query) <= {"queue", "state"}:
        of = [queue for queue in queues if chosen.queue in ("", queue.name)]
        return {
            tab: Count(sum(each.jobs.get(stage, 0) for each in of for stage in _STAGES_OF.get(tab, (tab,))))
            for tab in {*TABS, chosen.state}
        }
    if jobs.next is None and not cursor:
        return {chosen.state: Count(len(jobs.items))}
    return {chosen.state: listing.count(tx, chosen.wanted, _COUNTED)}
