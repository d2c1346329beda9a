"""The feeds application: polls feeds, stores their entries, and suspends feeds that keep failing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tidegate.apps import App, DbTx, Installed, Page, ScheduledJob
from tidegate_apps.feeds import jobs as feed_jobs
from tidegate_apps.feeds.codes import CODES, ErrorType
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.state import OK, OWN, UNMODIFIED

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response
    from prometheus_client.core import Metric


# -- metrics -----------------------------------------------------------------------------------------------------------
# Labels are values from tables, never a feed or a URL: their number is bounded.

_LATE_SECONDS = 60.0
OUTCOMES = (OK, UNMODIFIED, *map(str, ErrorType), OWN)


def metrics(app: Installed[Any]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    now = app.queue.clock.now()

    def read(tx: DbTx) -> tuple[Any, dict[str, Any]]:
        return tx.all("figures", late=now - _LATE_SECONDS)[0], {row[0]: row[1:] for row in tx.all("counts")}

    (well, failing, resting, unpolled, late), counts = app.db.read(read)
    feeds = GaugeMetricFamily("tidegate_feeds", "Feeds that are polled, by how they are", labels=["state"])
    for state, n in (("ok", well), ("failing", failing), ("disabled", resting), ("new", unpolled)):
        feeds.add_metric([state], n)
    yield feeds
    yield GaugeMetricFamily("tidegate_feeds_late", "Feeds whose poll is due for more than a minute", value=late)
    polls = CounterMetricFamily("tidegate_feed_polls", "Polls, by how they ended", labels=["outcome"])
    took = CounterMetricFamily("tidegate_feed_poll_seconds", "What polls took, by how they ended", labels=["outcome"])
    for outcome in OUTCOMES:
        n, ms, _ = counts.get(outcome, (0, 0, 0))
        polls.add_metric([outcome], n)
        took.add_metric([outcome], ms / 1000)
    yield polls
    yield took
    fresh = sum(row[2] for row in counts.values())
    yield CounterMetricFamily("tidegate_feed_new_items", "Items that were new", value=fresh)


def jobs(app: Installed[FeedsSettings]) -> feed_jobs.FeedJobs:
    from tidegate_apps.feeds.parsing import parse

    return feed_jobs.declare(app, parse)


def schedules(app: Installed[FeedsSettings]) -> Iterable[ScheduledJob]:
    """Insert the polling job every minute unless it exists. So one always runs, however the last one ended."""
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


def advice(settings: FeedsSettings) -> Iterable[str]:
    if settings.poll and not settings.contact:
        yield "Sites are not told whom to write to when feeds are polled: feeds.contact is not set."


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
    commands="tidegate_apps.feeds.cli:feeds",
    metrics=metrics,
    advice=advice,
)
