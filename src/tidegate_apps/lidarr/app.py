"""Sends artists and albums of the library to Lidarr, no more at a time than it has room for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Every, Installed, Page, Simulated
from tidegate_apps.lidarr import handlers
from tidegate_apps.lidarr.codes import CODES
from tidegate_apps.lidarr.settings import Settings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response


def jobs(there: Installed[Settings]) -> handlers.Jobs:
    return handlers.declare(there)


def schedules(there: Installed[Settings]) -> Iterable[Every]:
    """Every minute the job that wakes the sender is put in, unless it is there. Without a Lidarr there is none."""
    if there.settings.configured:
        yield Every(cron="* * * * *", job=there.jobs.wakes, name="lidarr: wakes")
        yield Every(cron="*/10 * * * *", job=there.jobs.look, args=(False,), name="lidarr: what it has")


def routes(there: Installed[Settings]) -> APIRouter:
    from tidegate_apps.lidarr.routes import routes as all_of_them

    return all_of_them(there)


def show(request: Request, there: Installed[Settings]) -> Response:
    from tidegate_apps.lidarr import pages

    return pages.show(request, there)


def show_tracks(request: Request, there: Installed[Settings]) -> Response:
    from tidegate_apps.lidarr import pages

    return pages.show_tracks(request, there)


def simulator() -> Simulated:
    from tidegate_apps.lidarr.simulator import simulated

    return simulated()


app = App[Settings](
    name="lidarr",
    title="Lidarr",
    about="Music that is missing is sent to Lidarr, as it has room.",
    settings=Settings,
    codes=CODES,
    package="tidegate_apps.lidarr",
    jobs=jobs,
    schedules=schedules,
    routes=routes,
    pages=[
        Page(path="/lidarr", title="Lidarr", icon="download", show=show),
        Page(path="/lidarr/tracks", show=show_tracks),
    ],
    commands="tidegate_apps.lidarr.commands:lidarr",
    simulator=simulator,
)
