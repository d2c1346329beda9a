"""The addresses of the application."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.apps import Installed
from tidegate_apps.feeds.routes import forms, items, opml, sources, switches, switching
from tidegate_apps.feeds.settings import FeedsSettings


def routes(app: Installed[FeedsSettings]) -> APIRouter:
    """All of them."""
    router = APIRouter()
    for router_of in (opml.router, sources.router, switching.router, items.router):
        router.include_router(router_of(app), prefix="/api/v1")
    for router_of in (forms.router, switches.router):
        router.include_router(router_of(app), include_in_schema=False)
    return router
