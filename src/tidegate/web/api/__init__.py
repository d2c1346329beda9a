"""The API under /api/v1: one file per resource."""

from __future__ import annotations

from fastapi import APIRouter


def router() -> APIRouter:
    """Every route of it."""
    from tidegate.web.api import (
        bulk_actions,
        classify,
        codes,
        config,
        events,
        explain,
        history,
        jobs,
        notices,
        overview,
        queues,
        targets,
        workers,
    )

    found = APIRouter()
    resources = (
        overview, targets, queues, jobs, bulk_actions, workers, notices, events, history, explain, classify, config,
        codes,
    )  # fmt: skip
    for each in resources:
        found.include_router(each.router)
    return found
