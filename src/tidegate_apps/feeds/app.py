"""Polls feeds, keeps their entries, and rests those that fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Every, Installed, Page, Simulated
from tidegate_apps.feeds import handlers
from tidegate_apps.feeds.codes import CODES
from tidegate_apps.feeds.settings import Settings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response
    from prometheus_client.core import Metric


def jobs(there: Installed[Settings]) -> handlers.Jobs:
    from tidegate_apps.feeds.parsing import parse

    return handlers.declare(there, parse)


def schedules(there: Installed[Settings]) -> Iterable[Every]:
    """Every minute the job that polls is put in, unless it is there: so one runs, whatever happens to the last."""
    if there.jobs.poll is not None:
        yield Every(cron="* * * * *", job=there.jobs.poll, name="feeds")


def routes(there: Installed[Settings]) -> APIRouter:
    from tidegate_apps.feeds.routes import routes as all_of_them

    return all_of_them(there)


def show_all(request: Request, there: Installed[Settings]) -> Response:
    from tidegate_apps.feeds import pages

    return pages.show_all(request, there)


def show_one(request: Request, there: Installed[Settings]) -> Response:
    from tidegate_apps.feeds import pages

    return pages.show_one(request, there)


def metrics(there: Installed[Settings]) -> Iterable[Metric]:
    from tidegate_apps.feeds import figures

    return figures.metrics(there)


def advice(settings: Settings) -> Iterable[str]:
    if settings.poll and not settings.contact:
        yield "Sites are not told whom to write to when feeds are polled: feeds.contact is not set."


def simulator() -> Simulated:
    from tidegate_apps.feeds.simulator import simulated

    return simulated()


app = App[Settings](
    name="feeds",
    title="Feeds",
    about="Feeds are polled, and those that fail rest.",
    settings=Settings,
    codes=CODES,
    package="tidegate_apps.feeds",
    jobs=jobs,
    schedules=schedules,
    routes=routes,
    pages=[Page(path="/feeds", title="Feeds", icon="feed", show=show_all), Page(path="/feeds/{key}", show=show_one)],
    commands="tidegate_apps.feeds.commands:feeds",
    simulator=simulator,
    metrics=metrics,
    advice=advice,
)
