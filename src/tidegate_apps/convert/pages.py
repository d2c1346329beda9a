"""The pages and their forms: own uploads, one job with a preview of its XML, and advice on failures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

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
    page,
    redirect_with_flash,
    requires,
)
from tidegate_apps.convert import service
from tidegate_apps.convert.codes import TARGET, size_shown
from tidegate_apps.convert.gateway import Mappings
from tidegate_apps.convert.models import NEWEST, File, UploadPause, active_of, events_json, files_of, job_of
from tidegate_apps.convert.service import Uploads, is_shut_out, open_result, own_file, reading_owner, ready
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import StorageError

BUSY = "Gateway busy, paused. Will retry automatically."
AWAY = "The gateway is away: what is uploaded now fails at once, and can be retried when it is back."
_PAGE_SIZE = 25
_PREVIEW = 20_000  # bytes of the XML


@dataclass(frozen=True, slots=True)
class FileRow:
    """One upload in the list, with its state and reason."""

    file: File
    token: str  # of its state
    word: str
    reason: str


def row_of(file: File, *, busy: bool) -> FileRow:
    if file.expired:
        return FileRow(file, "cancelled", "Removed", file.line)  # expected, so not a failure
    match file.status:
        case "complete":
            return FileRow(file, "done", "Complete", "")
        case "failed":
            return FileRow(file, "failed", "Failed", file.line)
        case "processing":
            tries = f"attempt {file.attempt} of {file.most_attempts}" if file.attempt > 1 else ""
            return FileRow(file, "running", "Processing", tries)
        case _ if busy:
            return FileRow(file, "paused", "Paused", BUSY)
        case _ if file.retrying:
            return FileRow(file, "retrying", "Trying again", file.line)
        case _:
            return FileRow(file, "queued", "Queued", "")


def gateway_held(app: Installed[ConvertSettings]) -> str:
    """Return why the gateway accepts no jobs at the moment; empty if it does."""
    if app.db.all("gateway_shut", name=TARGET):
        return "The gateway does not take our calls. Somebody must look at it; nothing is lost."
    if app.db.scalar_or_none(str, "gateway", name=TARGET) != "open":
        return ""
    return AWAY if app.settings.breaker == "fail-fast" else BUSY


@requires(PUBLIC)
def show(request: Request, there: Installed[ConvertSettings]) -> Response:
    owner = reading_owner(there, request)
    below = job_of(there.db, request.query_params.get("before", "")) or NEWEST
    held = gateway_held(there)
    files = files_of(there.db, owner, below=below, limit=_PAGE_SIZE + 1)
    pause = there.db.first(UploadPause, "paused")
    signs_in = Problem("not_signed_in", "Sign in to upload files.") if is_shut_out(there, request) else None
    closed = signs_in or service.held_until(there)
    return page(
        request,
        "convert/convert.html",
        rows=[row_of(file, busy=held == BUSY) for file in files[:_PAGE_SIZE]],
        next=files[_PAGE_SIZE - 1].public_id if len(files) > _PAGE_SIZE else None,
        held=held,
        closed=closed,
        pause=pause,
        active=active_of(there.db, owner),
        first=below == NEWEST,
        **_limits(there),
    )


@requires(PUBLIC)
def show_one(request: Request, there: Installed[ConvertSettings]) -> Response:
    file = own_file(there, request.path_params["id"], reading_owner(there, request))
    held = gateway_held(there)
    return page(
        request,
        "convert/job.html",
        row=row_of(file, busy=held == BUSY),
        file=file,
        preview=_preview(there, file),
        whole=file.made.get("bytes", 0) <= _PREVIEW,
        mappings=there.jobs.mappings.names,
        events=events_json(there.queue.events(file.job), file.made),
    )


def show_help(request: Request, app: Installed[ConvertSettings]) -> Response:
    return page(request, "convert/help.html", settings=app.settings)


def _limits(app: Installed[ConvertSettings]) -> dict[str, Any]:
    limit = app.settings.most_bytes
    known: Mappings = app.jobs.mappings
    # A remote gateway may have mappings that are unknown here.
    mappings = {app.settings.mapping: "", **{name: known.about(name) for name in known.names}}
    return {"most": limit, "most_shown": size_shown(limit), "mappings": mappings, "settings": app.settings}


def _preview(app: Installed[ConvertSettings], file: File) -> str | None:
    """Return the start of the XML; None if there is none."""
    try:
        ready(app, file)
        with open_result(app, file) as xml:
            text = xml.read(_PREVIEW).decode("utf-8", "replace")
    except (Problem, StorageError):
        return None
    cut = text if file.made["bytes"] <= _PREVIEW else text.rpartition("\n")[0]
    return cut or text


# -- forms, which work without JavaScript ------------------------------------------------------------------------------

_PAUSE_DURATIONS = {"15m": 900.0, "1h": 3600.0, "4h": 14400.0, "1d": 86400.0}


def forms_router(app: Installed[ConvertSettings], uploads: Uploads) -> APIRouter:
    """Return the routes that the forms of the pages use."""
    router = APIRouter()

    @router.post("/convert/upload")
    @requires(PUBLIC)
    @body_limit(2**40)  # our own limit is checked later, with our own text
    async def upload(request: Request) -> Response:
        if is_shut_out(app, request):
            raise await asyncio.to_thread(not_signed_in, request)
        try:
            taken = await uploads.take(request, owner_session(request))
        except Problem as error:
            return redirect_with_flash(request, "/convert", str(error.detail), tone="bad")
        new = f"{taken.file.name} is in line." if taken.created else f"{taken.file.name} is there already."
        return redirect_with_flash(request, "/convert", new)

    @router.post("/convert/jobs/{id}/retry")
    @requires(PUBLIC)
    def retry(request: Request, id: str) -> Response:  # noqa: A002 - in the address
        if is_shut_out(app, request):
            raise not_signed_in(request)
        try:
            file = uploads.retry(request, id)
        except Problem as error:
            return redirect_with_flash(request, "/convert", str(error.detail), tone="bad")
        return redirect_with_flash(request, "/convert", f"{file.name} is tried again.")

    @router.post("/convert/uploads/pause")
    @requires(Permission.PAUSE)
    async def pause(request: Request) -> Response:
        lasts = _PAUSE_DURATIONS.get((await form(request)).get("lasts", ""))
        if lasts is None:
            return redirect_with_flash(request, "/convert", "Nothing was changed: choose how long.", tone="bad")
        await asyncio.to_thread(service.pause, app, lasts, current_user(request))
        return redirect_with_flash(request, "/convert", "No file is taken for a while.")

    @router.post("/convert/uploads/resume")
    @requires(Permission.PAUSE)
    async def resume(request: Request) -> Response:
        await asyncio.to_thread(service.resume, app, current_user(request))
        return redirect_with_flash(request, "/convert", "Files are taken again.")

    return router
