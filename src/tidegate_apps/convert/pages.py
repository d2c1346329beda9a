"""The pages: what one has uploaded, one job with the beginning of its XML, and what to do when something is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from tidegate.apps import Installed
from tidegate.web import (
    ANYONE,
    Problem,
    needs,
    page,
)
from tidegate_apps.convert import intake
from tidegate_apps.convert.codes import TARGET, size_shown
from tidegate_apps.convert.files import NEWEST, File, active_of, events_json, files_of, job_of
from tidegate_apps.convert.gateway import Mappings
from tidegate_apps.convert.owned import mine, opened, ready
from tidegate_apps.convert.settings import Settings
from tidegate_apps.convert.storage import StorageError
from tidegate_apps.convert.visitors import is_shut_out, reading_owner

BUSY = "Gateway busy, paused. Will retry automatically."
AWAY = "The gateway is away: what is uploaded now fails at once, and can be retried when it is back."
_PAGE = 25
_PREVIEW = 20_000  # bytes of the XML


@dataclass(frozen=True, slots=True)
class Row:
    """One upload as the list shows it: how it looks, and why."""

    file: File
    token: str  # of its look
    word: str
    reason: str


def row_of(file: File, *, busy: bool) -> Row:
    if file.expired:
        return Row(file, "cancelled", "Removed", file.line)  # as it should be, and so no failure
    match file.status:
        case "complete":
            return Row(file, "done", "Complete", "")
        case "failed":
            return Row(file, "failed", "Failed", file.line)
        case "processing":
            tries = f"attempt {file.attempt} of {file.most_attempts}" if file.attempt > 1 else ""
            return Row(file, "running", "Processing", tries)
        case _ if busy:
            return Row(file, "paused", "Paused", BUSY)
        case _ if file.retrying:
            return Row(file, "retrying", "Trying again", file.line)
        case _:
            return Row(file, "queued", "Queued", "")


def gateway_held(there: Installed[Settings]) -> str:
    """What is said of the gateway while it takes no job; empty when it does."""
    if there.db.all("gateway_shut", name=TARGET):
        return "The gateway does not take our calls. Somebody must look at it; nothing is lost."
    rows = there.db.all("gateway", name=TARGET)
    if not rows or rows[0][0] != "open":
        return ""
    return AWAY if there.settings.breaker == "fail-fast" else BUSY


@needs(ANYONE)
def show(request: Request, there: Installed[Settings]) -> Response:
    owner = reading_owner(there, request)
    below = job_of(there.db, request.query_params.get("before", "")) or NEWEST
    held = gateway_held(there)
    files = files_of(there.db, owner, below=below, most=_PAGE + 1)
    pause = there.db.one("paused")
    signs_in = Problem("not_signed_in", "Sign in to upload files.") if is_shut_out(there, request) else None
    closed = signs_in or intake.held(there)
    return page(
        request, "convert/convert.html", rows=[row_of(each, busy=held == BUSY) for each in files[:_PAGE]],
        next=files[_PAGE - 1].public_id if len(files) > _PAGE else None, held=held, closed=closed, pause=pause,
        active=active_of(there.db, owner), first=below == NEWEST, **_limits(there),
    )  # fmt: skip


@needs(ANYONE)
def show_one(request: Request, there: Installed[Settings]) -> Response:
    file = mine(there, request.path_params["id"], reading_owner(there, request))
    held = gateway_held(there)
    return page(
        request, "convert/job.html", row=row_of(file, busy=held == BUSY), file=file, preview=_preview(there, file),
        whole=file.made.get("bytes", 0) <= _PREVIEW, mappings=there.jobs.mappings.names,
        events=events_json(there.queue.events(file.job), file.made),
    )  # fmt: skip


def show_help(request: Request, there: Installed[Settings]) -> Response:
    return page(request, "convert/help.html", settings=there.settings)


def _limits(there: Installed[Settings]) -> dict[str, Any]:
    most = there.settings.most_bytes
    known: Mappings = there.jobs.mappings
    # The one of the settings may be known only to a gateway elsewhere.
    mappings = {there.settings.mapping: "", **{name: known.about(name) for name in known.names}}
    return {"most": most, "most_shown": size_shown(most), "mappings": mappings, "settings": there.settings}


def _preview(there: Installed[Settings], file: File) -> str | None:
    """The beginning of the XML; None when there is none."""
    try:
        ready(there, file)
        with opened(there, file) as xml:
            text = xml.read(_PREVIEW).decode("utf-8", "replace")
    except (Problem, StorageError):
        return None
    cut = text if file.made["bytes"] <= _PREVIEW else text.rpartition("\n")[0]
    return cut or text
