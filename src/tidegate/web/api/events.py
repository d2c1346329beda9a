"""/events and /activity: target and queue events as a list or a stream, and the audit log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from tidegate import audit
from tidegate.accounts.access import Permission, Principal
from tidegate.audit import AuditFilter
from tidegate.errors import StoreError
from tidegate.store.base import ResultPage, Tx, now_of
from tidegate.targets import table
from tidegate.targets.table import TargetEvent
from tidegate.web.api import routing
from tidegate.web.api.models import GateEventShown, Key, Listed, Moment, ResponseModel
from tidegate.web.api.routing import next_link, read, responses, wants_stream
from tidegate.web.auth import WHO
from tidegate.web.middleware import HEAD
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

if TYPE_CHECKING:
    from sse_starlette import ServerSentEvent

router = routing.api("events")

_BATCH_SIZE = 100
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
    from sse_starlette import EventSourceResponse

    site = site_of(request)
    if name and not subject:
        subject = "target"
    if not wants_stream(request):
        return await run_in_threadpool(_listed, request, site, after or 0, limit, subject, name)
    streams: dict[object, float] = request.app.state.streams
    _check_capacity(site, streams)
    start = _last_seen(request, after)
    if start is None:
        start = await run_in_threadpool(site.read, table.newest)
    if request.scope.get(HEAD):
        return Response(media_type="text/event-stream")
    read = partial(table.since, limit=_BATCH_SIZE, subject=subject, name=name)
    events = _stream_events(request, start, read)
    return EventSourceResponse(events, ping=site.streams.heartbeat, send_timeout=site.streams.send_within, sep="\n")


list_events.streams = True  # type: ignore[attr-defined]


def _listed(request: Request, site: Site, after: int, limit: int, subject: str, name: str) -> Response:
    events = site.read(lambda tx: table.since(tx, after, limit=limit, subject=subject, name=name))
    items = [GateEventShown.of(event) for event in events]
    return read(request, Events(items=items, last_id=items[-1].id if items else after))


# -- streams ---------------------------------------------------------------------------------------------------------


def _check_capacity(site: Site, streams: dict[object, float]) -> None:
    """Raise a problem if too many streams are open. Its retry time is the end of the oldest one."""
    if len(streams) >= site.streams.max_streams:
        left = min(streams.values()) + site.streams.longest - site.queue.clock.monotonic()
        raise Problem("too_many", f"{len(streams)} clients follow already.", retry_after=max(1.0, left))


def _last_seen(request: Request, after: int | None) -> int | None:
    """Return the id of the last event the client received. A reconnect sends it as a header."""
    last_id = request.headers.get("last-event-id", "").strip()
    if not last_id:
        return after
    if not (last_id.isascii() and last_id.isdigit() and len(last_id) <= 16):
        raise Problem("malformed", "last-event-id: it is not one of ours; leave it out to begin now.")
    return int(last_id)


async def _stream_events(
    request: Request, last: int, read: Callable[..., list[TargetEvent]]
) -> AsyncIterator[ServerSentEvent]:
    """Yield all events after *last*. The sender drops a client that does not read, so nothing blocks here."""
    from sse_starlette import ServerSentEvent

    site, token = site_of(request), object()
    numbers = site.streams
    clock, streams, closing = site.queue.clock, request.app.state.streams, request.app.state.closing
    began = streams[token] = clock.monotonic()
    pause = numbers.poll_interval
    try:
        # A browser reconnects within seconds after a lost connection. The first line confirms the connection.
        yield ServerSentEvent(comment="following", retry=3000, id=str(last), sep="\n")
        while clock.monotonic() - began < numbers.longest and not closing.is_set():
            try:
                events = await run_in_threadpool(site.read, partial(read, after=last))
                pause = numbers.poll_interval
            except StoreError:
                events, pause = [], min(site.outage.seen(), numbers.heartbeat)
            for event in events:
                last = event.id
                shown = GateEventShown.of(event).model_dump(mode="json")
                yield ServerSentEvent(json.dumps(shown), event=event.kind, id=str(event.id), sep="\n")
            if len(events) < _BATCH_SIZE:
                await clock.asleep(pause)
    finally:
        streams.pop(token, None)


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
    before: dict[str, Any]
    after: dict[str, Any]
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
    """What people did in the last 90 days, the newest first. What was done to users and tokens, admins see."""

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
    page = Listed(items=[DeedShown(**item.as_json()) for item in entries.items], next_cursor=entries.next)
    return read(request, page, next_link(request, page.next_cursor))


def sees_accounts(request: Request) -> bool:
    """Whether the principal may see the audit entries of users and tokens."""
    principal = request.scope.get(WHO)
    return isinstance(principal, Principal) and principal.has_permission(Permission.MANAGE)
