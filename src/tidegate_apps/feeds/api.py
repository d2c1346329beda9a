"""The JSON API of feeds, below `/sources`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import Message

from tidegate.apps import Installed
from tidegate.errors import Rejected
from tidegate.web import PUBLIC, Permission, Problem, body_limit, current_principal, current_user, requires
from tidegate_apps.feeds import api_models, opml
from tidegate_apps.feeds.api_models import MAX_ID
from tidegate_apps.feeds.codes import REASONS
from tidegate_apps.feeds.models import AUTO, Change, Source, SourceRequest, public
from tidegate_apps.feeds.opml import add_all, every
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.sources import Sources

# -- permissions -------------------------------------------------------------------------------------------------------

SourceId = Annotated[int, Path(ge=1, le=MAX_ID, description="The number of a source.")]
_JWT, _POLLER = "jwt", "poller"
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}


def may(request: Request, *rights: Permission) -> None:
    """Raise Problem unless the caller has one of these permissions."""
    who = current_principal(request)
    if who is None:
        raise Problem("not_signed_in", headers=_CHALLENGE)
    if not any(who.has_permission(right) for right in rights):
        raise Problem("not_allowed", f"{who.name} is {who.role} and may not do this.")


def sees(request: Request) -> None:
    """Allow readers, and programs that poll."""
    may(request, Permission.SEE, Permission.SWITCH_FEEDS)


def switcher(request: Request) -> str:
    """Return who enables or disables a feed; `auto` for a poller. Only a JSON Web Token is accepted."""
    who = current_principal(request)
    if who is None or who.via != _JWT:
        raise Problem("not_signed_in", "Send a JSON Web Token: Authorization: Bearer.", headers=_CHALLENGE)
    may(request, Permission.SWITCH_FEEDS)
    return AUTO if who.role == _POLLER else current_user(request, name=who.name.removeprefix(f"{_JWT} "))


def is_poller(request: Request) -> bool:
    who = current_principal(request)
    return who is not None and who.role == _POLLER


def sees_whole(request: Request) -> bool:
    """Return whether the URL may include its password: for users who may change it, and for programs that poll it."""
    who = current_principal(request)
    return who is not None and (who.has_permission(Permission.PUT_IN) or who.role == _POLLER)


class SwitcherFirst(APIRoute):
    """Checks the token before the body.

    FastAPI rejects a body that is not JSON before it runs the dependencies. This route then runs them with a valid
    body, so that a caller without a token gets 401 and not a hint about the body.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def asked(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                if all(detail["type"] != "json_invalid" for detail in error.errors()):
                    raise
                with contextlib.suppress(RequestValidationError):  # that body has no reason, so nothing changes
                    await handle(Request(request.scope, _no_reason))
                raise

        return asked


async def _no_reason() -> Message:
    return {"type": "http.request", "body": b"{}", "more_body": False}


Switcher = Annotated[str, Depends(switcher)]
Sees = Depends(sees)

_START = (-1.0, 0)


def sources_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter(tags=["feeds"])
    sources: Sources = app.jobs.sources

    @router.get("/sources", dependencies=[Sees])
    @requires(PUBLIC)
    def sources_list(
        request: Request,
        response: Response,
        feed_active: bool = False,
        q: Annotated[str, Query(max_length=200, pattern=api_models.PRINTABLE)] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        cursor: Annotated[str, Query(max_length=80)] = "",
    ) -> api_models.SourcesShown:
        """Page by page; with `feed_active`, only those that may be polled now."""
        whole = sees_whole(request)
        if feed_active:
            rows = sources.active(_place(cursor), limit + 1)
        else:
            rows = sources.list_sources(int(_place(cursor)[1]), limit + 1, q, whole=whole)
        following = _cursor(rows[limit - 1]) if len(rows) > limit else None
        if following is not None:
            query = urlencode({**request.query_params, "limit": limit, "cursor": following})
            response.headers["Link"] = f'<?{query}>; rel="next"'
        return api_models.SourcesShown(
            items=[api_models.shown(row, whole=whole) for row in rows[:limit]], next_cursor=following
        )

    @router.post("/sources", status_code=201)
    @requires(Permission.PUT_IN)
    def sources_add(request: Request, response: Response, body: api_models.NewSource) -> api_models.SourceShown:
        """Adds a source; it is polled at once."""
        here(app)
        wanted = SourceRequest(
            feed_url=body.feed_url or None, name=body.name or "", interval=body.interval, enabled=body.enabled
        )
        made = sources.add(wanted, current_user(request))
        response.headers["Location"] = f"{request.scope.get('root_path', '')}/api/v1/sources/{made.id}"
        return api_models.shown(made)

    @router.get("/sources/{id}", dependencies=[Sees])
    @requires(PUBLIC)
    def sources_get(request: Request, id: SourceId) -> api_models.SourceShown:  # noqa: A002 - the name in the address
        """One source, with what is known of its feed."""
        source, now = sources.get(id), app.queue.clock.now()
        state = app.db.read(lambda tx: api_models.state_shown(tx, id, now))
        return api_models.shown(source, state, whole=sees_whole(request))

    @router.patch("/sources/{id}")
    @requires(PUBLIC)
    def sources_change(request: Request, id: SourceId, body: api_models.ChangedSource) -> api_models.SourceShown:  # noqa: A002
        """Changes what is given. A poller may say that a feed has moved."""
        fields = body.model_fields_set
        moves = fields == {"feed_url"} and bool(body.feed_url) and is_poller(request)
        may(request, Permission.PUT_IN, *([Permission.SWITCH_FEEDS] if moves else []))
        here(app)
        change = Change(
            feed_url=(body.feed_url or None) if "feed_url" in fields else "",
            name=body.name or "",
            interval=body.interval,
            enabled=body.enabled,
        )
        return api_models.shown(sources.change(id, change, AUTO if moves else current_user(request)))

    @router.delete("/sources/{id}", status_code=204)
    @requires(Permission.PUT_IN)
    def sources_remove(request: Request, id: SourceId) -> Response:  # noqa: A002
        """Removes a source, its items and its history."""
        here(app)
        sources.remove(id, current_user(request))
        return Response(status_code=204)

    @router.post("/sources/{id}/poll", status_code=202)
    @requires(Permission.PUT_IN)
    def sources_poll(request: Request, id: SourceId) -> api_models.SourceShown:  # noqa: A002
        """Polls a feed at once."""
        here(app)
        polls(app)
        return api_models.shown(sources.poll_now(id, current_user(request)))

    return router


def here(app: Installed[FeedsSettings]) -> None:
    """Raise Problem if another server manages the sources."""
    if app.settings.source_manager_url:
        raise Problem("refused", f"The sources are kept at {app.settings.source_manager_url}; change them there.")


def _cursor(last: Source) -> str:
    return f"{last.active_from or 0.0!r}_{last.id}"


def _place(cursor: str) -> tuple[float, int]:
    if not cursor:
        return _START
    try:
        active, _, id_ = cursor.partition("_")
        position = float(active), int(id_)
    except ValueError as error:
        raise Problem("bad_cursor") from error
    if not 0 <= position[0] < 1e12 or not 0 <= position[1] <= api_models.MAX_ID:
        raise Problem("bad_cursor")
    return position


def polls(app: Installed[FeedsSettings]) -> None:
    """Raise Problem unless this server polls feeds."""
    if not app.settings.poll:
        raise Rejected("this server does not poll; another one does")


# -- items of a feed ---------------------------------------------------------------------------------------------------


def items_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter(tags=["feeds"])

    @router.get("/sources/{id}/items")
    @requires(Permission.SEE)
    def sources_items(
        id: SourceId,  # noqa: A002 - the name in the address
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        cursor: Annotated[int, Query(ge=1, le=api_models.MAX_ID)] = api_models.MAX_ID,
    ) -> api_models.ItemsShown:
        """The entries of a feed, the newest first."""
        if not app.settings.source_manager_url:
            app.jobs.sources.get(id)
        rows = app.db.all("items", source_id=id, before=cursor, n=limit + 1)
        following = str(rows[limit - 1][0]) if len(rows) > limit else None
        return api_models.ItemsShown(items=[api_models.item_shown(row) for row in rows[:limit]], next_cursor=following)

    return router


# -- enable and disable, only with a JSON Web Token --------------------------------------------------------------------


def switching_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter(tags=["feeds"], route_class=SwitcherFirst)
    sources: Sources = app.jobs.sources

    @router.patch("/sources/{id}/feed-disable")
    @requires(PUBLIC)
    def sources_feed_disable(id: SourceId, body: api_models.Reason, by: Switcher) -> api_models.SourceShown:  # noqa: A002
        """Disables a feed: for as long as its reason says, or with `manual` until somebody enables it."""
        here(app)
        if body.reason not in REASONS:
            said = f"it is not known; give one of: {', '.join(REASONS)}"
            raise Problem("invalid", f"reason: {said}.", errors=[{"field": "reason", "message": said}])
        return api_models.shown(sources.disable(id, body.reason, by))

    @router.patch("/sources/{id}/feed-enable")
    @requires(PUBLIC)
    def sources_feed_enable(id: SourceId, by: Switcher) -> api_models.SourceShown:  # noqa: A002
        """Enables a feed again."""
        here(app)
        return api_models.shown(sources.enable(id, by))

    return router


# -- OPML import and export --------------------------------------------------------------------------------------------

MEDIA_TYPE = "text/x-opml"


class ImportShown(BaseModel):
    """What came of a list."""

    added: int
    already_there: int
    refused: int


def opml_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter(tags=["feeds"])

    @router.get("/sources/opml", response_class=Response)
    @requires(Permission.SEE)
    def sources_export(request: Request) -> Response:
        """All feeds as OPML; passwords only for whoever may change them."""
        return exported(app, whole=sees_whole(request))

    @router.post("/sources/opml")
    @requires(Permission.PUT_IN)
    @body_limit(opml.MAX_BYTES + 1)
    def sources_import(
        request: Request, body: Annotated[bytes, Body(media_type=MEDIA_TYPE, description="A list of feeds as OPML.")]
    ) -> ImportShown:
        """Adds the feeds of a list that are not there yet."""
        here(app)
        try:
            wanted, refused = opml.parse_opml(body)
        except opml.NoOpml as error:
            said = str(error).removeprefix("file: ")
            raise Problem("invalid", f"body: {said}.", errors=[{"field": "body", "message": said}]) from error
        done = add_all(app.jobs.sources, wanted, refused, current_user(request))
        return ImportShown(added=done.added, already_there=done.there, refused=done.refused)

    return router


def exported(app: Installed[FeedsSettings], *, whole: bool) -> Response:
    sources = every(app.jobs.sources)
    seen = (
        sources
        if whole
        else (replace(source, feed_url=source.feed_url and public(source.feed_url)) for source in sources)
    )
    text = "\n".join(opml.write_opml(seen, app.queue.clock.now()))
    return Response(text, media_type=MEDIA_TYPE, headers={"Content-Disposition": 'attachment; filename="feeds.opml"'})
