"""The convert application: converts PDF files to XML in the background, and stores both for a limited time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Installed, Page, ScheduledJob
from tidegate_apps.convert import jobs as convert_jobs
from tidegate_apps.convert.codes import CODES, TARGET
from tidegate_apps.convert.pages import show, show_help, show_one
from tidegate_apps.convert.settings import ConvertSettings

if TYPE_CHECKING:
    from fastapi import APIRouter


def jobs(app: Installed[ConvertSettings]) -> convert_jobs.ConvertJobs:
    return convert_jobs.declare(app)


def schedules(app: Installed[ConvertSettings]) -> Iterable[ScheduledJob]:
    yield ScheduledJob(cron="*/10 * * * *", job=app.jobs.retention, name="convert: old files")
    yield ScheduledJob(cron="17 * * * *", job=app.jobs.sweep, name="convert: files without a job")


def routes(app: Installed[ConvertSettings]) -> APIRouter:
    from tidegate_apps.convert.api import routes as all_of_them

    return all_of_them(app)


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
    commands="tidegate_apps.convert.cli:convert",
)
