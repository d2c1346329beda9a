"""/queues and /workers: fill level, pausing, workers and their leases."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from tidegate.errors import NotFound
from tidegate.jobs import actions, claim, reports
from tidegate.jobs.reports import QueueReport, WorkerReport
from tidegate.store.base import Tx, now_of
from tidegate.targets import table
from tidegate.web.api import routing
from tidegate.web.api.idempotent import Acting, idempotent
from tidegate.web.api.models import Ending, GateEventShown, Listed, Moment, Name, ResponseModel
from tidegate.web.api.routing import read, responses
from tidegate.web.site import Site, site_of

router = routing.api("queues")
routing.register("queue", "pause", "resume")

_MAX_EVENTS = 50

Named = Annotated[Name, Path(description="The name of a queue.")]


class QueueShown(ResponseModel):
    """One queue: its jobs by state, who paused it, and how many workers take from it.

    `waiting` are those that are blocked, waiting or ready. `oldest` is for how many seconds the first of them could
    have gone, `oldest_job` which one that is, `rate` how many were done in a minute lately, `drained_in` how many
    seconds the rest takes at that rate.
    """

    name: str
    jobs: dict[str, int]
    paused_until: Moment | None
    paused_by: str | None
    workers: int
    waiting: int
    oldest: float | None
    oldest_job: int | None
    rate: float | None
    drained_in: float | None


class QueueWithEvents(QueueShown):
    events: list[GateEventShown]


class QueueChanged(ResponseModel):
    queue: str
    action: str
    changed: bool
    until: Moment | None = None


@router.get("/queues", responses=responses(Listed[QueueShown]))
def list_queues(request: Request) -> Response:
    """Every queue that has or had jobs, or that jobs are declared for."""
    items = _queues(site_of(request))
    return read(request, Listed.whole(items))


def _queues(site: Site) -> list[QueueShown]:
    queues, workers = site.read(lambda tx: (reports.queues(tx), reports.workers(tx)))
    by_name = {queue.name: QueueShown.model_validate(queue.as_json()) for queue in queues}
    for name in site.queue.queues() - set(by_name):  # declared, but no job was inserted yet
        at_work = sum(worker.there and name in worker.queues for worker in workers)
        by_name[name] = QueueShown.model_validate(QueueReport(name=name, jobs={}, workers=at_work).as_json())
    return [by_name[name] for name in sorted(by_name)]


@router.get("/queues/{name:queue}", responses=responses(QueueWithEvents, 404))
def one_queue(request: Request, name: Named) -> Response:
    """One queue: its jobs by state, how long they wait, and what happened to it."""
    site = site_of(request)
    match = next((queue for queue in _queues(site) if queue.name == name), None)
    if match is None:
        raise NotFound(f"there is no queue {name!r}")
    events = site.read(lambda tx: table.events(tx, "queue", name, _MAX_EVENTS))
    shown_events = [GateEventShown.of(event) for event in events]
    return read(request, QueueWithEvents(**dict(match), events=shown_events))


@router.post("/queues/{name:path}/pause", responses=responses(QueueChanged, 400, 404, 409))
def pause(name: Named, body: Ending, asking: Acting) -> Response:
    """Claims no job of it until a time."""

    def work(tx: Tx) -> QueueChanged:
        known = asking.site.queue.queues()
        end = actions.pause_queue(tx, name, body.moment(now_of(tx)), asking.because(body.reason), known)
        return QueueChanged(queue=name, action="pause", changed=True, until=end)

    return idempotent(asking, work)


@router.post("/queues/{name:path}/resume", responses=responses(QueueChanged, 400, 404, 409))
def resume(name: Named, asking: Acting) -> Response:
    """Ends a pause."""

    def work(tx: Tx) -> QueueChanged:
        was = actions.resume_queue(tx, name, asking.by, asking.site.queue.queues())
        return QueueChanged(queue=name, action="resume", changed=was)

    return idempotent(asking, work)


# -- /workers ----------------------------------------------------------------------------------------------------------

workers_router = routing.api("workers")

_MAX_LEASES = 200


class LeaseShown(ResponseModel):
    """The right of a worker to one job, until a time."""

    job: int
    queue: str
    kind: str
    target: str
    key: str
    attempt: int
    claimed_at: Moment
    until: Moment


class WorkerShown(ResponseModel):
    """*there*: heard of in the last half minute."""

    id: str
    host: str
    pid: int
    started_at: Moment
    seen_at: Moment
    queues: list[str]
    stopping: bool
    there: bool
    leases: list[LeaseShown]


@workers_router.get("/workers", responses=responses(Listed[WorkerShown]))
def list_workers(request: Request) -> Response:
    """Lists workers with the jobs that they run."""
    items = site_of(request).read(lambda tx: [_worker(tx, worker) for worker in reports.workers(tx)])
    return read(request, Listed.whole(items))


def _worker(tx: Tx, report: WorkerReport) -> WorkerShown:
    held = claim.mine(tx, report.id)[:_MAX_LEASES]
    leases = [
        LeaseShown(
            job=lease.id,
            queue=lease.queue,
            kind=lease.kind,
            target=lease.target,
            key=lease.lane,
            attempt=lease.attempt,
            claimed_at=lease.claimed_at,
            until=lease.lease_until,
        )
        for lease in held
    ]
    return WorkerShown.model_validate({**report.as_json(), "leases": leases})
