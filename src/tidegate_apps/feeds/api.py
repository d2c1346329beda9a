"""The JSON API of feeds, below `/sources`: strict input, ISO 8601 times in UTC in the output."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from starlette.types import Message

from tidegate.apps import DbTx, Installed
from tidegate.web import PUBLIC, Permission, Problem, body_limit, current_principal, current_user, require, requires
from tidegate_apps.feeds import opml, pages
from tidegate_apps.feeds.codes import REASONS
from tidegate_apps.feeds.models import AUTO, Change, FeedAbout, ItemRow, Source, SourceRequest, check_url, public
from tidegate_apps.feeds.pages import MAX_ID, POLLER, SourceId, check_manages, check_polls, opml_of, sees_whole
from tidegate_apps.feeds.service import Sources
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.state import POLL_NOW, FeedState

# -- requests and responses --------------------------------------------------------------------------------------------

PRINTABLE = r"^[^\x00-\x1f\x7f]*$"  # PostgreSQL cannot compare text with a NUL character


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[
    float,
    PlainSerializer(iso, return_type=str, when_used="unless-none"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _address(given: str) -> str:
    try:
        return check_url(given) if given.strip() else ""
    except ValueError as error:
        raise ValueError(str(error).removeprefix("feed_url: ")) from error


Address = Annotated[str, Field(max_length=2000), AfterValidator(_address)]
Interval = Annotated[float, Field(ge=60, le=30 * 86400, allow_inf_nan=False)]


class FeedRequestModel(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class NewSource(FeedRequestModel):
    """A source that is to be added."""

    feed_url: Address | None = None
    name: Name | None = None
    interval: Interval | None = None
    enabled: bool = True


class ChangedSource(FeedRequestModel):
    """What is to be changed; what is left out stays."""

    feed_url: Address | None = None
    name: Name | None = None
    interval: Interval | None = None
    enabled: bool | None = None


class Reason(FeedRequestModel):
    """Why a feed is disabled."""

    reason: str = Field(max_length=40)


class FeedResponseModel(BaseModel):
    """The body of a response, made from a value with the same attributes."""

    model_config = ConfigDict(from_attributes=True)


class StateShown(BaseModel):
    """What the poller knows of a feed."""

    consecutive_errors: int
    run_type: str | None
    run_length: int
    last_error: str | None
    last_error_type: str | None
    etag: str | None
    last_modified: str | None
    next_poll_at: Moment | None
    next_poll_reason: str
    last_polled_at: Moment | None
    last_success_at: Moment | None
    title: str | None
    items: int
    malformed: str | None


class SourceShown(FeedResponseModel):
    """One source. `feed_state` is null where nothing polls it."""

    id: int
    name: str
    feed_url: str | None
    interval: float
    enabled: bool
    feed_disabled_at: Moment | None
    feed_disable_reason: str | None
    disabled_by: str | None
    rests_until: Moment | None
    created_at: Moment
    feed_state: StateShown | None = None


class SourcesShown(BaseModel):
    items: list[SourceShown]
    next_cursor: str | None


class ItemShown(FeedResponseModel):
    """One entry of a feed."""

    id: int
    guid: str | None
    link: str | None
    title: str
    author: str | None
    summary: str | None
    published_at: Moment | None
    seen_at: Moment
    changed_at: Moment


class ItemsShown(BaseModel):
    items: list[ItemShown]
    next_cursor: str | None


class ImportShown(BaseModel):
    """What came of a list."""

    added: int
    already_there: int
    refused: int


def shown(source: Source, state: StateShown | None = None, *, whole: bool = True) -> SourceShown:
    """Return a source as JSON. The URL includes its secrets only if *whole*."""
    if not whole and source.feed_url is not None:
        source = replace(source, feed_url=public(source.feed_url))
    return SourceShown.model_validate(source).model_copy(update={"feed_state": state})


def state_shown(tx: DbTx, source_id: int, now: float) -> StateShown | None:
    state = tx.first(FeedState, "states", source_id=source_id)
    about = tx.first(FeedAbout, "details", source_id=source_id)
    if state is None or about is None:
        return None
    return StateShown(
        consecutive_errors=state.consecutive_errors,
        run_type=state.run_type,
        run_length=state.run_length,
        last_error=state.last_error,
        last_error_type=state.last_error_type,
        etag=state.etag,
        last_modified=state.last_modified,
        next_poll_at=now if state.due_at == POLL_NOW else state.due_at,
        next_poll_reason=state.due_why,
        last_polled_at=state.last_polled_at,
        last_success_at=state.last_success_at,
        title=about.title,
        items=about.items,
        malformed=about.malformed,
    )


# -- permissions -------------------------------------------------------------------------------------------------------

_JWT = "jwt"
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tidegate"'}


def sees(request: Request) -> None:
    """Allow readers, and programs that poll."""
    require(request, Permission.SEE, Permission.SWITCH_FEEDS)


def switcher(request: Request) -> str:
    """Return who enables or disables a feed; `auto` for a poller. Only a JSON Web Token is accepted."""
    who = current_principal(request)
    if who is None or who.via != _JWT:
        raise Problem("not_signed_in", "Send a JSON Web Token: Authorization: Bearer.", headers=_CHALLENGE)
    require(request, Permission.SWITCH_FEEDS)
    return AUTO if who.role == POLLER else current_user(request, name=who.name.removeprefix(f"{_JWT} "))


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

# -- routes ------------------------------------------------------------------------------------------------------------


def sources_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter(tags=["feeds"])
    sources: Sources = app.jobs.sources

    @router.get("/sources", dependencies=[Sees])
    @requires(PUBLIC)
    def sources_list(
        request: Request,
        response: Response,
        feed_active: bool = False,
        q: Annotated[str, Query(max_length=200, pattern=PRINTABLE)] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        cursor: Annotated[str, Query(max_length=80)] = "",
    ) -> SourcesShown:
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
        return SourcesShown(items=[shown(row, whole=whole) for row in rows[:limit]], next_cursor=following)

    @router.post("/sources", status_code=201)
    @requires(Permission.PUT_IN)
    def sources_add(request: Request, response: Response, body: NewSource) -> SourceShown:
        """Adds a source; it is polled at once."""
        check_manages(app)
        wanted = SourceRequest(
            feed_url=body.feed_url or None, name=body.name or "", interval=body.interval, enabled=body.enabled
        )
        made = sources.add(wanted, current_user(request))
        response.headers["Location"] = f"{request.scope.get('root_path', '')}/api/v1/sources/{made.id}"
        return shown(made)

    @router.get("/sources/{id}", dependencies=[Sees])
    @requires(PUBLIC)
    def sources_get(request: Request, id: SourceId) -> SourceShown:  # noqa: A002 - the name in the address
        """One source, with what is known of its feed."""
        source, now = sources.get(id), app.queue.clock.now()
        state = app.db.read(lambda tx: state_shown(tx, id, now))
        return shown(source, state, whole=sees_whole(request))

    @router.patch("/sources/{id}")
    @requires(PUBLIC)
    def sources_change(request: Request, id: SourceId, body: ChangedSource) -> SourceShown:  # noqa: A002
        """Changes what is given. A poller may say that a feed has moved."""
        fields = body.model_fields_set
        who = current_principal(request)
        moves = fields == {"feed_url"} and bool(body.feed_url) and who is not None and who.role == POLLER
        require(request, Permission.PUT_IN, *([Permission.SWITCH_FEEDS] if moves else []))
        check_manages(app)
        change = Change(
            feed_url=(body.feed_url or None) if "feed_url" in fields else "",
            name=body.name or "",
            interval=body.interval,
            enabled=body.enabled,
        )
        return shown(sources.change(id, change, AUTO if moves else current_user(request)))

    @router.delete("/sources/{id}", status_code=204)
    @requires(Permission.PUT_IN)
    def sources_remove(request: Request, id: SourceId) -> Response:  # noqa: A002
        """Removes a source, its items and its history."""
        check_manages(app)
        sources.remove(id, current_user(request))
        return Response(status_code=204)

    @router.post("/sources/{id}/poll", status_code=202)
    @requires(Permission.PUT_IN)
    def sources_poll(request: Request, id: SourceId) -> SourceShown:  # noqa: A002
        """Polls a feed at once."""
        check_manages(app)
        check_polls(app)
        return shown(sources.poll_now(id, current_user(request)))

    @router.get("/sources/{id}/items")
    @requires(Permission.SEE)
    def sources_items(
        id: SourceId,  # noqa: A002 - the name in the address
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        cursor: Annotated[int, Query(ge=1, le=MAX_ID)] = MAX_ID,
    ) -> ItemsShown:
        """The entries of a feed, the newest first."""
        if not app.settings.source_manager_url:
            sources.get(id)
        items = app.db.query_as(ItemRow, "items", source_id=id, before=cursor, n=limit + 1)
        following = str(items[limit - 1].id) if len(items) > limit else None
        return ItemsShown(items=[ItemShown.model_validate(item) for item in items[:limit]], next_cursor=following)

    return router


_START = (-1.0, 0)


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
    if not 0 <= position[0] < 1e12 or not 0 <= position[1] <= MAX_ID:
        raise Problem("bad_cursor")
    return position


def opml_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter(tags=["feeds"])
    sources: Sources = app.jobs.sources

    @router.get("/sources/opml", response_class=Response)
    @requires(Permission.SEE)
    def sources_export(request: Request) -> Response:
        """All feeds as OPML; passwords only for whoever may change them."""
        return opml_of(app, whole=sees_whole(request))

    @router.post("/sources/opml")
    @requires(Permission.PUT_IN)
    @body_limit(opml.MAX_BYTES + 1)
    def sources_import(
        request: Request,
        body: Annotated[bytes, Body(media_type=opml.MEDIA_TYPE, description="A list of feeds as OPML.")],
    ) -> ImportShown:
        """Adds the feeds of a list that are not there yet."""
        check_manages(app)
        try:
            wanted, refused = opml.parse_opml(body)
        except opml.NoOpml as error:
            said = str(error).removeprefix("file: ")
            raise Problem("invalid", f"body: {said}.", errors=[{"field": "body", "message": said}]) from error
        done = opml.add_all(sources, wanted, refused, current_user(request))
        return ImportShown(added=done.added, already_there=done.there, refused=done.refused)

    return router


def switching_router(app: Installed[FeedsSettings]) -> APIRouter:
    """Return the routes that enable and disable a feed. They need a JSON Web Token."""
    router = APIRouter(tags=["feeds"], route_class=SwitcherFirst)
    sources: Sources = app.jobs.sources

    @router.patch("/sources/{id}/feed-disable")
    @requires(PUBLIC)
    def sources_feed_disable(id: SourceId, body: Reason, by: Switcher) -> SourceShown:  # noqa: A002
        """Disables a feed: for as long as its reason says, or with `manual` until somebody enables it."""
        check_manages(app)
        if body.reason not in REASONS:
            said = f"it is not known; give one of: {', '.join(REASONS)}"
            raise Problem("invalid", f"reason: {said}.", errors=[{"field": "reason", "message": said}])
        return shown(sources.disable(id, body.reason, by))

    @router.patch("/sources/{id}/feed-enable")
    @requires(PUBLIC)
    def sources_feed_enable(id: SourceId, by: Switcher) -> SourceShown:  # noqa: A002
        """Enables a feed again."""
        check_manages(app)
        return shown(sources.enable(id, by))

    return router


def routes(app: Installed[FeedsSettings]) -> APIRouter:
    """Return all routes."""
    router = APIRouter()
    for router_of in (opml_router, sources_router, switching_router):
        router.include_router(router_of(app), prefix="/api/v1")
    router.include_router(pages.forms_router(app), include_in_schema=False)
    return router
