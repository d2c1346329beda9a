"""The addresses of the application."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.apps import Installed
from tidegate_apps.lidarr.routes import api, forms
from tidegate_apps.lidarr.settings import LidarrSettings


def routes(app: Installed[LidarrSettings]) -> APIRouter:
    """All of them."""
    router = APIRouter()
    router.include_router(api.router(app), prefix="/api/v1/lidarr")
    router.include_router(forms.router(app), include_in_schema=False)
    return router
