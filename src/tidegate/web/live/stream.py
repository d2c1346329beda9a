"""`/live`: the current state as JSON, or with `Accept: text/event-stream` every change as it happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from tidegate.accounts.access import AuthMethod, Principal
from tidegate.web.auth import WHO
from tidegate.web.live.hub import LiveHub, Subscriber
from tidegate.web.middleware import CONNECTION, HEAD
from tidegate.web.problems import Problem

_log = logging.getLogger("tidegate.web")
_STREAM = "text/event-stream"
_MAX_ID = 2**53 - 1


def router() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/live")
    async def live(
        request: Request, after: Annotated[int | None, Query(ge=0, le=_MAX_ID)] = None, page: bool = False
    ) -> Response:
        hub: LiveHub = request.app.state.live
        if _STREAM not in request.headers.get("accept", ""):
            await hub.known()
            return JSONResponse(hub.current_state(_user_name(request.scope)))
        after = _last_seen(request, after)
        if request.scope.get(HEAD):
            return Response(media_type=_STREAM)
        await hub.known()
        if len(hub.subscribers) >= hub.numbers.max_subscribers:  # last, because others may subscribe during an await
            raise Problem("too_many", f"{len(hub.subscribers)} browsers follow already.", retry_after=10.0)
        return Stream(
            hub,
            lambda scope: hub.subscribe(after, scope.get(CONNECTION), _user_name(scope), page=page),
        )

    return router


def _last_seen(request: Request, after: int | None) -> int | None:
    """Return the id of the last message that the browser received. A reconnect sends it as a header."""
    last_id = request.headers.get("last-event-id", "").strip()
    if not last_id:
        return after
    # An invalid id comes from a different server at this URL, so everything may have changed.
    return int(last_id) if last_id.isascii() and last_id.isdigit() and len(last_id) <= 16 else 0


class Stream(Response):
    """A response that lasts until the client disconnects, is dropped, or reaches its time limit."""

    media_type = _STREAM

    def __init__(self, hub: LiveHub, subscribe: Callable[[Scope], Subscriber]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub, self._subscribe = hub, subscribe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = self._subscribe(scope)
        leaving = asyncio.create_task(_watch_disconnect(receive, client))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while (body := await client.chunk()) is not None:
                async with asyncio.timeout(self._hub.numbers.behind):
                    await send(_part(body))
            await send(_part(b"", more=False))
        except TimeoutError:
            _log.info("live_client_dropped")
            client.drop()
            if scope.get(CONNECTION) is not None:
                await leaving  # the server reports the aborted connection
        finally:
            leaving.cancel()
            self._hub.unsubscribe(client)


def _user_name(scope: MutableMapping[str, object]) -> str | None:
    """Return the name of the signed-in user. None for a local request while no user exists."""
    principal = scope.get(WHO)
    return principal.name if isinstance(principal, Principal) and principal.via is not AuthMethod.LOCAL else None


def _part(body: bytes, *, more: bool = True) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _watch_disconnect(receive: Receive, client: Subscriber) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    client.leave()
