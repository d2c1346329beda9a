"""The API under /api/v1: one file per resource."""

from __future__ import annotations

from fastapi import APIRouter


def routers() -> list[APIRouter]:
    """Every route of it, by resource. A router of routers would read each signature once more."""
    from tidegate.web.api import (
        activity,
        bulk_actions,
        channels,
        classify,
        codes,
        config,
        events,
        explain,
        failures,
        history,
        jobs,
        notices,
        overview,
        queues,
        target_actions,
        targets,
        workers,
    )

    resources = (
        overview, targets, target_actions, queues, jobs, bulk_actions, failures, workers, notices, channels, events,
        history, explain, activity, classify, config, codes,
    )  # fmt: skip
    return [resource.router for resource in resources]
