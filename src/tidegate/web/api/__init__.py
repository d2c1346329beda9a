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
        jobs,
        notices,
        queues,
        targets,
        workers,
    )

    found = APIRouter()
    for each in (targets, queues, jobs, bulk_actions, workers, notices, events, explain, classify, config, codes):
        found.include_router(each.router)
    return found
