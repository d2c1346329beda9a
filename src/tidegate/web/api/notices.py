"""/notices: what people should read, and saying that one was read."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response

from tidegate.ops import notices
from tidegate.ops.notices import NoticeLine
from tidegate.web.api import strict
from tidegate.web.api.answers import next_link, read, says
from tidegate.web.api.once import Acting, once
from tidegate.web.api.shapes import JobId, Listed, Moment, Shown
from tidegate.web.problems import Problem
from tidegate.web.site import site_of

router = strict.api("notices")


class NoticeShown(Shown):
    """One notice. *open*: what it tells of goes on."""

    id: int
    kind: str
    level: str
    subject: str
    name: str
    key: str
    operation: str
    code: str | None
    title: str
    message: str
    advice: str
    user: str | None
    open: bool
    unread: bool
    created_at: Moment
    ended_at: Moment | None
    acked_at: Moment | None
    acked_by: str | None


class Notices(Listed[NoticeShown]):
    unread: int


class Acked(Shown):
    id: int
    action: str
    changed: bool


@router.get("/notices", responses=says(Notices, 400))
def list_notices(
    request: Request,
    unread: Annotated[bool, Query(description="Only those that nobody has read.")] = False,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str, Query(pattern="^(n[0-9a-f]{1,16})?$")] = "",
) -> Response:
    """The newest first."""
    try:
        found, n = site_of(request).read(
            lambda tx: (
                notices.listed(tx, unread_only=unread, cursor=cursor or None, most=limit), notices.unread(tx)
            )
        )  # fmt: skip
    except ValueError as error:
        raise Problem("bad_cursor") from error
    page = Notices(items=[_shown(each) for each in found.items], next_cursor=found.next, unread=n)
    return read(request, page, next_link(request, found.next))


@router.post("/notices/{id}/ack", responses=says(Acked, 400, 404, 409))
def acknowledge(id: Annotated[JobId, Path()], asking: Acting) -> Response:  # noqa: A002 - its name in the address
    """Somebody has read it."""
    return once(asking, lambda tx: Acked(id=id, action="ack", changed=notices.acknowledge(tx, id, asking.by)))


def _shown(line: NoticeLine) -> NoticeShown:
    return NoticeShown(**line.as_json())
