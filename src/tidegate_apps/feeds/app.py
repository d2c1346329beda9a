"""The feeds application: polls feeds, stores their entries, and suspends feeds that keep failing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

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


class FeedCounts(NamedTuple):
    """The number of feeds by state, and of those whose poll is late."""

    ok: int
    failing: int
    disabled: int
    new: int
    late: int


class PollTotals(NamedTuple):
    """All polls with one outcome: their number, their time and the new entries."""

    outcome: str
    polls: int = 0
    ms: int = 0
    fresh: int = 0


def metrics(app: Installed[FeedsSettings]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    now = app.queue.clock.now()

    def read(tx: DbTx) -> tuple[FeedCounts | None, list[PollTotals]]:
        return tx.first(FeedCounts, "figures", late=now - _LATE_SECONDS), tx.query_as(PollTotals, "counts")

    counts, totals = app.db.read(read)
    assert counts is not None  # noqa: S101 - sums always have a row
    feeds = GaugeMetricFamily("tidegate_feeds", "Feeds that are polled, by state", labels=["state"])
    for state in ("ok", "failing", "disabled", "new"):
        feeds.add_metric([state], getattr(counts, state))
    yield feeds
    yield GaugeMetricFamily("tidegate_feeds_late", "Feeds whose poll is due for more than a minute", value=counts.late)
    polls = CounterMetricFamily("tidegate_feed_polls", "Polls, by outcome", labels=["outcome"])
    took = CounterMetricFamily("tidegate_feed_poll_seconds", "Duration of polls, by outcome", labels=["outcome"])
    by_outcome = {row.outcome: row for row in totals}
    for outcome in OUTCOMES:
        row = by_outcome.get(outcome) or PollTotals(outcome)
        polls.add_metric([outcome], row.polls)
        took.add_metric([outcome], row.ms / 1000)
    yield polls
    yield took
    fresh = sum(row.fresh for row in totals)
    yield CounterMetricFamily("tidegate_feed_new_items", "New items", value=fresh)


def jobs(app: Installed[FeedsSettings]) -> feed_jobs.FeedJobs:
    from tidegate_apps.feeds.parsing import parse

    return feed_jobs.declare(app, parse)


def schedules(app: Installed[FeedsSettings]) -> Iterable[ScheduledJob]:
    """Insert the polling job every minute unless it exists. So one always runs, however the last one ended."""
    if app.jobs.poll is not None:
        yield ScheduledJob(cron="* * * * *", job=app.jobs.poll, name="feeds")


def routes(app: Installed[FeedsSettings]) -> APIRouter:
    from tidegate_apps.feeds import api

    return api.routes(app)


def show_all(request: Request, app: Installed[FeedsSettings]) -> Response:
    from tidegate_apps.feeds import pages

    return pages.show_all(request, app)


def show_one(request: Request, app: Installed[FeedsSettings]) -> Response:
    from tidegate_apps.feeds import pages

    return pages.show_one(request, app)


def advice(settings: FeedsSettings) -> Iterable[str]:
    if settings.poll and not settings.contact:
        yield "feeds.contact is not set, so the owner of a polled site cannot reach you; set an address or a URL."


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
