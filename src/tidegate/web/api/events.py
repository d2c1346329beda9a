"""/events and /activity: target and queue events as a list or a stream, and the audit log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from tidegate import audit
from tidegate.accounts.access import Permission
from tidegate.audit import AuditFilter
from tidegate.store.base import ResultPage, Tx, now_of
from tidegate.targets import table
from tidegate.targets.table import TargetEvent
from tidegate.web.api import routing
from tidegate.web.api.models import GateEventShown, Key, Listed, Moment, ResponseModel
from tidegate.web.api.routing import next_link, read, responses, wants_stream
from tidegate.web.auth import current_principal
from tidegate.web.live.hub import EVENT_BATCH, LiveHub, Subscriber, chunk
from tidegate.web.live.stream import Stream
from tidegate.web.middleware import CONNECTION, HEAD
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

router = routing.api("events")

_MAX_ID = 2**53 - 1


class Events(ResponseModel):
    """The oldest first. Ask again with `after` = *last_id*."""

    items: list[GateEventShown]
    last_id: int


_BOTH = responses(Events, 400, 429)
_BOTH[200] = {**_BOTH[200], "content": {"text/event-stream": {"schema": {"type": "string"}}}}


@router.get("/events", responses=_BOTH)
async def list_events(
    request: Request,
    after: Annotated[int | None, Query(ge=0, le=_MAX_ID, description="Only what has a larger id.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    subject: Annotated[Literal["", "queue", "target"], Query()] = "",
    name: Annotated[Key, Query(description="Of this target, or of this queue if subject says so.")] = "",
) -> Response:
    """Events as JSON, or with `Accept: text/event-stream` as they happen, from Last-Event-ID or from now on."""
    site = site_of(request)
    if name and not subject:
        subject = "target"
    if not wants_stream(request):
        return await run_in_threadpool(_listed, request, site, after or 0, limit, subject, name)
    start = _last_seen(request, after)
    if start is None:
        start = await run_in_threadpool(site.read, table.newest)
    if request.scope.get(HEAD):
        return Response(media_type="text/event-stream")
    hub: LiveHub = request.app.state.live
    await hub.known()
    _check_capacity(hub)  # last, because others may begin to follow during each await above
    return _follow(hub, site, start, subject, name)


list_events.streams = True  # type: ignore[attr-defined]


def _listed(request: Request, site: Site, after: int, limit: int, subject: str, name: str) -> Response:
    events = site.read(lambda tx: table.since(tx, after, limit=limit, subject=subject, name=name))
    items = [GateEventShown.of(event) for event in events]
    return read(request, Events(items=items, last_id=items[-1].id if items else after))


# -- streams ---------------------------------------------------------------------------------------------------------


def _check_capacity(hub: LiveHub) -> None:
    """Raise a problem if too many programs follow. Its retry time is the end of the oldest stream."""
    if len(hub.followers) >= hub.numbers.max_followers:
        remaining = min(follower.ends for follower in hub.followers) - time.monotonic()
        raise Problem("too_many", f"{len(hub.followers)} clients follow already.", retry_after=max(1.0, remaining))


def _last_seen(request: Request, after: int | None) -> int | None:
    """Return the id of the last event the client received. A reconnect sends it as a header."""
    last_id = request.headers.get("last-event-id", "").strip()
    if not last_id:
        return after
    if not (last_id.isascii() and last_id.isdigit() and len(last_id) <= 16):
        raise Problem("malformed", "last-event-id: it is not one of ours; leave it out to begin now.")
    return int(last_id)


def _follow(hub: LiveHub, site: Site, after: int, subject: str, name: str) -> Stream:
    """Stream all events *after* that id."""

    async def read(after: int) -> list[TargetEvent]:
        return await run_in_threadpool(
            site.read, lambda tx: table.since(tx, after, limit=EVENT_BATCH, subject=subject, name=name)
        )

    def encode(events: Sequence[TargetEvent]) -> bytes:
        wanted = (event for event in events if subject in ("", event.subject) and name in ("", event.name))
        shown = (GateEventShown.of(event) for event in wanted)
        return b"".join(chunk(event.kind, event.model_dump(mode="json"), event.id) for event in shown)

    def subscribe(scope: Scope) -> Subscriber:
        return hub.follow(after, scope.get(CONNECTION), read=read, encode=encode)

    return Stream(hub, subscribe)


# -- /activity ---------------------------------------------------------------------------------------------------------

activity_router = routing.api("activity")

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
    before: dict[str, object]
    after: dict[str, object]
    reason: str
    says: str


@activity_router.get("/activity", responses=responses(Listed[DeedShown]))
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
    """User actions of the last 90 days, newest first. Only admins see changes to users and tokens."""

    def look(tx: Tx) -> ResultPage[audit.AuditLine]:
        now = now_of(tx)
        wanted = AuditFilter(
            actor=actor,
            action=action,
            origin=origin,
            subject=subject,
            name=name,
            accounts=sees_accounts(request),
            earliest=0.0 if younger is None else now - younger,
            latest=1e18 if older is None else now - older,
        )
        return audit.list_activity(tx, wanted, cursor=cursor or None, limit=limit)

    entries = site_of(request).read(look)
    page = Listed(items=[DeedShown.model_validate(item.as_json()) for item in entries.items], next_cursor=entries.next)
    return read(request, page, next_link(request, page.next_cursor))


def sees_accounts(request: Request) -> bool:
    """Whether the principal may see the audit entries of users and tokens."""
    principal = current_principal(request)
    return principal is not None and principal.has_permission(Permission.MANAGE)
