"""`/sources/opml`: lists of feeds, in and out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel

from tidegate.apps import Installed
from tidegate.web import Problem, Right, body_limit, current_user, needs
from tidegate_apps.feeds import opml
from tidegate_apps.feeds.importing import add_all, every
from tidegate_apps.feeds.routes.asking import sees_whole
from tidegate_apps.feeds.routes.sources import here
from tidegate_apps.feeds.settings import Settings
from tidegate_apps.feeds.source import public

MEDIA_TYPE = "text/x-opml"


class ImportShown(BaseModel):
    """What came of a list."""

    added: int
    already_there: int
    refused: int


def router(there: Installed[Settings]) -> APIRouter:
    found = APIRouter(tags=["feeds"])

    @found.get("/sources/opml", response_class=Response)
    @needs(Right.SEE)
    def sources_export(request: Request) -> Response:
        """All feeds as OPML; passwords only for whoever may change them."""
        return exported(there, whole=sees_whole(request))

    @found.post("/sources/opml")
    @needs(Right.PUT_IN)
    @body_limit(opml.MOST_BYTES + 1)
    def sources_import(
        request: Request, body: Annotated[bytes, Body(media_type=MEDIA_TYPE, description="A list of feeds as OPML.")]
    ) -> ImportShown:
        """Adds the feeds of a list that are not there yet."""
        here(there)
        try:
            wanted, refused = opml.read(body)
        except opml.NoOpml as error:
            said = str(error).removeprefix("file: ")
            raise Problem("invalid", f"body: {said}.", errors=[{"field": "body", "message": said}]) from error
        done = add_all(there.jobs.sources, wanted, refused, current_user(request))
        return ImportShown(added=done.added, already_there=done.there, refused=done.refused)

    return found


def exported(there: Installed[Settings], *, whole: bool) -> Response:
    sources = every(there.jobs.sources)
    seen = sources if whole else (replace(each, feed_url=each.feed_url and public(each.feed_url)) for each in sources)
    text = "\n".join(opml.written(seen, there.queue.clock.now()))
    return Response(text, media_type=MEDIA_TYPE, headers={"Content-Disposition": 'attachment; filename="feeds.opml"'})
