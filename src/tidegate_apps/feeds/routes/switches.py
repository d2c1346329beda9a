"""The buttons of one feed: poll now, enable, disable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from tidegate.apps import Installed
from tidegate.errors import NotThere, Refused
from tidegate.web import Right, current_user, needs, said
from tidegate_apps.feeds.matrix import MANUAL
from tidegate_apps.feeds.routes.asking import SourceId
from tidegate_apps.feeds.routes.sources import here, polls
from tidegate_apps.feeds.settings import Settings
from tidegate_apps.feeds.sources import Sources

Field = Annotated[str, Form(max_length=2000)]


def router(there: Installed[Settings]) -> APIRouter:
    found = APIRouter()
    sources: Sources = there.jobs.sources

    @found.post("/feeds/{id}/poll")
    @needs(Right.PUT_IN)
    def poll(request: Request, id: SourceId, back: Field = "") -> Response:  # noqa: A002 - the name in the address
        def work() -> str:
            polls(there)
            return f"{sources.poll_now(id, current_user(request)).name} is polled now."

        return _done(request, there, id, back, work)

    @found.post("/feeds/{id}/enable")
    @needs(Right.PUT_IN)
    def enable(request: Request, id: SourceId, back: Field = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.enable(id, current_user(request)).name
            return f"{name} is enabled, and polled now." if there.settings.poll else f"{name} is enabled."

        return _done(request, there, id, back, work)

    @found.post("/feeds/{id}/disable")
    @needs(Right.PUT_IN)
    def disable(request: Request, id: SourceId, back: Field = "") -> Response:  # noqa: A002
        def work() -> str:
            name = sources.disable(id, MANUAL, current_user(request)).name
            return f"{name} is disabled until somebody enables it."

        return _done(request, there, id, back, work)

    return found


def _done(request: Request, there: Installed[Settings], id_: int, back: str, work: Callable[[], str]) -> Response:
    here(there)
    path = f"/feeds/{id_}" if f"/feeds/{id_}" in back else "/feeds"
    try:
        return said(request, path, work())
    except (NotThere, Refused) as error:
        return said(request, path, f"Nothing was changed: {error}.", tone="warn")
