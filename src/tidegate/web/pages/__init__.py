"""HTML pages, one topic per file. Every change is a form that works without script."""

from __future__ import annotations

from fastapi import APIRouter

from tidegate.web.pages import activity, bulk, job, jobs, notices, overview, render, system, targets, users

_PAGES = (overview, targets, bulk, activity, jobs, job, system, notices, users, render)


def routers() -> list[APIRouter]:
    """Return the routers of all pages."""
    return [page.router for page in _PAGES]
