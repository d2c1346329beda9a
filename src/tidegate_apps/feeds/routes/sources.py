"""`/sources`: what is polled."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from tidegate.apps import Installed
from tidegate.errors import Rejected
from tidegate.web import PUBLIC, Permission, Problem, current_user, requires
from tidegate_apps.feeds.routes import shapes
from tidegate_apps.feeds.routes.asking import Sees, SourceId, is_poller, may, sees_whole
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.source import AUTO, Change, Source, SourceRequest
from tidegate_apps.feeds.sources import Sources

_START = (-1.0, 0)


def router(app: Installed[FeedsSettings]) -> APIRouter:
    found = APIRouter(tags=["feeds"])
    sources: Sources = app.jobs.sources

    @found.get("/sources", dependencies=[Sees])
    @requires(PUBLIC)
    def sources_list(
        request: Request,
        response: Response,
        feed_active: bool = False,
        q: Annotated[str, Query(max_length=200, pattern=shapes.PRINTABLE)] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        cursor: Annotated[str, Query(max_length=80)] = "",
    ) -> shapes.SourcesShown:
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
        return shapes.SourcesShown(
            items=[shapes.shown(row, whole=whole) for row in rows[:limit]], next_cursor=following
        )

    @found.post("/sources", status_code=201)
    @requires(Permission.PUT_IN)
    def sources_add(request: Request, response: Response, body: shapes.NewSource) -> shapes.SourceShown:
        """Adds a source; it is polled at once."""
        here(app)
        wanted = SourceRequest(
            feed_url=body.feed_url or None, name=body.name or "", interval=body.interval, enabled=body.enabled
        )
        made = sources.add(wanted, current_user(request))
        response.headers["Location"] = f"{request.scope.get('root_path', '')}/api/v1/sources/{made.id}"
        return shapes.shown(made)

    @found.get("/sources/{id}", dependencies=[Sees])
    @requires(PUBLIC)
    def sources_get(request: Request, id: SourceId) -> shapes.SourceShown:  # noqa: A002 - the name in the address
        """One source, with what is known of its feed."""
        source, now = sources.get(id), app.queue.clock.now()
        state = app.db.read(lambda tx: shapes.state_shown(tx, id, now))
        return shapes.shown(source, state, whole=sees_whole(request))

    @found.patch("/sources/{id}")
    @requires(PUBLIC)
    def sources_change(request: Request, id: SourceId, body: shapes.ChangedSource) -> shapes.SourceShown:  # noqa: A002
        """Changes what is given. A poller may say that a feed has moved."""
        given = body.model_fields_set
        moves = given == {"feed_url"} and bool(body.feed_url) and is_poller(request)
        may(request, Permission.PUT_IN, *([Permission.SWITCH_FEEDS] if moves else []))
        here(app)
        change = Change(
            feed_url=(body.feed_url or None) if "feed_url" in given else "", name=body.name or "",
            interval=body.interval, enabled=body.enabled,
        )  # fmt: skip
        return shapes.shown(sources.change(id, change, AUTO if moves else current_user(request)))

    @found.delete("/sources/{id}", status_code=204)
    @requires(Permission.PUT_IN)
    def sources_remove(request: Request, id: SourceId) -> Response:  # noqa: A002
        """Removes a source, its items and its history."""
        here(app)
        sources.remove(id, current_user(request))
        return Response(status_code=204)

    @found.post("/sources/{id}/poll", status_code=202)
    @requires(Permission.PUT_IN)
    def sources_poll(request: Request, id: SourceId) -> shapes.SourceShown:  # noqa: A002
        """Polls a feed at once."""
        here(app)
        polls(app)
        return shapes.shown(sources.poll_now(id, current_user(request)))

    return found


def here(app: Installed[FeedsSettings]) -> None:
    """Problem when the sources are kept by another server."""
    if app.settings.source_manager_url:
        raise Problem("refused", f"The sources are kept at {app.settings.source_manager_url}; change them there.")


def _cursor(last: Source) -> str:
    return f"{last.active_from or 0.0!r}_{last.id}"


def _place(cursor: str) -> tuple[float, int]:
    if not cursor:
        return _START
    try:
        active, _, id_ = cursor.partition("_")
        found = float(active), int(id_)
    except ValueError as error:
        raise Problem("bad_cursor") from error
    if not 0 <= found[0] < 1e12 or not 0 <= found[1] <= shapes.MAX_ID:
        raise Problem("bad_cursor")
    return found


def polls(app: Installed[FeedsSettings]) -> None:
    """Refused unless feeds are polled by this server."""
    if not app.settings.poll:
        raise Rejected("this server does not poll; another one does")
