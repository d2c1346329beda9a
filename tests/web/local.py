"""A browser on this machine, without a socket."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.web.proxies import BY_LOGIN, PEER_FACTS


def opened_by(person: bool, app: ASGIApp) -> ASGIApp:
    """*app* behind a server whose kernel says whether a person's program opened the connection: ASGI has no socket."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, PEER_FACTS: {BY_LOGIN: person}}, receive, send)

    return serve


class LocalClient(TestClient):
    """A client on a loopback address, which a person started."""

    def __init__(self, app: ASGIApp, *, client: tuple[str, int] = ("127.0.0.1", 50000), **more: Any) -> None:
        super().__init__(opened_by(True, app), client=client, **more)
        self.inner = app
