"""The tautulli application: stores the history of Tautulli, and serves it while Tautulli is unavailable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Installed, Page, ScheduledJob
from tidegate_apps.tautulli.client import CODES, TARGET
from tidegate_apps.tautulli.jobs import BY_CLOCK, declare
from tidegate_apps.tautulli.settings import TautulliSettings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response


def schedules(app: Installed[TautulliSettings]) -> Iterable[ScheduledJob]:
    if app.settings.url:
        yield ScheduledJob(cron=app.settings.times, job=app.jobs.sync, args=(BY_CLOCK,), name="tautulli: history")


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
    jobs=declare,
    schedules=schedules,
    routes=routes,
    pages=[Page(path="/tautulli", title="Plays", icon="play", show=show)],
    targets=[TARGET],
    commands="tidegate_apps.tautulli.cli:tautulli",
)
