"""The buttons of one feed: poll now, enable, disable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from tidegate.apps import Installed
from tidegate.errors import NotFound, Rejected
from tidegate.web import Permission, current_user, redirect_with_flash, requires
from tidegate_apps.feeds.matrix import MANUAL
from tidegate_apps.feeds.routes.asking import SourceId
from tidegate_apps.feeds.routes.sources import here, polls
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.sources import Sources

SwitchField = Annotated[str, Form(max_length=2000)]


def router(app: Installed[FeedsSettings]) -> APIRouter:
    found = APIRouter()
    sources: Sources = app.jobs.sources

    @found.post("/feeds/{id}/poll")
    @requires(Permission.PUT_IN)
    def poll(request: Request, id: SourceId, back: SwitchField = "") -> Response:  # noqa: A002 - the name in the address
        def work() -> str:
            polls(app)
            return f"{sources.poll_now(id, current_user(request)).name} is polled now."

        return _done(request, app, id, back, work)

    @found.post("/feeds/{id}/enable")
    @requires(Permission.PUT_IN)
    def enable(request: Request, id: SourceId, back: SwitchField = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.enable(id, current_user(request)).name
            return f"{name} is enabled, and polled now." if app.settings.poll else f"{name} is enabled."

        return _done(request, app, id, back, work)

    @found.post("/feeds/{id}/disable")
    @requires(Permission.PUT_IN)
    def disable(request: Request, id: SourceId, back: SwitchField = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.disable(id, MANUAL, current_user(request)).name
            return f"{name} is disabled until somebody enables it."

        return _done(request, app, id, back, work)

    return found


def _done(request: Request, app: Installed[FeedsSettings], id_: int, back: str, work: Callable[[], str]) -> Response:
    here(app)
    path = f"/feeds/{id_}" if f"/feeds/{id_}" in back else "/feeds"
    try:
        return redirect_with_flash(request, path, work())
    except (NotFound, Rejected) as error:
        return redirect_with_flash(request, path, f"Nothing was changed: {error}.", tone="warn")
