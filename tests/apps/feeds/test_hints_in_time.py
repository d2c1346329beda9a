"""What a feed and its server ask for, over days: how often it is polled, when never, and how fast we catch up."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.apps.feeds.building import DAY, HOUR, Desk, fetched, words
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.parsing import Feed
from tidegate_apps.feeds.poller import PollPolicy

URL = "http://a.example/f"


class Asking:
    """Reads feeds that all ask for the same."""

    def __init__(self, **hints: Any) -> None:
        self._hints = hints

    async def __call__(self, body: bytes, content_type: str, url: str) -> Feed:
        return replace(await words(body, content_type, url), **self._hints)


def polled_at(desk: Desk, days: float, parse: Any) -> list[float]:
    """When the feed was asked in so many days; each time there is something new in it."""
    times: list[float] = []

    async def get(url: str, **_: Any) -> Any:
        times.append(desk.now)
        headers: Any = {"Cache_Control": "max-age=10800"} if parse == "max-age" else {}
        return fetched(body=f"entry{len(times)}", url=url, **headers)

    end = desk.now + days * DAY
    while desk.now < end:
        desk.poll(desk.poller(get, words if parse == "max-age" else parse))
        desk.clock.advance(max(0.001, desk.there.db.scalar(float, "next_due") - desk.now + 0.001))
    return times


@pytest.mark.req("FEED-13", "FEED-15")
@pytest.mark.parametrize(
    ("parse", "wait", "why"),
    [
        (Asking(), HOUR, "interval"),
        (Asking(ttl=1800.0), HOUR, "interval"),  # it may be polled more often than we want to
        (Asking(ttl=2 * HOUR), 2 * HOUR, "hint"),
        (Asking(ttl=90 * DAY), DAY, "hint"),  # as long as we believe anybody
        ("max-age", 3 * HOUR, "hint"),
    ],
    ids=["nothing", "short ttl", "ttl", "endless ttl", "max-age"],
)
def test_a_feed_is_polled_no_sooner_than_it_asks_for(quick: Desk, parse: Any, wait: float, why: str) -> None:
    quick.add(URL)
    times = polled_at(quick, 3, parse)
    waits = [b - a for a, b in itertools.pairwise(times)]
    assert min(waits) >= wait
    assert max(waits) <= 1.1 * wait + 1
    assert quick.state().due_why == why
    [[pace]] = quick.there.db.all("pace")
    assert pace == pytest.approx(1 / (1.05 * wait))


@pytest.mark.req("FEED-13")
def test_a_feed_is_left_alone_in_the_hours_and_on_the_days_that_it_names(quick: Desk) -> None:
    quick.add(URL)
    times = polled_at(quick, 14, Asking(skip_hours=tuple(range(6)), skip_days=("Sunday",)))
    moments = [datetime.fromtimestamp(at, UTC) for at in times[1:]]  # before the first, nothing was known
    assert min(moment.hour for moment in moments) == 6
    assert {moment.weekday() for moment in moments} == set(range(6))
    [[pace]] = quick.there.db.all("pace")
    assert pace * 14 * DAY == pytest.approx(len(times), rel=0.15)


def test_a_failure_forgets_nothing_of_what_the_feed_asked_for(quick: Desk) -> None:
    quick.add(URL)
    quick.poll(quick.poller(parse=Asking(ttl=4 * HOUR)))
    quick.sources.poll_now(1)
    quick.answers[URL] = fetched(500)
    quick.poll()
    assert quick.state().hints.not_before == 4 * HOUR
    quick.answers[URL] = fetched(304)
    quick.sources.poll_now(1)
    quick.poll()
    assert (quick.state().due_at or 0) >= quick.now + 4 * HOUR


@pytest.mark.req("FEED-15")
def test_those_that_asked_for_rare_polls_are_caught_up_with_at_their_own_pace(quick: Desk) -> None:
    quick.sources.add_many([SourceRequest(feed_url=f"http://h{i}.example/f", interval=60.0) for i in range(600)], "ada")
    quick.clock.advance(60)
    quick.poll(quick.poller(parse=Asking(ttl=DAY)))  # from now on 600 polls a day
    quick.clock.advance(3 * DAY)  # all of them are overdue now
    quick.policy = PollPolicy(paced=True, guard=None)

    async def main() -> int:
        poller = quick.poller()
        task = asyncio.create_task(poller.run(lambda: False))
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return poller.tally.polled

    # The least that a poller does, two a second, and not 2.5 times of what the intervals alone would make.
    assert quick.clock.run(main()) <= 2 * 60 + 10
