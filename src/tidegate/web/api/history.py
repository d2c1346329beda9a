"""/history: what a queue or a target looked like over the last hours or days."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Path, Query, Request, Response

from tidegate.errors import NotFound
from tidegate.ops import history, reports, target_reports
from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses
from tidegate.web.api.shapes import Moment, Name, ResponseModel
from tidegate.web.site import site_of

router = strict.api("history")

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


@router.get("/history/queues/{name:path}", responses=responses(QueueHistory, 404))
def of_a_queue(
    request: Request, name: Annotated[Name, Path(description="The name of a queue.")], span: Span = "24h"
) -> Response:
    """How a queue did: attempts, failures, durations, and how much waited."""
    site = site_of(request)
    found, known = site.read(lambda tx: (history.of_queue(tx, name, span), reports.queues(tx)))
    if name not in site.queue.queues() and all(each.name != name for each in known):
        raise NotFound(f"there is no queue {name!r}")
    return read(request, QueueHistory(**found.as_json()))


@router.get("/history/targets/{name:path}", responses=responses(TargetHistory, 404))
def of_a_target(
    request: Request, name: Annotated[Name, Path(description="The name of a target.")], span: Span = "24h"
) -> Response:
    """How calls to a target went, as far as a breaker stands before them."""
    found, _ = site_of(request).read(lambda tx: (history.of_target(tx, name, span), target_reports.one(tx, name)))
    return read(request, TargetHistory(**found.as_json()))
