"""/failures: groups of the same failure, and what each of them needs."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request, Response

from tidegate.ops import failures
from tidegate.ops.failures import Triaged
from tidegate.ops.masking import shown_message
from tidegate.store.now import now_of
from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses
from tidegate.web.api.shapes import Listed, Moment, ResponseModel
from tidegate.web.site import site_of

router = strict.api("failures")

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


@router.get("/failures", responses=responses(Listed[FailureShown]))
def list_failures(request: Request, bucket: Annotated[Bucket, Query(description="What they need.")] = "") -> Response:
    """Failures as groups: those that need somebody first. The 100 that were met last."""
    site = site_of(request)
    found = site.read(lambda tx: failures.triage_failures(tx, site.codes, now_of(tx)))
    items = [_shown(each) for each in found if bucket in ("", each.bucket)]
    return read(request, Listed(items=items, next_cursor=None, total=len(items)))


def _shown(row: Triaged) -> FailureShown:
    about = row.as_json()
    return FailureShown(**{**about, "message": shown_message(about["message"])})
