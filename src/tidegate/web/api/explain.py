"""/explain: why something is not running, and when it will."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response

from tidegate.ops import explain, reports
from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses
from tidegate.web.api.shapes import JobId, Key, Name, Reason, ResponseModel
from tidegate.web.site import site_of

router = strict.api("explain")


class JobExplained(ResponseModel):
    """The first reason first; none when it runs or has ended."""

    job: int
    state: str
    reasons: list[Reason]


class TargetExplained(ResponseModel):
    target: str
    key: str
    reasons: list[Reason]


@router.get("/explain/jobs/{id}", responses=responses(JobExplained, 404))
def explain_job(request: Request, id: Annotated[JobId, Path()]) -> Response:  # noqa: A002 - its name in the address
    """Why a job is not running."""
    found = site_of(request).read(lambda tx: reports.job(tx, id))
    reasons = [Reason(**why.as_json()) for why in found.reasons]
    return read(request, JobExplained(job=id, state=str(found.job.state), reasons=reasons))


@router.get("/explain/targets/{name:path}", responses=responses(TargetExplained, 404))
def explain_target(request: Request, name: Annotated[Name, Path()], key: Annotated[Key, Query()] = "") -> Response:
    """What stands before the jobs of a target, or of one key of it."""
    found = site_of(request).read(lambda tx: explain.target(tx, name, key))
    return read(request, TargetExplained(target=name, key=key, reasons=[Reason(**why.as_json()) for why in found]))
