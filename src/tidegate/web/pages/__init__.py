"""The pages: one file each. All of them read through `ops`, and every change is a form that works without script."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.web.pages import (
    bulk,
    finding,
    help_pages,
    job,
    notices,
    overview,
    people,
    preferences,
    queue,
    settings,
    target,
    target_actions,
    targets,
    tokens,
    workers,
)
from tidegate.web.site import Site

_PAGES = (
    overview, targets, target, target_actions, bulk, queue, job, workers, notices, people, tokens, settings, help_pages,
    finding, preferences,
)  # fmt: skip


def router(site: Site) -> APIRouter:
    """All pages of *site*; none is part of the API's description."""
    found = APIRouter(include_in_schema=False)
    for page in _PAGES:
        found.include_router(page.router(site))
    return found
