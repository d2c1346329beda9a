"""`/failures`: what failed, sorted by what it needs; each group is retried or discarded as a whole."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tidegate.ops import failures
from tidegate.ops.failures import BUCKETS, Triaged
from tidegate.store.now import now_of
from tidegate.web.pages.rendering import page
from tidegate.web.site import site_of

router = APIRouter()


@router.get("/failures")
def show(request: Request, bucket: Annotated[str, Query(max_length=40)] = "") -> Response:
    site = site_of(request)
    rows = site.read(lambda tx: failures.triage_failures(tx, site.codes, now_of(tx)))
    counts = {each: sum(row.bucket == each for row in rows) for each in BUCKETS}
    wanted = bucket if bucket in BUCKETS else ""
    return page(
        request, "failures.html", rows=[row for row in rows if _shown(row, wanted)], counts=counts, wanted=wanted,
        buckets=BUCKETS, newest=max((row.group.last_at for row in rows), default=None), codes=site.codes,
        most=len(rows) >= failures.MAX_GROUPS,
    )  # fmt: skip


def _shown(row: Triaged, wanted: str) -> bool:
    """What is over is shown only when somebody asks for it."""
    return row.bucket == wanted if wanted else row.bucket != "over"
