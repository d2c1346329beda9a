"""The addresses of the application."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.apps import Installed
from tidegate_apps.convert.routes import api, forms
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.uploading import Uploads


def routes(app: Installed[ConvertSettings]) -> APIRouter:
    """All of them. What comes in by the API and by the page is counted together."""
    uploads = Uploads(app)
    router = APIRouter()
    router.include_router(api.router(app, uploads), prefix="/api")
    router.include_router(forms.router(app, uploads), include_in_schema=False)
    return router
