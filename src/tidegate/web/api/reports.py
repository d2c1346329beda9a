"""/history, /overview, /failures and /explain: read-only reports."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Query, Request, Response

from tidegate.admin.overview import overview
from tidegate.errors import NotFound
from tidegate.faults.redaction import shown_message
from tidegate.jobs import history, listing, reports
from tidegate.jobs.listing import Triaged
from tidegate.notices import inbox
from tidegate.store.base import now_of
from tidegate.targets import explain
from tidegate.targets import reports as target_reports
from tidegate.web.api import routing, targets
from tidegate.web.api.models import GateEventShown, JobId, Key, Listed, Moment, Name, Reason, ResponseModel
from tidegate.web.api.queues import QueueShown
from tidegate.web.api.routing import read, responses
from tidegate.web.api.targets import TargetItem
from tidegate.web.site import site_of

# -- /overview ---------------------------------------------------------------------------------------------------------

router = routing.api("overview")


class NeedShown(ResponseModel):
    """One thing that a person should do. `href` is the page where it is done."""

    kind: str
    title: str
    message: str
    subject: str
    href: str
    action: str
    count: int


class OverviewShown(ResponseModel):
    """How everything is. `targets` says how many stand how; `attention` are the first of those that are not well."""

    sentence: str
    healthy: bool
    needs: list[NeedShown]
    targets: dict[str, int]
    attention: list[TargetItem]
    queues: list[QueueShown]
    workers: int
    last_tick_at: Moment | None
    unread_notices: int
    events: list[GateEventShown]


@router.get("/overview", responses=responses(OverviewShown))
def show_overview(request: Request) -> Response:
    """The overall state in one sentence, the problems that need an operator, and the counts."""
    state, unread = site_of(request).read(lambda tx: (overview(tx), inbox.unread(tx)))
    base = str(request.scope.get("root_path", ""))
    return read(
        request,
        OverviewShown(
            sentence=state.sentence,
            healthy=state.healthy,
            needs=[NeedShown.model_validate({**need.as_json(), "href": f"{base}{need.href}"}) for need in state.needs],
            targets=state.targets,
            attention=[targets.shown(target) for target in state.attention],
            queues=[QueueShown.model_validate(queue.as_json()) for queue in state.queues],
            workers=sum(worker.there for worker in state.workers),
            last_tick_at=state.tick,
            unread_notices=unread,
            events=[GateEventShown.of(event) for event in state.events],
        ),
    )


history_router = routing.api("history")

Span = Annotated[Literal["3h", "24h", "7d"], Query(description="How far back: in steps of 5 min, 15 min or 1 h.")]


class QueuePoint(ResponseModel):
    """One step: attempts and how many failed, jobs that gave up; at its end, how many waited and how old the first was.

    `p95` is how many seconds 95 of 100 attempts took at most; null when there was none.
    """

    at: Moment
    attempts: int
    bad: int
    gave_up: int
    p95: float | None
    depth: int
    oldest: float


class TargetPoint(ResponseModel):
    """One step: calls that were good, that failed, and that the breaker turned away."""

    at: Moment
    good: int
    bad: int
    rejected: int


class QueueHistory(ResponseModel):
    """Steps that nobody watched are left out; the last one is not over yet."""

    start: Moment
    end: Moment
    step: int
    points: list[QueuePoint]


class TargetHistory(ResponseModel):
    """Steps that nobody watched are left out; the last one is not over yet."""

    start: Moment
    end: Moment
    step: int
    points: list[TargetPoint]


@history_router.get("/history/queues/{name:path}", responses=responses(QueueHistory, 404))
def of_a_queue(
    request: Request, name: Annotated[Name, Path(description="The name of a queue.")], span: Span = "24h"
) -> Response:
    """The history of a queue: attempts, failures, durations, and waiting jobs."""
    site = site_of(request)
    past, known = site.read(lambda tx: (history.of_queue(tx, name, span), reports.queues(tx)))
    if name not in site.queue.queues() and all(queue.name != name for queue in known):
        raise NotFound(f"there is no queue {name!r}")
    return read(request, QueueHistory.model_validate(past.as_json()))


@history_router.get("/history/targets/{name:path}", responses=responses(TargetHistory, 404))
def of_a_target(
    request: Request, name: Annotated[Name, Path(description="The name of a target.")], span: Span = "24h"
) -> Response:
    """The history of the calls that passed the breaker of a target."""
    past, _ = site_of(request).read(lambda tx: (history.of_target(tx, name, span), target_reports.one(tx, name)))
    return read(request, TargetHistory.model_validate(past.as_json()))


# -- /failures ---------------------------------------------------------------------------------------------------------

failures_router = routing.api("failures")

Bucket = Literal["", "needs_you", "unclassified", "gave_up", "retrying", "over"]


class FailureShown(ResponseModel):
    """Failures that are the same one: the same target or kind, the same code, the same words but for what varies.

    `count` is how often it was met; `jobs_failed` and `jobs_queued` are jobs that have it now, at least so many when
    `jobs_are_capped`; `trend` how often in each of the last 24 hours. `failure` is a filter of the jobs.
    """

    failure: str
    bucket: str
    target: str | None
    kind: str
    code: str
    message: str
    count: int
    first_at: Moment
    last_at: Moment
    jobs_failed: int
    jobs_queued: int
    jobs_are_capped: bool
    trend: list[int]


@failures_router.get("/failures", responses=responses(Listed[FailureShown]))
def list_failures(request: Request, bucket: Annotated[Bucket, Query(description="What they need.")] = "") -> Response:
    """The 100 most recent groups of failures, those that need an operator first."""
    site = site_of(request)
    failures = site.read(lambda tx: listing.triage_failures(tx, site.codes, now_of(tx)))
    items = [_shown(failure) for failure in failures if bucket in ("", failure.bucket)]
    return read(request, Listed.whole(items))


def _shown(row: Triaged) -> FailureShown:
    about = row.as_json()
    return FailureShown.model_validate({**about, "message": shown_message(str(about["message"]))})


# -- /explain ----------------------------------------------------------------------------------------------------------

explain_router = routing.api("explain")


class JobExplained(ResponseModel):
    """The first reason first; none when it runs or has ended."""

    job: int
    state: str
    reasons: list[Reason]


class TargetExplained(ResponseModel):
    target: str
    key: str
    reasons: list[Reason]


@explain_router.get("/explain/jobs/{id}", responses=responses(JobExplained, 404))
def explain_job(request: Request, id: Annotated[JobId, Path()]) -> Response:  # noqa: A002 - its name in the address
    """Why a job is not running."""
    report = site_of(request).read(lambda tx: reports.job(tx, id))
    reasons = [Reason.model_validate(reason.as_json()) for reason in report.reasons]
    return read(request, JobExplained(job=id, state=str(report.job.state), reasons=reasons))


@explain_router.get("/explain/targets/{name:path}", responses=responses(TargetExplained, 404))
def explain_target(request: Request, name: Annotated[Name, Path()], key: Annotated[Key, Query()] = "") -> Response:
    """What holds the jobs of a target, or of one key."""
    reasons = site_of(request).read(lambda tx: explain.target(tx, name, key))
    return read(
        request,
        TargetExplained(target=name, key=key, reasons=[Reason.model_validate(reason.as_json()) for reason in reasons]),
    )
