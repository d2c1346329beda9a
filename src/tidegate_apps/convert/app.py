"""Turns PDF files into XML, in the background, and keeps both for a while."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Installed, Page, ScheduledJob, Simulated
from tidegate_apps.convert import handlers
from tidegate_apps.convert.codes import CODES, TARGET
from tidegate_apps.convert.pages import show, show_help, show_one  # each is marked with the right that it needs
from tidegate_apps.convert.settings import ConvertSettings

if TYPE_CHECKING:
    from fastapi import APIRouter


def jobs(app: Installed[ConvertSettings]) -> handlers.ConvertJobs:
    return handlers.declare(app)


def schedules(app: Installed[ConvertSettings]) -> Iterable[ScheduledJob]:
    yield ScheduledJob(cron="*/10 * * * *", job=app.jobs.retention, name="convert: old files")
    yield ScheduledJob(cron="17 * * * *", job=app.jobs.sweep, name="convert: files without a job")


def routes(app: Installed[ConvertSettings]) -> APIRouter:
    from tidegate_apps.convert.routes import routes as all_of_them

    return all_of_them(app)


def simulator() -> Simulated:
    from tidegate_apps.convert.simulator import simulated

    return simulated()


app = App[ConvertSettings](
    name="convert",
    title="Convert",
    about="PDF files become XML.",
    settings=ConvertSettings,
    codes=CODES,
    package="tidegate_apps.convert",
    jobs=jobs,
    schedules=schedules,
    routes=routes,
    pages=[
        Page(path="/convert", title="Convert", show=show),
        Page(path="/convert/help", show=show_help),
        Page(path="/convert/jobs/{id}", show=show_one),
    ],
    targets=[TARGET],
    help="/convert/help",
    commands="tidegate_apps.convert.commands:convert",
    simulator=simulator,
)
