"""Polls feeds, keeps their entries, and rests those that fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.apps import App, Installed, Page, ScheduledJob, Simulated
from tidegate_apps.feeds import handlers
from tidegate_apps.feeds.codes import CODES
from tidegate_apps.feeds.settings import FeedsSettings

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response
    from prometheus_client.core import Metric


def jobs(app: Installed[FeedsSettings]) -> handlers.FeedJobs:
    from tidegate_apps.feeds.parsing import parse

    return handlers.declare(app, parse)


def schedules(app: Installed[FeedsSettings]) -> Iterable[ScheduledJob]:
    """Every minute the job that polls is put in, unless it is there: so one runs, whatever happens to the last."""
    if app.jobs.poll is not None:
        yield ScheduledJob(cron="* * * * *", job=app.jobs.poll, name="feeds")


def routes(app: Installed[FeedsSettings]) -> APIRouter:
    from tidegate_apps.feeds.routes import routes as all_of_them

    return all_of_them(app)


def show_all(request: Request, app: Installed[FeedsSettings]) -> Response:
    from tidegate_apps.feeds import pages

    return pages.show_all(request, app)


def show_one(request: Request, app: Installed[FeedsSettings]) -> Response:
    from tidegate_apps.feeds import pages

    return pages.show_one(request, app)


def metrics(app: Installed[FeedsSettings]) -> Iterable[Metric]:
    from tidegate_apps.feeds import figures

    return figures.metrics(app)


def advice(settings: FeedsSettings) -> Iterable[str]:
    if settings.poll and not settings.contact:
        yield "Sites are not told whom to write to when feeds are polled: feeds.contact is not set."


def simulator() -> Simulated:
    from tidegate_apps.feeds.simulator import simulated

    return simulated()


app = App[FeedsSettings](
    name="feeds",
    title="Feeds",
    about="Feeds are polled, and those that fail rest.",
    settings=FeedsSettings,
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
