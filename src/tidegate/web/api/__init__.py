"""The JSON API under /api/v1, one file per topic."""

from __future__ import annotations

from fastapi import APIRouter


def routers() -> list[APIRouter]:
    """Return the routers of all resources. Nesting them in one router would parse each signature twice."""
    from tidegate.web.api import bulk, events, jobs, notices, queues, reference, reports, targets

    return [
        reports.router,
        targets.router,
        queues.router,
        jobs.router,
        bulk.router,
        reports.failures_router,
        queues.workers_router,
        notices.router,
        notices.channels_router,
        events.router,
        reports.history_router,
        reports.explain_router,
        events.activity_router,
        reference.router,
        reference.config_router,
        reference.codes_router,
    ]
