"""Turns PDF files into XML, in the background, and keeps both for a while."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter

from tidegate import App, Every, Installed, Page
from tidegate_apps.convert.codes import ALL, TARGET
from tidegate_apps.convert.handlers import jobs
from tidegate_apps.convert.pages import forms, show, show_help, show_one
from tidegate_apps.convert.routes import api
from tidegate_apps.convert.settings import Settings
from tidegate_apps.convert.simulator import simulated
from tidegate_apps.convert.uploading import Uploads


def schedules(there: Installed[Settings]) -> Iterable[Every]:
    yield Every(cron="*/10 * * * *", job=there.jobs.retention, args="old files", name="convert: old files")
    yield Every(cron="17 * * * *", job=there.jobs.sweep, args="orphans", name="convert: files without a job")


def routes(there: Installed[Settings]) -> APIRouter:
    uploads = Uploads(there)
    router = api(there, uploads)
    router.include_router(forms(there, uploads))
    return router


app = App[Settings](
    name="convert",
    title="Convert",
    about="PDF files become XML.",
    settings=Settings,
    codes=ALL,
    package="tidegate_apps.convert",
    jobs=jobs,
    schedules=schedules,
    routes=routes,
    pages=[
        Page(path="/convert", title="Convert", show=show),
        Page(path="/convert/help", show=show_help),
        Page(path="/convert/jobs/{job}", show=show_one),
    ],
    targets=[TARGET],
    help="/convert/help",
    commands="tidegate_apps.convert.commands:convert",
    simulator=simulated,
)
