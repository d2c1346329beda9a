"""/workers: who is there, and what each of them holds."""

from __future__ import annotations

from fastapi import Request, Response

from tidegate.core.job import Claimed
from tidegate.ops import reports
from tidegate.ops.reports import WorkerReport
from tidegate.store.tx import Tx
from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses
from tidegate.web.api.shapes import Listed, Moment, ResponseModel
from tidegate.web.site import site_of

router = strict.api("workers")

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


@router.get("/workers", responses=responses(Listed[WorkerShown]))
def list_workers(request: Request) -> Response:
    """Every worker that is known, with the jobs that it holds."""
    items = site_of(request).read(lambda tx: [_worker(tx, worker) for worker in reports.workers(tx)])
    return read(request, Listed(items=items, next_cursor=None, total=len(items)))


def _worker(tx: Tx, report: WorkerReport) -> WorkerShown:
    held = [Claimed(*row) for row in tx.query("mine", {"worker": report.id})[:_MAX_LEASES]]
    leases = [
        LeaseShown(
            job=each.id, queue=each.queue, kind=each.kind, target=each.target, key=each.lane, attempt=each.attempt,
            claimed_at=each.claimed_at, until=each.lease_until,
        )
        for each in held
    ]  # fmt: skip
    return WorkerShown(**report.as_json(), leases=leases)
