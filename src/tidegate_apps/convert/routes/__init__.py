"""The addresses of the application."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.apps import Installed
from tidegate_apps.convert.routes import api, forms
from tidegate_apps.convert.settings import Settings
from tidegate_apps.convert.uploading import Uploads


def routes(there: Installed[Settings]) -> APIRouter:
    """All of them. What comes in by the API and by the page is counted together."""
    uploads = Uploads(there)
    router = APIRouter()
    router.include_router(api.router(there, uploads), prefix="/api")
    router.include_router(forms.router(there, uploads), include_in_schema=False)
    return router
