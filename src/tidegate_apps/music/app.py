"""The music application: syncs the music of every user from their services into a library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Installed, Page, ScheduledJob
from tidegate_apps.music.health import CODES
from tidegate_apps.music.jobs import declare
from tidegate_apps.music.registry import kinds
from tidegate_apps.music.settings import SETTINGS, MusicSettings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response


def schedules(app: Installed[MusicSettings]) -> Iterable[ScheduledJob]:
    """Insert the sync job every minute unless it exists. So one always runs, however the last one ended."""
    if app.jobs.sync is not None:
        yield ScheduledJob(cron="* * * * *", job=app.jobs.sync, name="music")


def routes(app: Installed[MusicSettings]) -> APIRouter:
    from tidegate_apps.music.api import routes as all_of_them

    return all_of_them(app)


def show_connections(request: Request, app: Installed[MusicSettings]) -> Response:
    from tidegate_apps.music import pages

    return pages.show_connections(request, app)


def show_connect(request: Request, app: Installed[MusicSettings]) -> Response:
    from tidegate_apps.music import pages

    return pages.show_connect(request, app)


def show_library(request: Request, app: Installed[MusicSettings]) -> Response:
    from tidegate_apps.music import pages

    return pages.show_library(request, app)


def advice(settings: MusicSettings) -> Iterable[str]:
    if settings.sync and not settings.contact:
        yield "music.contact is not set, so the services cannot reach you; set an address or a URL."


app = App[MusicSettings](
    name="music",
    title="Music",
    about="Plays, playlists and pictures of every user, from the services that they use.",
    settings=SETTINGS,
    codes=CODES,
    package="tidegate_apps.music",
    jobs=lambda app: declare(app, kinds()),
    schedules=schedules,
    routes=routes,
    pages=[
        Page(path="/music", title="Music", icon="music", show=show_connections),
        Page(path="/music/library", show=show_library),
        Page(path="/music/connect/{provider}", show=show_connect),
    ],
    targets=tuple(kinds()),
    commands="tidegate_apps.music.cli:music",
    advice=advice,
)
