"""`/sources/{id}/items`: what a feed has brought."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidegate.apps import Installed
from tidegate.web import Permission, requires
from tidegate_apps.feeds.routes import shapes
from tidegate_apps.feeds.routes.asking import SourceId
from tidegate_apps.feeds.settings import FeedsSettings


def router(app: Installed[FeedsSettings]) -> APIRouter:
    found = APIRouter(tags=["feeds"])

    @found.get("/sources/{id}/items")
    @requires(Permission.SEE)
    def sources_items(
        id: SourceId,  # noqa: A002 - the name in the address
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        cursor: Annotated[int, Query(ge=1, le=shapes.MAX_ID)] = shapes.MAX_ID,
    ) -> shapes.ItemsShown:
        """The entries of a feed, the newest first."""
        if not app.settings.source_manager_url:
            app.jobs.sources.get(id)
        rows = app.db.all("items", source_id=id, before=cursor, n=limit + 1)
        following = str(rows[limit - 1][0]) if len(rows) > limit else None
        return shapes.ItemsShown(items=[shapes.item_shown(row) for row in rows[:limit]], next_cursor=following)

    return found
