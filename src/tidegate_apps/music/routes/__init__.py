"""The addresses of the application."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.apps import Installed
from tidegate_apps.music.routes import connections, entries, forms, logins, pictures
from tidegate_apps.music.settings import MusicSettings


def routes(app: Installed[MusicSettings]) -> APIRouter:
    """All of them."""
    router = APIRouter()
    for router_of in (connections.router, entries.router):
        router.include_router(router_of(app), prefix="/api/v1/music")
    for router_of in (forms.router, logins.router, pictures.router):
        router.include_router(router_of(app), include_in_schema=False)
    return router
