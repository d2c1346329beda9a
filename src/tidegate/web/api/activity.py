"""/activity: who did what, from where, and how it was before and after."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from tidegate.ops import activity
from tidegate.ops.listing import ResultPage
from tidegate.ops.rights import Permission, Principal
from tidegate.store.activity_rows import AuditFilter
from tidegate.store.now import now_of
from tidegate.store.tx import Tx
from tidegate.web.access import WHO
from tidegate.web.api import strict
from tidegate.web.api.answers import next_link, read, responses
from tidegate.web.api.shapes import Key, Listed, Moment, ResponseModel
from tidegate.web.site import site_of

router = strict.api("activity")

Origin = Literal["", "page", "api", "cli", "program"]
Subject = Literal["", "queue", "target", "job", "bulk", "notice", "user", "token"]
Ago = Annotated[float | None, Query(ge=0, le=1e12, allow_inf_nan=False)]


class DeedShown(ResponseModel):
    """One thing that somebody did. *says* is a sentence, *reason* what they gave as theirs."""

    id: int
    at: Moment
    actor: str
    origin: str = Field(description="page, api, cli or program.")
    action: str
    subject: str
    name: str
    key: str | None
    before: dict[str, Any]
    after: dict[str, Any]
    reason: str
    says: str


@router.get("/activity", responses=responses(Listed[DeedShown]))
def list_activity(
    request: Request,
    actor: Annotated[Key, Query(description="By whom.")] = "",
    action: Annotated[Key, Query(description="What they did, such as queue_paused.")] = "",
    origin: Annotated[Origin, Query(description="From where.")] = "",
    subject: Annotated[Subject, Query(description="To what kind of thing.")] = "",
    name: Annotated[Key, Query(description="To the one with this name.")] = "",
    older: Ago = None,
    younger: Ago = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str, Query(pattern="^(a[0-9a-f]{1,15})?$")] = "",
) -> Response:
    """What people did in the last 90 days, the newest first. What was done to users and tokens, admins see."""

    def look(tx: Tx) -> ResultPage[activity.AuditLine]:
        now = now_of(tx)
        wanted = AuditFilter(
            actor=actor, action=action, origin=origin, subject=subject, name=name, accounts=sees_accounts(request),
            earliest=0.0 if younger is None else now - younger, latest=1e18 if older is None else now - older,
        )  # fmt: skip
        return activity.list_activity(tx, wanted, cursor=cursor or None, limit=limit)

    found = site_of(request).read(look)
    page = Listed(items=[DeedShown(**item.as_json()) for item in found.items], next_cursor=found.next)
    return read(request, page, next_link(request, page.next_cursor))


def sees_accounts(request: Request) -> bool:
    """Whether who asks may see what was done to users and tokens."""
    who = request.scope.get(WHO)
    return isinstance(who, Principal) and who.has_permission(Permission.MANAGE)
