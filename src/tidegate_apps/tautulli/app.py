"""Keeps the history of Tautulli, and goes on showing it while Tautulli is away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Every, Installed, Page, Simulated
from tidegate_apps.tautulli import handlers
from tidegate_apps.tautulli.codes import CODES, TARGET
from tidegate_apps.tautulli.settings import Settings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response


def jobs(there: Installed[Settings]) -> handlers.Jobs:
    return handlers.declare(there)


def schedules(there: Installed[Settings]) -> Iterable[Every]:
    if there.settings.url:
        yield Every(cron=there.settings.times, job=there.jobs.sync, args=(handlers.BY_CLOCK,), name="tautulli: history")


def routes(there: Installed[Settings]) -> APIRouter:
    from tidegate_apps.tautulli.routes import routes as all_of_them

    return all_of_them(there)


def show(request: Request, there: Installed[Settings]) -> Response:
    from tidegate_apps.tautulli.pages import show as plays

    return plays(request, there)


def simulator() -> Simulated:
    from tidegate_apps.tautulli.simulator import simulated

    return simulated()


app = App[Settings](
    name="tautulli",
    title="Tautulli",
    about="What was played on Plex, also while Tautulli is away.",
    settings=Settings,
    codes=CODES,
    package="tidegate_apps.tautulli",
    jobs=jobs,
    schedules=schedules,
    routes=routes,
    pages=[Page(path="/tautulli", title="Plays", icon="play", show=show)],
    targets=[TARGET],
    commands="tidegate_apps.tautulli.commands:tautulli",
    simulator=simulator,
)
