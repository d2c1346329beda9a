"""The lidarr application: submits artists and albums of the library to Lidarr, within its capacity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Installed, Page, ScheduledJob
from tidegate_apps.lidarr.codes import CODES
from tidegate_apps.lidarr.jobs import declare
from tidegate_apps.lidarr.settings import LidarrSettings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response


def schedules(app: Installed[LidarrSettings]) -> Iterable[ScheduledJob]:
    """Insert the job that runs submit cycles every minute, unless it exists.

    Without a configured Lidarr there is none.
    """
    if app.settings.configured:
        yield ScheduledJob(cron="* * * * *", job=app.jobs.wakes, name="lidarr: wakes")
        yield ScheduledJob(cron="*/10 * * * *", job=app.jobs.look, args=(False,), name="lidarr: what it has")


def routes(app: Installed[LidarrSettings]) -> APIRouter:
    from tidegate_apps.lidarr.api import routes as all_of_them

    return all_of_them(app)


def show(request: Request, app: Installed[LidarrSettings]) -> Response:
    from tidegate_apps.lidarr import pages

    return pages.show(request, app)


def show_tracks(request: Request, app: Installed[LidarrSettings]) -> Response:
    from tidegate_apps.lidarr import pages

    return pages.show_tracks(request, app)


app = App[LidarrSettings](
    name="lidarr",
    title="Lidarr",
    about="Music that is missing is sent to Lidarr, as it has room.",
    settings=LidarrSettings,
    codes=CODES,
    package="tidegate_apps.lidarr",
    jobs=declare,
    schedules=schedules,
    routes=routes,
    pages=[
        Page(path="/lidarr", title="Lidarr", icon="download", show=show),
        Page(path="/lidarr/tracks", show=show_tracks),
    ],
    commands="tidegate_apps.lidarr.cli:lidarr",
)
