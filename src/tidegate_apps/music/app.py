"""Syncs the music of every user from the services they use, and keeps a library of it."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate import App, Every, Installed
from tidegate_apps.music import handlers
from tidegate_apps.music.codes import CODES
from tidegate_apps.music.factory import kinds
from tidegate_apps.music.settings import SETTINGS, Settings


def jobs(there: Installed[Settings]) -> handlers.Jobs:
    return handlers.declare(there, kinds())


def schedules(there: Installed[Settings]) -> Iterable[Every]:
    """Every minute the job that syncs is put in, unless it is there: so one runs, whatever happens to the last."""
    if there.jobs.sync is not None:
        yield Every(cron="* * * * *", job=there.jobs.sync, args=handlers.ALL, name="music")


app = App[Settings](
    name="music",
    title="Music",
    about="Plays, playlists and pictures of every user, from the services that they use.",
    settings=SETTINGS,
    codes=CODES,
    package="tidegate_apps.music",
    jobs=jobs,
    schedules=schedules,
)
