"""The pages: one file each. Every change is a form that works without script."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.web.pages import activity, bulk, job, jobs, notices, overview, render, system, targets, users

_PAGES = (overview, targets, bulk, activity, jobs, job, system, notices, users, render)


def routers() -> list[APIRouter]:
    """All pages; none is part of the API's description."""
    return [page.router for page in _PAGES]
