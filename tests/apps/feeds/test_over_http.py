"""Every way in which a feed can answer, over real HTTP, read by the real parser: what is kept, and what is said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate import Queue, net
from tidegate.apps import install
from tidegate_apps.feeds.app import app
from tidegate_apps.feeds.jobs import user_agent
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.parsing import parse
from tidegate_apps.feeds.poller import PollClock, Poller, PollPolicy
from tidegate_apps.feeds.settings import FeedsSettings
from tidegate_apps.feeds.state import FeedState
from tidegate_demo.simulators.feeds import STATES, FeedSimulator

# What each state of the simulator comes to: the type of the error and its status; None is a success.
ERRORS: dict[str, tuple[str, int]] = {
    "partial": ("unexpected", 226),
    "long_chain": ("network", 0),
    "circle": ("network", 0),
    "to_private": ("network", 0),
    "to_nowhere": ("network", 0),
    "bad_request": ("unexpected", 400),
    "unauthorised": ("unexpected", 401),
    "forbidden": ("forbidden", 403),
    "not_found": ("not_found", 404),
    "proxy_auth": ("unexpected", 407),
    "request_timeout": ("unexpected", 408),
    "gone": ("gone", 410),
    "teapot": ("unexpected", 418),
    "too_early": ("unexpected", 425),
    "throttled": ("rate_limited", 429),
    "throttled_silently": ("rate_limited", 429),
    "throttled_for_days": ("rate_limited", 429),
    "throttled_until": ("rate_limited", 429),
    "throttled_oddly": ("rate_limited", 429),
    "legal": ("unexpected", 451),
    "broken": ("upstream_failure", 500),
    "bad_gateway": ("upstream_failure", 502),
    "unavailable": ("upstream_failure", 503),
    "unavailable_for_a_while": ("upstream_failure", 503),
    "gateway_timeout": ("upstream_failure", 504),
    "hangs": ("network", 0),
    "drips": ("network", 0),
    "resets": ("network", 0),
    "cut": ("network", 0),
    "no_http": ("network", 0),
    "bad_gzip": ("network", 0),
    "long_headers": ("parse_error", 0),
    "empty": ("parse_error", 0),
    "page": ("parse_error", 0),
    "no_feed": ("parse_error", 0),
    "entity_bomb": ("parse_error", 0),
    "gzip_bomb": ("parse_error", 0),
    "huge": ("parse_error", 0),
}
# Their next poll, in seconds, where it is not the interval.
WAITS = {"throttled_for_days": 86400, "throttled_until": 86400}


class Round:
    """One poll of one feed for each state."""

    def __init__(self, folder: Path, sim: FeedSimulator) -> None:
        self.sim = sim
        self.queue = Queue(f"sqlite:///{folder / 'feeds.db'}")
        self.there = install(app, self.queue, FeedsSettings())
        self.lines: list[logging.LogRecord] = []

    def add(self, *states: str) -> None:
        for state in states:
            self.sim.now(state, state)
        self.there.jobs.sources.add_many(
            [SourceRequest(feed_url=self.sim.feed(state), name=state) for state in states], "ada"
        )
        for n in range(1, len(states) + 1):
            self.there.db.all("set_due", source_id=n, due_at=0.0, due_why="asked")

    def poll(self, total: float = 10.0, parse: Any = parse, allow: tuple[str, ...] = ("127.0.0.0/8",)) -> None:
        handler = logging.Handler()
        handler.emit = self.lines.append  # type: ignore[method-assign,assignment]
        logger = logging.getLogger("tidegate.feeds")
        logger.addHandler(handler)
        agent = user_agent(FeedsSettings(contact="https://example.org/bot"))

        async def main() -> None:
            clock = self.queue.clock
            async with net.Client(user_agent=agent, allow=allow, ports=None, total=total) as client:
                times = PollClock(
                    now=clock.now, monotonic=clock.monotonic, older_than=clock.older_than, rng=lambda: 0.5
                )
                policy = PollPolicy(paced=False, guard=None)
                poller = Poller(self.there.db, self.there.jobs.manager, client.get, parse, times, policy)
                await poller.run(lambda: False, drain=True)

        try:
            asyncio.run(main())
        finally:
            logger.removeHandler(handler)

    def again(self, *ids: int) -> None:
        for id_ in ids:
            self.there.jobs.sources.poll_now(id_)
        self.poll()

    def state(self, id_: int) -> FeedState:
        state = self.there.db.first(FeedState, "states", source_id=id_)
        assert state is not None
        return state

    def items(self, id_: int) -> int:
        return len(self.there.db.all("items", source_id=id_, before=2**53, n=1000))


@pytest.fixture(scope="module")
def polled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Round]:
    """All states, polled once."""
    with FeedSimulator(items=3) as sim:
        found = Round(tmp_path_factory.mktemp("feeds"), sim)
        found.add(*STATES)
        found.poll()
        yield found
        found.queue.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Round]:
    with FeedSimulator(items=3) as sim:
        found = Round(tmp_path, sim)
        yield found
        found.queue.close()


@pytest.mark.req("FEED-02")
@pytest.mark.parametrize("state", STATES)
def test_each_answer_comes_to_what_the_table_says(polled: Round, state: str) -> None:
    id_ = STATES.index(state) + 1
    found = polled.state(id_)

    if state in ERRORS:
        assert (found.last_error_type, found.last_status) == ERRORS[state]
        assert found.consecutive_errors == 1
        assert found.last_success_at is None
    else:
        assert (found.last_error_type, found.last_error) == (None, None)
        assert (found.last_status, found.last_success_at is not None) == (200, True)
        assert polled.items(id_) >= 1


@pytest.mark.req("FEED-03", "FEED-11")
def test_each_failure_is_one_line_at_the_level_of_the_table(polled: Round) -> None:
    said = {
        record.args[0]: (record.levelname, record.args[1], record.args[2])
        for record in polled.lines
        if isinstance(record.args, tuple) and record.getMessage().startswith("feed poll failed")
    }
    expected = {
        STATES.index(state) + 1: ("ERROR" if kind == "unexpected" else "WARNING", kind, status)
        for state, (kind, status) in ERRORS.items()
    }

    assert said == expected
    disabled = [record.args for record in polled.lines if record.getMessage().startswith("feed disabled")]
    assert disabled == [(STATES.index("gone") + 1, "gone", 1)]


@pytest.mark.req("FEED-13", "FEED-15")
def test_the_next_poll_is_the_interval_or_what_the_site_asked_for(polled: Round) -> None:
    for state in ERRORS:
        if state != "gone":
            found = polled.state(STATES.index(state) + 1)
            assert found.due_at is not None
            assert found.last_polled_at is not None
            assert found.due_at - found.last_polled_at == pytest.approx(WAITS.get(state, 3600), abs=1), state


@pytest.mark.req("FEED-13")
def test_the_poller_says_who_it_is_and_asks_for_feeds(polled: Round) -> None:
    asked = polled.sim.asked("GET /feed/{number}")[0]

    assert asked.headers["user-agent"].startswith("Tidegate/")
    assert "+https://example.org/bot" in asked.headers["user-agent"]
    assert "application/atom+xml" in asked.headers["accept"]
    assert "gzip" in asked.headers["accept-encoding"]


@pytest.mark.req("FEED-13", "FEED-14")
def test_a_second_poll_is_conditional_and_new_entries_come_once(fresh: Round) -> None:
    fresh.add("well", "unvalidated")
    fresh.poll()
    fresh.again(1, 2)

    assert [fresh.state(n).last_status for n in (1, 2)] == [304, 200]
    assert [fresh.items(n) for n in (1, 2)] == [3, 3]
    fresh.sim.publish("well", 2)
    fresh.again(1)
    assert (fresh.state(1).last_status, fresh.items(1)) == (200, 5)


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize(("state", "adopted"), [("moved", True), ("moved_308", True), ("elsewhere", False)])
def test_a_permanent_redirect_is_adopted_after_three_polls(fresh: Round, state: str, adopted: bool) -> None:
    fresh.add(state)
    fresh.poll()
    fresh.again(1)
    assert fresh.there.jobs.sources.get(1).feed_url == fresh.sim.feed(state)
    fresh.again(1)

    there = f"{fresh.sim.url}/moved/{state}"
    assert fresh.there.jobs.sources.get(1).feed_url == (there if adopted else fresh.sim.feed(state))
    assert fresh.items(1) == 3


@pytest.mark.req("FEED-13")
def test_a_private_address_is_refused_unless_it_is_allowed(fresh: Round) -> None:
    fresh.add("well")
    fresh.poll(allow=())
    assert fresh.state(1).last_error_type == "network"
    assert fresh.sim.asked() == []


def test_a_bug_in_the_parser_is_loud_and_is_nobodys_fault(fresh: Round) -> None:
    fresh.add("well")

    async def broken(body: bytes, content_type: str, url: str) -> object:
        raise RuntimeError("a bug of ours")

    fresh.poll(parse=broken)
    assert fresh.state(1).last_error_type == "unexpected"
    assert not fresh.state(1).rest.disabled
