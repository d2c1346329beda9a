"""What people do on the page: forms that work without script."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from tidegate.apps import Installed
from tidegate.web import (
    PUBLIC,
    Permission,
    Problem,
    body_limit,
    current_user,
    form,
    not_signed_in,
    owner_session,
    redirect_with_flash,
    requires,
)
from tidegate_apps.convert import pausing
from tidegate_apps.convert.owned import retry_file
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.uploading import Uploads
from tidegate_apps.convert.visitors import is_shut_out, reading_owner

_PAUSE_DURATIONS = {"15m": 900.0, "1h": 3600.0, "4h": 14400.0, "1d": 86400.0}


def router(app: Installed[ConvertSettings], uploads: Uploads) -> APIRouter:
    """What the pages send without any script."""
    found = APIRouter()

    @found.post("/convert/upload")
    @requires(PUBLIC)
    @body_limit(2**40)  # our own limit is checked, with our own words
    async def upload(request: Request) -> Response:
        if is_shut_out(app, request):
            raise await asyncio.to_thread(not_signed_in, request)
        try:
            taken = await uploads.take(request, owner_session(request))
        except Problem as error:
            return redirect_with_flash(request, "/convert", str(error.detail), tone="bad")
        new = f"{taken.file.name} is in line." if taken.created else f"{taken.file.name} is there already."
        return redirect_with_flash(request, "/convert", new)

    @found.post("/convert/jobs/{id}/retry")
    @requires(PUBLIC)
    def retry(request: Request, id: str) -> Response:  # noqa: A002 - in the address
        owner = reading_owner(app, request)
        try:
            file = retry_file(app, id, owner, current_user(request))
        except Problem as error:
            return redirect_with_flash(request, "/convert", str(error.detail), tone="bad")
        return redirect_with_flash(request, "/convert", f"{file.name} is tried again.")

    @found.post("/convert/uploads/pause")
    @requires(Permission.PAUSE)
    async def pause(request: Request) -> Response:
        lasts = _PAUSE_DURATIONS.get((await form(request)).get("lasts", ""))
        if lasts is None:
            return redirect_with_flash(request, "/convert", "Nothing was changed: choose how long.", tone="bad")
        await asyncio.to_thread(pausing.pause, app, lasts, current_user(request))
        return redirect_with_flash(request, "/convert", "No file is taken for a while.")

    @found.post("/convert/uploads/resume")
    @requires(Permission.PAUSE)
    async def resume(request: Request) -> Response:
        await asyncio.to_thread(pausing.resume, app, current_user(request))
        return redirect_with_flash(request, "/convert", "Files are taken again.")

    return found
