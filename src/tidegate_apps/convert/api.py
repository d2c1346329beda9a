"""The API: upload, list, job, download, retry, and pausing uploads."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field
from starlette.types import Receive, Scope, Send

from tidegate.apps import Installed
from tidegate.web import (
    PUBLIC,
    Permission,
    body_limit,
    current_user,
    owner_session,
    requires,
)
from tidegate_apps.convert import pages, service
from tidegate_apps.convert.codes import problem_without_code
from tidegate_apps.convert.gateway import Mappings
from tidegate_apps.convert.models import NEWEST, STATUSES, File, active_of, events_json, files_of, job_of
from tidegate_apps.convert.service import Uploads, open_result, own_file, reading_owner, ready
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import pieces

Id = Annotated[str, Path(max_length=64, description="`id` of a job.")]
_UNBOUNDED = 2**40  # the limit of the settings is checked later, and returns our own code


class Pause(BaseModel):
    """How long no upload is taken."""

    seconds: float = Field(ge=service.SHORTEST, le=service.LONGEST, strict=True)


# The upload is read as a stream, so no parameter of the route documents it.
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}, "mapping": {"type": "string"}},
                }
            }
        },
    }
}

_SAME: dict[str, Any] = {
    "description": "The same file is there already.",
    "content": {"application/json": {"schema": {}}},
}


def api_router(app: Installed[ConvertSettings], uploads: Uploads) -> APIRouter:
    router = APIRouter()

    @router.post("/upload", status_code=202, responses={200: _SAME}, openapi_extra=_FORM)
    @requires(PUBLIC)
    @body_limit(_UNBOUNDED)
    async def upload(request: Request) -> Response:
        """Takes one PDF in the field `file`, and `mapping`. 202: a new job; 200: the same file is there already."""
        taken = await uploads.take(request, owner_session(request))
        base = str(request.scope.get("root_path", ""))
        shape = {**taken.file.as_json(base), "created": taken.created}
        headers = {"Location": f"{base}/api/jobs/{taken.file.public_id}"}
        return JSONResponse(shape, 202 if taken.created else 200, headers)

    @router.get("/jobs")
    @requires(PUBLIC)
    def listed(
        request: Request,
        since: Annotated[float, Query(ge=0, description="Only what changed since then, UNIX time.")] = 0.0,
        status: Annotated[
            str, Query(description="Only those that are so.", json_schema_extra={"enum": ["", *STATUSES]})
        ] = "",
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        cursor: Annotated[str, Query(max_length=64, description="`next_cursor` of the answer before.")] = "",
    ) -> dict[str, Any]:
        """The jobs of whoever asks, the newest first, and how many of all of theirs have not ended."""
        if status and status not in STATUSES:
            raise problem_without_code("invalid", f"status: give one of {', '.join(STATUSES)}.", field="status")
        if not math.isfinite(since):
            raise problem_without_code("invalid", "since: give a time in seconds.", field="since")
        owner = reading_owner(app, request)
        below = _below(app, cursor)
        base = str(request.scope.get("root_path", ""))
        now = app.queue.clock.now()
        files = files_of(app.db, owner, since=since, status=status, below=below, limit=limit + 1)
        return {
            "jobs": [file.as_json(base) for file in files[:limit]],
            "active_count": active_of(app.db, owner),
            "next_cursor": files[limit - 1].public_id if len(files) > limit else None,
            "now": now,
        }

    @router.get("/jobs/{id}")
    @requires(PUBLIC)
    def one(request: Request, id: Id) -> dict[str, Any]:  # noqa: A002 - in the address
        """One job with its transitions."""
        file = own_file(app, id, reading_owner(app, request))
        events = events_json(app.queue.events(file.job), file.made)
        return {**file.as_json(str(request.scope.get("root_path", ""))), "events": events}

    @router.get("/jobs/{id}/download", response_class=Response)
    @requires(PUBLIC)
    def download(request: Request, id: Id) -> Response:  # noqa: A002
        """The XML."""
        file = own_file(app, id, reading_owner(app, request))
        size = ready(app, file)
        with ExitStack() as stack:
            xml = stack.enter_context(open_result(app, file))
            app.db.all("downloaded", job=file.job)
            return _Sent(file, size, xml, stack.pop_all())

    @router.post("/jobs/{id}/retry", status_code=202)
    @requires(PUBLIC)
    def retry(request: Request, id: Id) -> dict[str, Any]:  # noqa: A002
        """Queues a failed job again."""
        file = uploads.retry(request, id)
        return file.as_json(str(request.scope.get("root_path", "")))

    @router.get("/convert/schemas/{mapping}", response_class=Response)
    @requires(PUBLIC)
    def schema(mapping: str) -> Response:
        """The XML Schema of what a mapping writes."""
        known: Mappings = app.jobs.mappings
        if mapping not in known.names:
            raise problem_without_code(
                "not_there", f"There is no mapping of that name; there are: {', '.join(known.names)}."
            )
        return Response(known.schema(mapping), media_type="application/xml")

    @router.post("/convert/uploads/pause")
    @requires(Permission.PAUSE)
    def pause(request: Request, how: Pause) -> dict[str, Any]:
        """No upload is taken for a time."""
        return {"paused_until": service.pause(app, how.seconds, current_user(request))}

    @router.post("/convert/uploads/resume")
    @requires(Permission.PAUSE)
    def resume(request: Request) -> dict[str, Any]:
        """Uploads are taken again."""
        return {"resumed": service.resume(app, current_user(request))}

    return router


def _below(app: Installed[ConvertSettings], cursor: str) -> int:
    """Return the id of the last job of the previous page."""
    job_id = job_of(app.db, cursor) if cursor else NEWEST
    if job_id is None:
        raise problem_without_code(
            "bad_cursor", "cursor: give next_cursor of the answer before, unchanged.", field="cursor"
        )
    return job_id


class _Sent(StreamingResponse):
    """Sends an XML file that is already open, and closes it however the response ends."""

    def __init__(self, file: File, size: int, xml: BinaryIO, closing: ExitStack) -> None:
        name = file.xml_name
        plain = "".join(char if char.isascii() and char not in '"\\%' else "_" for char in name)
        headers = {
            "Content-Length": str(size),
            "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}",
            "ETag": f'"{file.made["sha256"]}"',
        }
        super().__init__(pieces(xml), media_type="application/xml", headers=headers)
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closing.close()


# -- routes of the application -----------------------------------------------------------------------------------------


def routes(app: Installed[ConvertSettings]) -> APIRouter:
    """Return all routes. Uploads by the API and by the page share one limit."""
    uploads = Uploads(app)
    router = APIRouter()
    router.include_router(api_router(app, uploads), prefix="/api")
    router.include_router(pages.forms_router(app, uploads), include_in_schema=False)
    return router
