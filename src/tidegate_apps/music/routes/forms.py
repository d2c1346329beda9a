"""What people do on the page: forms that work without script."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from tidegate import Installed, NotThere
from tidegate.web import Right, form, needs, said
from tidegate_apps.music.asking import kind_of, user_of
from tidegate_apps.music.connections import Connections, WrongValue
from tidegate_apps.music.settings import Settings

Sent = Annotated[dict[str, str], Depends(form)]
PAGE = "/music"


def router(there: Installed[Settings]) -> APIRouter:
    found = APIRouter()
    connections: Connections = there.jobs.connections

    @found.post("/music/connect/{provider}")
    @needs(Right.PUT_IN)
    def connect(request: Request, provider: str, sent: Sent) -> Response:
        kind, user = kind_of(there, provider), user_of(request)
        given = {name: value for name, value in sent.items() if name != "back"}
        try:
            connections.enter(user, kind, given, blanks_stay=True)
        except WrongValue as error:
            return said(request, f"/music/connect/{kind.name}", f"Nothing was saved: {error}.", tone="bad")
        return said(request, PAGE, f"{kind.title} is connected, and called now.")

    @found.post("/music/disconnect/{provider}")
    @needs(Right.PUT_IN)
    def disconnect(request: Request, provider: str) -> Response:
        kind = kind_of(there, provider)
        connections.remove(user_of(request), kind.name)
        return said(request, PAGE, f"{kind.title} is disconnected. What it brought stays in the library.")

    @found.post("/music/sync/{provider}")
    @needs(Right.PUT_IN)
    def sync(request: Request, provider: str) -> Response:
        kind = kind_of(there, provider)
        try:
            connections.ask(user_of(request), kind.name)
        except NotThere:
            return said(request, PAGE, f"{kind.title} is not connected.", tone="warn")
        return said(request, PAGE, f"{kind.title} is called now.")

    return found
