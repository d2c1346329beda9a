"""`/workers`: who is there to do the work, and what each of them holds under a lease."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from tidegate.core.job import Job
from tidegate.ops import listing, reports
from tidegate.ops.listing import Filter
from tidegate.ops.reports import WorkerReport
from tidegate.store import people
from tidegate.store.tx import Tx
from tidegate.web.pages.rendering import page
from tidegate.web.site import site_of

_MAX_SHOWN = 50
LATE = 15.0  # seconds without a heartbeat, of which there is one every ten


@dataclass(frozen=True, slots=True)
class WorkersPage:
    workers: list[WorkerReport]
    leases: list[Job]
    more: bool
    waiting: int


router = APIRouter()


@router.get("/workers")
def show_workers(request: Request) -> Response:
    return page(request, "workers.html", seen=site_of(request).read(_load_page), token=_token)


def _load_page(tx: Tx) -> WorkersPage:
    running = listing.jobs(tx, Filter(state="running"), limit=_MAX_SHOWN)
    # A list of jobs has no leases; so few of them are read one by one.
    jobs = [job for line in running.items if (job := people.get(tx, line.id)) is not None]
    leases = sorted((job for job in jobs if job.lease_until is not None), key=lambda job: job.lease_until or 0.0)
    waiting = sum(queue.jobs.get("ready", 0) for queue in reports.queues(tx))
    return WorkersPage(reports.workers(tx), leases, running.next is not None, waiting)


def _token(worker: WorkerReport, now: float) -> str:
    if not worker.there:
        return "gone"
    if worker.outdated:
        return "outdated"
    if worker.stopping:
        return "stopping"
    return "late" if now - worker.seen_at > LATE else "there"
