"""`/jobs/{id}`: one job, its wait reason, its attempts and the available actions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request, Response

from tidegate.errors import NotFound, Rejected
from tidegate.faults.redaction import shown_json
from tidegate.jobs import actions, reports
from tidegate.jobs.job import Job, JobEvent
from tidegate.jobs.reports import JobReport, JobSummary
from tidegate.store.base import Tx
from tidegate.web.api.job_models import line_of
from tidegate.web.pages import charts, formatters
from tidegate.web.pages.charts import TimeSpan
from tidegate.web.pages.formatters import of_job
from tidegate.web.pages.forms import Flash, act, answer, attempt
from tidegate.web.pages.render import page
from tidegate.web.site import site_of

_MAX_TEXT = 4000
_SCREEN = 100  # attempts in the chart
_TOLD_ELSEWHERE = ("processing", "queued")

Id = Annotated[int, Path(ge=1, le=2**62)]
Field = Annotated[str, Form(max_length=2000)]


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt of a job. *ended* is None while it runs. *waited* is the idle time before it."""

    n: int
    began: float
    ended: float | None
    event: JobEvent | None
    worker: str
    waited: float | None

    @property
    def kind(self) -> str:
        return "processing" if self.event is None else self.event.kind


@dataclass(frozen=True, slots=True)
class JobPage:
    report: JobReport
    line: JobSummary
    attempts: list[AttemptRow]  # newest first
    others: list[JobEvent]  # newest first
    parents: list[tuple[int, str]]
    duplicate: int | None
    held: Mapping[str, str]  # what holds all jobs of its target
    may: tuple[str, ...]  # available actions


router = APIRouter()


@router.get("/jobs/{id_}")
def show(request: Request, id_: Id) -> Response:
    site = site_of(request)
    job_page = site.read(lambda tx: _load_page(tx, id_))
    job = job_page.report.job
    now = site.queue.clock.now()
    return page(
        request,
        "job.html",
        seen=job_page,
        job=job,
        line=job_page.line,
        picture=_attempt_chart(job_page, now),
        told_attempt=of_job,
        texts=[(name, *_cut(text)) for name, text in _texts(job)],
        states=_held_while(job.unique_while),
        stage=job.stage,
        final=job.state.final,
        may=job_page.may,
    )


@router.get("/jobs/{id_}/forget")
def ask(request: Request, id_: Id) -> Response:
    report = site_of(request).read(lambda tx: reports.job(tx, id_))
    return page(request, "forget.html", job=report.job, final=report.job.state.final)


@router.post("/jobs/{id_}/retry")
def retry(request: Request, id_: Id, back: Field = "") -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        actions.retry(tx, id_, site.actor_of(request))
        return Flash(text=f"Job {id_} was queued again; its attempts start from one.")

    return answer(request, act(site, work), back, f"/jobs/{id_}")


@router.post("/jobs/{id_}/cancel")
def cancel(request: Request, id_: Id, back: Field = "") -> Response:
    site = site_of(request)

    def work() -> Flash:
        try:
            was = site.queue.cancel(id_, site.actor_of(request))
        except KeyError:
            raise NotFound(f"there is no job {id_}") from None
        if was is None:
            raise Rejected(f"job {id_} has ended already; there is nothing to cancel")
        if was == "asked":
            return Flash(text=f"Job {id_} runs, and was asked to stop.")
        return Flash(text=f"Job {id_} was cancelled.", undo="retry_job", of=str(id_))

    return answer(request, attempt(work), back, f"/jobs/{id_}")


@router.post("/jobs/{id_}/forget")
def forget(request: Request, id_: Id, back: Field = "") -> Response:
    site = site_of(request)

    def work(tx: Tx) -> Flash:
        actions.forget(tx, id_, site.actor_of(request))
        return Flash(text=f"Job {id_} was forgotten, with its history.")

    flash = act(site, work)
    if flash.tone != "good":
        return answer(request, flash, "", f"/jobs/{id_}")
    return answer(request, flash, back, "/queue")


def _load_page(tx: Tx, id_: int) -> JobPage:
    report = reports.job(tx, id_)
    job = report.job
    rows = attempts(report.events)
    others = [event for event in report.events if event.duration is None and event.kind not in _TOLD_ELSEWHERE]
    parents = [(parent, kind) for _, parent, kind, _ in tx.query("parent_results", {"child": id_})]
    may = actions.of_jobs(tx, [id_])[id_]
    line = line_of(job)
    held = reports.holding(tx, [line])
    return JobPage(report, line, rows[::-1], others[::-1], parents, _duplicate(tx, job), held, may)


def _duplicate(tx: Tx, job: Job) -> int | None:
    """Return the id of the other job that holds the same unique key."""
    if job.unique_key is None:
        return None
    rows = tx.query_many("twins", [{"kind": job.kind, "unique_key": job.unique_key}])
    return next((id_ for id_, _, _ in rows if id_ != job.id), None)


def attempts(events: list[JobEvent]) -> list[AttemptRow]:
    """Group events into attempts, oldest first."""
    ends = {event.fence: event for event in events if event.duration is not None}
    rows: list[AttemptRow] = []
    free_since: float | None = next((event.at for event in events if event.kind == "queued"), None)
    for event in events:
        if event.kind != "processing":
            continue
        end = ends.get(event.fence)
        waited = None if free_since is None else max(0.0, event.at - free_since)
        rows.append(
            AttemptRow(event.attempt, event.at, None if end is None else end.at, end, event.actor or "", waited)
        )
        free_since = None if end is None else end.at
    return rows


def _attempt_chart(job_page: JobPage, now: float) -> str:
    """Draw the attempts of a job over its lifetime, with the outcome of each."""
    if len(job_page.attempts) < 2:
        return ""  # a single bar shows nothing
    job = job_page.report.job
    end = job.finished_at or now
    shown = [
        TimeSpan(
            attempt.began,
            attempt.ended or end,
            of_job(attempt.kind).tone,
            f"Attempt {attempt.n}: {of_job(attempt.kind).text}",
        )
        for attempt in reversed(job_page.attempts[:_SCREEN])
    ]
    label = f"{formatters.many(len(job_page.attempts), 'attempt')} in {formatters.span(max(1.0, end - job.created_at))}"
    return charts.stretches(shown, job.created_at, end, label)


def _texts(job: Job) -> list[tuple[str, str]]:
    return [
        (name, text) for name, text in (("Arguments", job.args), ("Saved", job.saved), ("Result", job.result)) if text
    ]


def _cut(text: str) -> tuple[str, int]:
    """Return JSON for display, redacted and cut, and the number of characters left out."""
    value: Any = shown_json(text)
    shown = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return shown[:_MAX_TEXT], max(0, len(shown) - _MAX_TEXT)


def _held_while(mask: int) -> str:
    names = ("queued", "running", "done", "failed", "cancelled")
    return ", ".join(name for bit, name in enumerate(names) if mask & 1 << bit)
