"""Form handlers of the pages. They work without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, File, Form, Request, Response, UploadFile

from tidegate.apps import Installed
from tidegate.errors import NotFound, Rejected
from tidegate.web import Permission, body_limit, current_user, redirect_with_flash, requires
from tidegate_apps.feeds import api, opml
from tidegate_apps.feeds.api import SourceId, exported, here, polls, sees_whole
from tidegate_apps.feeds.codes import MANUAL
from tidegate_apps.feeds.models import SourceRequest, check_url
from tidegate_apps.feeds.opml import add_all
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.sources import Sources

Field = Annotated[str, Form(max_length=2000)]


def forms_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter()
    sources: Sources = app.jobs.sources

    @router.post("/feeds/add")
    @requires(Permission.PUT_IN)
    def add(request: Request, feed_url: Field = "", name: Field = "") -> Response:
        here(app)
        try:
            url = check_url(feed_url if "://" in feed_url else f"https://{feed_url.strip()}")
            made = sources.add(SourceRequest(feed_url=url, name=name.strip()[:200]), current_user(request))
        except (ValueError, Rejected) as error:
            return redirect_with_flash(request, "/feeds", f"Nothing was added: {_plain(error)}.", tone="bad")
        then = " It is polled now; its items appear here." if app.settings.poll else ""
        return redirect_with_flash(request, f"/feeds/{made.id}", f"{made.name} was added.{then}")

    @router.post("/feeds/import")
    @requires(Permission.PUT_IN)
    @body_limit(opml.MAX_BYTES + 10_000)
    def import_list(request: Request, file: Annotated[UploadFile, File()]) -> Response:
        here(app)
        try:
            wanted, refused = opml.parse_opml(file.file.read(opml.MAX_BYTES + 1))
        except opml.NoOpml as error:
            return redirect_with_flash(request, "/feeds", f"Nothing was added: {_plain(error)}.", tone="bad")
        done = add_all(sources, wanted, refused, current_user(request))
        parts = [f"{done.added} added", f"{done.there} were there already"]
        if done.refused:
            parts.append(f"{done.refused} have no address that can be used")
        return redirect_with_flash(request, "/feeds", f"{', '.join(parts)}.", tone="good" if done.added else "warn")

    @router.get("/feeds/export.opml")
    @requires(Permission.SEE)
    def export(request: Request) -> Response:
        return exported(app, whole=sees_whole(request))

    @router.post("/feeds/{id}/remove")
    @requires(Permission.PUT_IN)
    def remove(request: Request, id: SourceId) -> Response:  # noqa: A002
        here(app)
        try:
            name = sources.get(id).name
            sources.remove(id, current_user(request))
        except NotFound as error:
            return redirect_with_flash(request, "/feeds", f"Nothing was changed: {error}.", tone="bad")
        return redirect_with_flash(request, "/feeds", f"{name} was removed, with its items.")

    return router


def _plain(error: Exception) -> str:
    text = str(error)
    return text.partition(": ")[2] if text.startswith(("feed_url: ", "file: ")) else text


# -- buttons of one feed: poll now, enable, disable --------------------------------------------------------------------

SwitchField = Annotated[str, Form(max_length=2000)]


def switches_router(app: Installed[FeedsSettings]) -> APIRouter:
    router = APIRouter()
    sources: Sources = app.jobs.sources

    @router.post("/feeds/{id}/poll")
    @requires(Permission.PUT_IN)
    def poll(request: Request, id: SourceId, back: SwitchField = "") -> Response:  # noqa: A002 - the name in the address
        def work() -> str:
            polls(app)
            return f"{sources.poll_now(id, current_user(request)).name} is polled now."

        return _done(request, app, id, back, work)

    @router.post("/feeds/{id}/enable")
    @requires(Permission.PUT_IN)
    def enable(request: Request, id: SourceId, back: SwitchField = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.enable(id, current_user(request)).name
            return f"{name} is enabled, and polled now." if app.settings.poll else f"{name} is enabled."

        return _done(request, app, id, back, work)

    @router.post("/feeds/{id}/disable")
    @requires(Permission.PUT_IN)
    def disable(request: Request, id: SourceId, back: SwitchField = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.disable(id, MANUAL, current_user(request)).name
            return f"{name} is disabled until somebody enables it."

        return _done(request, app, id, back, work)

    return router


def _done(request: Request, app: Installed[FeedsSettings], id_: int, back: str, work: Callable[[], str]) -> Response:
    here(app)
    path = f"/feeds/{id_}" if f"/feeds/{id_}" in back else "/feeds"
    try:
        return redirect_with_flash(request, path, work())
    except (NotFound, Rejected) as error:
        return redirect_with_flash(request, path, f"Nothing was changed: {error}.", tone="warn")


# -- routes of the application -----------------------------------------------------------------------------------------


def routes(app: Installed[FeedsSettings]) -> APIRouter:
    """Return all routes."""
    router = APIRouter()
    for router_of in (api.opml_router, api.sources_router, api.switching_router, api.items_router):
        router.include_router(router_of(app), prefix="/api/v1")
    for router_of in (forms_router, switches_router):
        router.include_router(router_of(app), include_in_schema=False)
    return router
