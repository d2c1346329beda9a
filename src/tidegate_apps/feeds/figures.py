"""What `/metrics` tells of feeds. Labels are words of tables, never a feed or an address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tidegate.apps import DbTx, Installed
from tidegate_apps.feeds.matrix import ErrorType
from tidegate_apps.feeds.recording import OK, OWN, UNMODIFIED

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LATE_SECONDS = 60.0  # seconds
OUTCOMES = (OK, UNMODIFIED, *map(str, ErrorType), OWN)


def metrics(app: Installed[Any]) -> Iterator[Metric]:
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
