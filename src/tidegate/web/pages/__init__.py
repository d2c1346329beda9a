"""The pages: one file each. All of them read through `ops`, and every change is a form that works without script."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.web.pages import (
    actions,
    activity,
    bulk,
    channels,
    failures,
    finding,
    help_pages,
    job,
    notices,
    overview,
    people,
    pictures,
    preferences,
    queue,
    settings,
    target,
    target_actions,
    targets,
    tokens,
    workers,
)

_PAGES = (
    overview, targets, target, target_actions, bulk, actions, activity, queue, failures, job, workers, notices,
    channels, people, tokens, settings, help_pages, finding, pictures, preferences,
)  # fmt: skip


def routers() -> list[APIRouter]:
    """All pages; none is part of the API's description."""
    return [page.router for page in _PAGES]
