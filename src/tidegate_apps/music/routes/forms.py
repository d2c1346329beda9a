"""What people do on the page: forms that work without script."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from tidegate.apps import Installed
from tidegate.errors import NotThere
from tidegate.web import Right, form, needs, said
from tidegate_apps.music.asking import kind_of, may_reach_loopback, user_of
from tidegate_apps.music.awaiting import AT_A_PAGE, awaited, called, outcome
from tidegate_apps.music.connections import Connections
from tidegate_apps.music.entering import WrongValue
from tidegate_apps.music.kind import Kind
from tidegate_apps.music.pages import connect_page
from tidegate_apps.music.settings import Settings

Sent = Annotated[dict[str, str], Depends(form)]
PAGE = "/music"
CALLED = "was called"


def router(there: Installed[Settings]) -> APIRouter:
    found = APIRouter()
    connections: Connections = there.jobs.connections

    @found.post("/music/connect/{provider}")
    @needs(Right.PUT_IN)
    def connect(request: Request, provider: str, sent: Sent) -> Response:
        kind, user = kind_of(there, provider), user_of(request)
        given = {name: value for name, value in sent.items() if name != "back"}
        asked = there.queue.clock.now()
        try:
            connections.enter(user, kind, given, blanks_stay=True, loopback=may_reach_loopback(request), by=user)
        except WrongValue as error:
            return connect_page(request, there, kind, given, wrong=error)
        return told(request, there, kind, "is connected", asked)

    @found.post("/music/disconnect/{provider}")
    @needs(Right.PUT_IN)
    def disconnect(request: Request, provider: str) -> Response:
        kind, user = kind_of(there, provider), user_of(request)
        connections.remove(user, kind.name, by=user)
        return said(request, PAGE, f"{kind.title} is disconnected. What it brought stays in the library.")

    @found.post("/music/sync/{provider}")
    @needs(Right.PUT_IN)
    def sync(request: Request, provider: str) -> Response:
        kind, user = kind_of(there, provider), user_of(request)
        asked = there.queue.clock.now()
        try:
            connections.ask(user, kind.name, by=user)
        except NotThere:
            return said(request, PAGE, f"{kind.title} is not connected.", tone="warn")
        return told(request, there, kind, CALLED, asked)

    return found


def told(request: Request, there: Installed[Settings], kind: Kind, done: str, asked: float) -> Response:
    """Back to the page, with how the call went if that is known soon."""
    line = awaited(there, user_of(request), kind, asked, AT_A_PAGE) if there.settings.sync else None
    if done == CALLED and line is not None and not called(line.works, asked):
        return said(request, PAGE, f"{kind.title} was not called: {line.look.reason or line.look.word}", tone="warn")
    text, tone = outcome(kind, done, line)
    return said(request, PAGE, text, tone=tone)
