"""What people do on the page: forms that work without script."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from tidegate.apps import Installed
from tidegate.errors import NotFound
from tidegate.web import Permission, form, redirect_with_flash, requires
from tidegate_apps.music.asking import kind_of, may_reach_loopback, user_of
from tidegate_apps.music.awaiting import AT_A_PAGE, has_called, outcome, wait_for_sync
from tidegate_apps.music.connections import Connections
from tidegate_apps.music.entering import WrongValue
from tidegate_apps.music.kind import ProviderKind
from tidegate_apps.music.pages import connect_page
from tidegate_apps.music.settings import MusicSettings

Sent = Annotated[dict[str, str], Depends(form)]
PAGE = "/music"
CALLED = "was called"


def router(app: Installed[MusicSettings]) -> APIRouter:
    found = APIRouter()
    connections: Connections = app.jobs.connections

    @found.post("/music/connect/{provider}")
    @requires(Permission.PUT_IN)
    def connect(request: Request, provider: str, sent: Sent) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        given = {name: value for name, value in sent.items() if name != "back"}
        asked = app.queue.clock.now()
        try:
            connections.enter(user, kind, given, blanks_stay=True, loopback=may_reach_loopback(request), by=user)
        except WrongValue as error:
            return connect_page(request, app, kind, given, wrong=error)
        return told(request, app, kind, "is connected", asked)

    @found.post("/music/disconnect/{provider}")
    @requires(Permission.PUT_IN)
    def disconnect(request: Request, provider: str) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        connections.remove(user, kind.name, by=user)
        return redirect_with_flash(
            request, PAGE, f"{kind.title} is disconnected. What it brought stays in the library."
        )

    @found.post("/music/sync/{provider}")
    @requires(Permission.PUT_IN)
    def sync(request: Request, provider: str) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        asked = app.queue.clock.now()
        try:
            connections.request_sync(user, kind.name, by=user)
        except NotFound:
            return redirect_with_flash(request, PAGE, f"{kind.title} is not connected.", tone="warn")
        return told(request, app, kind, CALLED, asked)

    return found


def told(request: Request, app: Installed[MusicSettings], kind: ProviderKind, done: str, asked: float) -> Response:
    """Back to the page, with how the call went if that is known soon."""
    line = wait_for_sync(app, user_of(request), kind, asked, AT_A_PAGE) if app.settings.sync else None
    if done == CALLED and line is not None and not has_called(line.works, asked):
        return redirect_with_flash(
            request, PAGE, f"{kind.title} was not called: {line.look.reason or line.look.word}", tone="warn"
        )
    text, tone = outcome(kind, done, line)
    return redirect_with_flash(request, PAGE, text, tone=tone)
