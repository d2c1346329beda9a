"""`/sources/opml`: lists of feeds, in and out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel

from tidegate.apps import Installed
from tidegate.web import Permission, Problem, body_limit, current_user, requires
from tidegate_apps.feeds import opml
from tidegate_apps.feeds.importing import add_all, every
from tidegate_apps.feeds.routes.asking import sees_whole
from tidegate_apps.feeds.routes.sources import here
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.source import public

MEDIA_TYPE = "text/x-opml"


class ImportShown(BaseModel):
    """What came of a list."""

    added: int
    already_there: int
    refused: int


def router(app: Installed[FeedsSettings]) -> APIRouter:
    found = APIRouter(tags=["feeds"])

    @found.get("/sources/opml", response_class=Response)
    @requires(Permission.SEE)
    def sources_export(request: Request) -> Response:
        """All feeds as OPML; passwords only for whoever may change them."""
        return exported(app, whole=sees_whole(request))

    @found.post("/sources/opml")
    @requires(Permission.PUT_IN)
    @body_limit(opml.MAX_BYTES + 1)
    def sources_import(
        request: Request, body: Annotated[bytes, Body(media_type=MEDIA_TYPE, description="A list of feeds as OPML.")]
    ) -> ImportShown:
        """Adds the feeds of a list that are not there yet."""
        here(app)
        try:
            wanted, refused = opml.parse_opml(body)
        except opml.NoOpml as error:
            said = str(error).removeprefix("file: ")
            raise Problem("invalid", f"body: {said}.", errors=[{"field": "body", "message": said}]) from error
        done = add_all(app.jobs.sources, wanted, refused, current_user(request))
        return ImportShown(added=done.added, already_there=done.there, refused=done.refused)

    return found


def exported(app: Installed[FeedsSettings], *, whole: bool) -> Response:
    sources = every(app.jobs.sources)
    seen = (
        sources
        if whole
        else (replace(source, feed_url=source.feed_url and public(source.feed_url)) for source in sources)
    )
    text = "\n".join(opml.write_opml(seen, app.queue.clock.now()))
    return Response(text, media_type=MEDIA_TYPE, headers={"Content-Disposition": 'attachment; filename="feeds.opml"'})
