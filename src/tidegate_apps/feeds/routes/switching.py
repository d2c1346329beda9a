"""`/sources/{id}/feed-disable` and `/feed-enable`: behind a JSON Web Token, and behind nothing else."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.apps import Installed
from tidegate.web import PUBLIC, Problem, requires
from tidegate_apps.feeds.matrix import REASONS
from tidegate_apps.feeds.routes import shapes
from tidegate_apps.feeds.routes.asking import SourceId, Switcher, SwitcherFirst
from tidegate_apps.feeds.routes.sources import here
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.sources import Sources


def router(app: Installed[FeedsSettings]) -> APIRouter:
    found = APIRouter(tags=["feeds"], route_class=SwitcherFirst)
    sources: Sources = app.jobs.sources

    @found.patch("/sources/{id}/feed-disable")
    @requires(PUBLIC)
    def sources_feed_disable(id: SourceId, body: shapes.Reason, by: Switcher) -> shapes.SourceShown:  # noqa: A002
        """Disables a feed: for as long as its reason says, or with `manual` until somebody enables it."""
        here(app)
        if body.reason not in REASONS:
            said = f"it is not known; give one of: {', '.join(REASONS)}"
            raise Problem("invalid", f"reason: {said}.", errors=[{"field": "reason", "message": said}])
        return shapes.shown(sources.disable(id, body.reason, by))

    @found.patch("/sources/{id}/feed-enable")
    @requires(PUBLIC)
    def sources_feed_enable(id: SourceId, by: Switcher) -> shapes.SourceShown:  # noqa: A002
        """Enables a feed again."""
        here(app)
        return shapes.shown(sources.enable(id, by))

    return found
