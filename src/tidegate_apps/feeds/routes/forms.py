"""What people do on the page: forms that work without script."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, File, Form, Request, Response, UploadFile

from tidegate.apps import Installed
from tidegate.errors import NotThere, Refused
from tidegate.web import Right, body_limit, current_user, needs, said
from tidegate_apps.feeds import opml
from tidegate_apps.feeds.importing import add_all
from tidegate_apps.feeds.routes.asking import SourceId, sees_whole
from tidegate_apps.feeds.routes.opml import exported
from tidegate_apps.feeds.routes.sources import here
from tidegate_apps.feeds.settings import Settings
from tidegate_apps.feeds.source import Wanted, check_url
from tidegate_apps.feeds.sources import Sources

Field = Annotated[str, Form(max_length=2000)]


def router(there: Installed[Settings]) -> APIRouter:
    found = APIRouter()
    sources: Sources = there.jobs.sources

    @found.post("/feeds/add")
    @needs(Right.PUT_IN)
    def add(request: Request, feed_url: Field = "", name: Field = "") -> Response:
        here(there)
        try:
            url = check_url(feed_url if "://" in feed_url else f"https://{feed_url.strip()}")
            made = sources.add(Wanted(feed_url=url, name=name.strip()[:200]), current_user(request))
        except (ValueError, Refused) as error:
            return said(request, "/feeds", f"Nothing was added: {_plain(error)}.", tone="bad")
        then = " It is polled now; its items appear here." if there.settings.poll else ""
        return said(request, f"/feeds/{made.id}", f"{made.name} was added.{then}")

    @found.post("/feeds/import")
    @needs(Right.PUT_IN)
    @body_limit(opml.MOST_BYTES + 10_000)
    def import_list(request: Request, file: Annotated[UploadFile, File()]) -> Response:
        here(there)
        try:
            wanted, refused = opml.read(file.file.read(opml.MOST_BYTES + 1))
        except opml.NoOpml as error:
            return said(request, "/feeds", f"Nothing was added: {_plain(error)}.", tone="bad")
        done = add_all(sources, wanted, refused, current_user(request))
        parts = [f"{done.added} added", f"{done.there} were there already"]
        if done.refused:
            parts.append(f"{done.refused} have no address that can be used")
        return said(request, "/feeds", f"{', '.join(parts)}.", tone="good" if done.added else "warn")

    @found.get("/feeds/export.opml")
    @needs(Right.SEE)
    def export(request: Request) -> Response:
        return exported(there, whole=sees_whole(request))

    @found.post("/feeds/{id}/remove")
    @needs(Right.PUT_IN)
    def remove(request: Request, id: SourceId) -> Response:  # noqa: A002
        here(there)
        try:
            name = sources.get(id).name
            sources.remove(id, current_user(request))
        except NotThere as error:
            return said(request, "/feeds", f"Nothing was changed: {error}.", tone="bad")
        return said(request, "/feeds", f"{name} was removed, with its items.")

    return found


def _plain(error: Exception) -> str:
    text = str(error)
    return text.partition(": ")[2] if text.startswith(("feed_url: ", "file: ")) else text
