"""/jobs: lists, one job with its history, and actions on one job."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tidegate.errors import NotFound, Rejected
from tidegate.jobs import actions, listing, reports
from tidegate.jobs.reports import JobReport
from tidegate.store.base import Tx, now_of
from tidegate.web.api import job_models, routing
from tidegate.web.api.idempotent import Acting, IdempotentRequest, idempotent
from tidegate.web.api.job_models import JobFilterQuery, JobItem, JobShown
from tidegate.web.api.models import JobId, Listed, Reason, ResponseModel, iso
from tidegate.web.api.routing import next_link, read, responses
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

router = routing.api("jobs")

MAX_WAIT_SECONDS = 20.0
MAX_WAITING = 100
_FIRST_LOOK, _SLOWEST_LOOK, _GROWTH = 0.05, 0.5, 1.5  # seconds between two polls
Numbered = Annotated[JobId, Path(description="The number of a job.")]


class Acted(ResponseModel):
    """What came of it. `result` of a cancel is 'cancelled', or 'asked' when it runs and was told to stop."""

    id: int
    action: str
    result: str


@router.get("/jobs", responses=responses(Listed[JobItem], 400))
def list_jobs(
    request: Request,
    wanted: Annotated[JobFilterQuery, Depends()],
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str, Query(pattern="^(j[0-9a-f]{1,16})?$")] = "",
) -> Response:
    """The newest first. A page may be short, even empty, and have a next one: what matches may be rare."""
    site = site_of(request)

    def work(tx: Tx) -> Listed[JobItem]:
        jobs = listing.jobs(tx, wanted.filter, cursor=cursor or None, limit=limit)
        count = listing.count(tx, wanted.filter)
        now = now_of(tx)
        items = [job_models.item(line, now) for line in jobs.items]
        return Listed[JobItem](items=items, next_cursor=jobs.next, total=count.n, total_is_capped=count.capped)

    try:
        page = site.read(work)
    except ValueError as error:
        raise Problem("bad_cursor") from error
    return read(request, page, next_link(request, page.next_cursor))


@router.get("/jobs/{id}", responses=responses(JobShown, 404))
async def one_job(
    request: Request,
    id: Numbered,  # noqa: A002 - its name in the address
    wait: Annotated[
        float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for another state, if it has not ended.")
    ] = 0,
) -> Response:
    """One job with its history, and why it waits if it does."""
    site = site_of(request)
    if wait:
        await _changed(request, site, id, wait)

    def work() -> JobShown:
        report, now = site.read(lambda tx: (reports.job(tx, id), now_of(tx)))
        return job_models.whole(report, now)

    return read(request, await run_in_threadpool(work))


async def _changed(request: Request, site: Site, id_: int, wait: float) -> None:
    """Return when the job's state changes, when it ends, or after *wait* seconds."""
    waiting: set[object] = request.app.state.waiting
    closing: threading.Event = request.app.state.closing
    clock, token = site.queue.clock, object()
    if len(waiting) >= MAX_WAITING:  # respond now, and the client polls again
        return
    waiting.add(token)
    try:
        end, pause, first = clock.monotonic() + wait, _FIRST_LOOK, None
        while True:
            state, stage, fence = await run_in_threadpool(_place, site, id_)
            first = first or (stage, fence)
            left = end - clock.monotonic()
            if state or (stage, fence) != first or left <= 0 or closing.is_set() or await request.is_disconnected():
                return
            await clock.asleep(min(pause, left))
            pause = min(pause * _GROWTH, _SLOWEST_LOOK)
    finally:
        waiting.discard(token)


def _place(site: Site, id_: int) -> tuple[bool, str, int]:
    job = site.read(lambda tx: actions.get(tx, id_))
    if job is None:
        raise NotFound(f"there is no job {id_}")
    return job.state.final, job.stage, job.fence


# -- actions -----------------------------------------------------------------------------------------------------------

_ACTION = responses(Acted, 400, 404, 409)


@router.post("/jobs/{id}/retry", responses=_ACTION)
def retry(id: Numbered, asking: Acting) -> Response:  # noqa: A002 - its name in the address
    """Queues a failed or cancelled job again: attempts restart, its history stays."""
    return _act(asking, id, "retry", lambda tx: actions.retry(tx, id, asking.by), "queued")


@router.post("/jobs/{id}/cancel", responses=_ACTION)
def cancel(id: Numbered, asking: Acting) -> Response:  # noqa: A002 - its name in the address
    """Cancels a waiting job, or asks a running one to stop."""
    return _act(asking, id, "cancel", lambda tx: actions.cancel(tx, id, asking.by))


@router.post("/jobs/{id}/forget", responses=_ACTION)
def forget(id: Numbered, asking: Acting) -> Response:  # noqa: A002 - its name in the address
    """Removes a finished job with its history, and frees its unique value."""
    return _act(asking, id, "forget", lambda tx: actions.forget(tx, id, asking.by), "forgotten")


def _act(
    asking: IdempotentRequest, id_: int, action: str, work: Callable[[Tx], str | None], result: str = ""
) -> Response:
    try:
        return idempotent(asking, lambda tx: Acted(id=id_, action=action, result=work(tx) or result))
    except Rejected as error:
        raise _refused(asking.site, id_, str(error)) from error


def _refused(site: Site, id_: int, detail: str) -> Problem:
    """Raise a problem with a retry time: the end of the hold or of the lease."""
    report, now = site.read(lambda tx: (_report(tx, id_), now_of(tx)))
    if report is None or report.job.state.final:
        return Problem("refused", f"{detail}.")
    ends = [reason.until for reason in report.reasons] or [report.job.lease_until]
    known = [end for end in ends if end is not None and math.isfinite(end)]
    return Problem(
        "refused",
        f"{detail}.",
        retry_after=max(max(known) - now, 0.0) if known else None,
        state=str(report.job.state),
        until=iso(max(known)) if known else None,
        waits_for=[Reason.model_validate(reason.as_json()).model_dump(mode="json") for reason in report.reasons],
    )


def _report(tx: Tx, id_: int) -> JobReport | None:
    try:
        return reports.job(tx, id_)
    except NotFound:
        return None
