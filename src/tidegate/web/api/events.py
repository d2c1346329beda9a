"""/events: what happened to queues and targets, as a list after an id, or as a stream while it happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Literal

from fastapi import Query, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from tidegate.errors import StoreError
from tidegate.ops import happenings
from tidegate.store.gate_rows import TargetEvent
from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses
from tidegate.web.api.shapes import GateEventShown, Key, ResponseModel
from tidegate.web.api.strict import wants_stream
from tidegate.web.guards import HEAD
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

router = strict.api("events")

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
    site = site_of(request)
    if name and not subject:
        subject = "target"
    if not wants_stream(request):
        return await run_in_threadpool(_listed, request, site, after or 0, limit, subject, name)
    streams: dict[object, float] = request.app.state.streams
    _room(site, streams)
    start = _last_seen(request, after)
    if start is None:
        start = await run_in_threadpool(site.read, happenings.newest)
    if request.scope.get(HEAD):
        return Response(media_type="text/event-stream")
    look = partial(happenings.since, limit=_BATCH_SIZE, subject=subject, name=name)
    told = _told(request, start, look)
    return EventSourceResponse(told, ping=site.streams.heartbeat, send_timeout=site.streams.send_within, sep="\n")


list_events.streams = True  # type: ignore[attr-defined]


def _listed(request: Request, site: Site, after: int, limit: int, subject: str, name: str) -> Response:
    found = site.read(lambda tx: happenings.since(tx, after, limit=limit, subject=subject, name=name))
    items = [GateEventShown.of(event) for event in found]
    return read(request, Events(items=items, last_id=items[-1].id if items else after))


# -- streams ---------------------------------------------------------------------------------------------------------


def _room(site: Site, streams: dict[object, float]) -> None:
    """A problem when there are too many; it says when the oldest of them ends."""
    if len(streams) >= site.streams.max_streams:
        left = min(streams.values()) + site.streams.longest - site.queue.clock.monotonic()
        raise Problem("too_many", f"{len(streams)} clients follow already.", retry_after=max(1.0, left))


def _last_seen(request: Request, after: int | None) -> int | None:
    """What the client saw last: it says so itself when it connects again."""
    given = request.headers.get("last-event-id", "").strip()
    if not given:
        return after
    if not (given.isascii() and given.isdigit() and len(given) <= 16):
        raise Problem("malformed", "last-event-id: it is not one of ours; leave it out to begin now.")
    return int(given)


async def _told(request: Request, last: int, look: Callable[..., list[TargetEvent]]) -> AsyncIterator[ServerSentEvent]:
    """Everything after *last*, as it happens. A client that does not read is dropped by whoever sends; nobody waits."""
    site, token = site_of(request), object()
    numbers = site.streams
    clock, streams, closing = site.queue.clock, request.app.state.streams, request.app.state.closing
    began = streams[token] = clock.monotonic()
    pause = numbers.poll_interval
    try:
        # A browser that loses us comes back within seconds; the first line tells it that it is connected.
        yield ServerSentEvent(comment="following", retry=3000, id=str(last), sep="\n")
        while clock.monotonic() - began < numbers.longest and not closing.is_set():
            try:
                found = await run_in_threadpool(site.read, partial(look, after=last))
                pause = numbers.poll_interval
            except StoreError:
                found, pause = [], min(site.outage.seen(), numbers.heartbeat)
            for event in found:
                last = event.id
                shown = GateEventShown.of(event).model_dump(mode="json")
                yield ServerSentEvent(json.dumps(shown), event=event.kind, id=str(event.id), sep="\n")
            if len(found) < _BATCH_SIZE:
                await clock.asleep(pause)
    finally:
        streams.pop(token, None)
