"""The addresses of the application."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.apps import Installed
from tidegate_apps.lidarr.routes import api, forms
from tidegate_apps.lidarr.settings import Settings


def routes(there: Installed[Settings]) -> APIRouter:
    """All of them."""
    router = APIRouter()
    router.include_router(api.router(there), prefix="/api/v1/lidarr")
    router.include_router(forms.router(there), include_in_schema=False)
    return router
