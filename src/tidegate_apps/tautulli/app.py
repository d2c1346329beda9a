"""The tautulli application: stores the history of Tautulli, and serves it while Tautulli is unavailable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Installed, Page, ScheduledJob
from tidegate_apps.tautulli import jobs as tautulli_jobs
from tidegate_apps.tautulli.client import CODES, TARGET
from tidegate_apps.tautulli.settings import TautulliSettings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response


def jobs(app: Installed[TautulliSettings]) -> tautulli_jobs.TautulliJobs:
    return tautulli_jobs.declare(app)


def schedules(app: Installed[TautulliSettings]) -> Iterable[ScheduledJob]:
    if app.settings.url:
        yield ScheduledJob(
            cron=app.settings.times, job=app.jobs.sync, args=(tautulli_jobs.BY_CLOCK,), name="tautulli: history"
        )


def routes(app: Installed[TautulliSettings]) -> APIRouter:
    from tidegate_apps.tautulli.api import routes as all_of_them

    return all_of_them(app)


def show(request: Request, app: Installed[TautulliSettings]) -> Response:
    from tidegate_apps.tautulli.pages import show as plays

    return plays(request, app)


app = App[TautulliSettings](
    name="tautulli",
    title="Tautulli",
    about="What was played on Plex, also while Tautulli is away.",
    settings=TautulliSettings,
    codes=CODES,
    package="tidegate_apps.tautulli",
    jobs=jobs,
    schedules=schedules,
    routes=routes,
    pages=[Page(path="/tautulli", title="Plays", icon="play", show=show)],
    targets=[TARGET],
    commands="tidegate_apps.tautulli.cli:tautulli",
)
