"""The simulator does what its states say, as seen by the client that polls feeds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest

from tidegate import classify, net
from tidegate_apps.feeds.parsing import ParseError, parse
from tidegate_demo.simulators.feeds import STATES, FeedSimulator, simulated

# What a poll of each state comes to: a status, a code of the classifier, or that it cannot be parsed.
WELL = ("well", "atom", "json", "latin", "malformed", "gzip", "slow", "chunked", "unvalidated", "restless", "stuck",
        "moved", "moved_308", "elsewhere", "elsewhere_307", "chain")  # fmt: skip
STATUSES = {
    "partial": 226, "bad_request": 400, "unauthorised": 401, "forbidden": 403, "not_found": 404, "proxy_auth": 407,
    "request_timeout": 408, "gone": 410, "teapot": 418, "too_early": 425, "throttled": 429, "throttled_silently": 429,
    "throttled_for_days": 429, "throttled_until": 429, "throttled_oddly": 429, "legal": 451, "broken": 500,
    "bad_gateway": 502, "unavailable": 503, "unavailable_for_a_while": 503, "gateway_timeout": 504,
}  # fmt: skip
CODES = {
    "long_chain": "redirected", "circle": "redirected", "to_private": "bad_address", "to_nowhere": "bad_address",
    "hangs": "timeout", "drips": "timeout", "resets": "network", "cut": "cut_short", "no_http": "network",
    "long_headers": "parse_error", "gzip_bomb": "parse_error", "bad_gzip": "cut_short", "huge": "parse_error",
}  # fmt: skip
UNREADABLE = ("empty", "page", "no_feed", "entity_bomb")


@pytest.fixture(scope="module")
def sim() -> Iterator[FeedSimulator]:
    with FeedSimulator(items=5) as running:
        yield running


def client(total: str = "60s") -> net.Client:
    return net.Client(user_agent="Test/1", allow=["127.0.0.0/8"], ports=None, total=total)


def test_every_state_is_in_one_of_the_tables() -> None:
    assert sorted([*WELL, *STATUSES, *CODES, *UNREADABLE]) == sorted(STATES)


@pytest.mark.parametrize("state", WELL)
async def test_a_feed_that_is_well_can_be_read(sim: FeedSimulator, state: str) -> None:
    sim.now(state, state)
    async with client() as fetching:
        answer = await fetching.get(sim.feed(state))
    feed = await parse(answer.body, answer.headers["Content-Type"], answer.url)
    assert len(feed.entries) == 5
    assert (feed.malformed is not None) == (state in ("malformed", "latin"))
    moved = f"{sim.url}/moved/{state}" if state in ("moved", "moved_308", "chain") else None
    assert answer.moved_to == moved
    assert sim.polls(state) == 1


@pytest.mark.parametrize("state", STATUSES)
async def test_a_refusal_has_its_status(sim: FeedSimulator, state: str) -> None:
    sim.now(state, state)
    async with client() as fetching:
        assert (await fetching.get(sim.feed(state))).status == STATUSES[state]


@pytest.mark.parametrize("state", CODES)
async def test_a_failure_is_classified(sim: FeedSimulator, state: str) -> None:
    sim.now(state, state)
    async with client("300ms" if CODES[state] == "timeout" else "60s") as fetching:
        with pytest.raises(net.FetchError) as caught:
            await fetching.get(sim.feed(state))
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == CODES[state]


@pytest.mark.parametrize("state", UNREADABLE)
async def test_what_cannot_be_read_comes_as_a_good_answer(sim: FeedSimulator, state: str) -> None:
    sim.now(state, state)
    async with client() as fetching:
        answer = await fetching.get(sim.feed(state))
    assert answer.status == 200
    with pytest.raises(ParseError):
        await parse(answer.body, answer.headers["Content-Type"], answer.url)


@pytest.mark.req("FEED-13")
async def test_validators_are_honoured_until_something_is_published(sim: FeedSimulator) -> None:
    async with client() as fetching:
        first = await fetching.get(sim.feed("v"))
        by_etag = {"If-None-Match": first.headers["ETag"]}
        by_date = {"If-Modified-Since": first.headers["Last-Modified"]}
        assert (await fetching.get(sim.feed("v"), headers=by_etag)).status == 304
        assert (await fetching.get(sim.feed("v"), headers=by_date)).status == 304
        sim.publish("v")
        again = await fetching.get(sim.feed("v"), headers=by_etag | by_date)
        assert again.status == 200
        assert again.headers["ETag"] != first.headers["ETag"]
        sim.now("v", "stuck")
        assert (await fetching.get(sim.feed("v"), headers=by_etag)).status == 304


async def test_states_come_one_after_the_other_and_can_be_told_over_http(sim: FeedSimulator) -> None:
    sim.next("s", "broken", "not_found")
    async with client() as fetching:

        async def status() -> int:
            return (await fetching.get(sim.feed("s"))).status

        assert [await status() for _ in range(3)] == [500, 404, 200]
        assert httpx2.post(f"{sim.url}/state/s", content="gone", timeout=60).json() == {"feed": "s", "state": "gone"}
        assert [await status(), await status()] == [410, 410]
        assert httpx2.post(f"{sim.url}/state/s", content="well", timeout=60).status_code == 200
        assert await status() == 200
        assert httpx2.post(f"{sim.url}/publish/s", timeout=60).json() == {"feed": "s", "entries": 6}
    told = httpx2.post(f"{sim.url}/state/s", content="dead", timeout=60)
    assert told.status_code == 400
    assert re.match(r"state: 'dead'.* well, ", told.json()["error"])


def test_the_front_page_and_the_opml_list_the_feeds(sim: FeedSimulator) -> None:
    sim.now(3, "gone")
    page = httpx2.get(sim.url, timeout=60).text
    assert '<a href="/feed/3">/feed/3</a>: gone' in page
    opml = httpx2.get(f"{sim.url}/opml", timeout=60).text
    assert opml.count("<outline") == 12
    assert f'xmlUrl="{sim.feed(12)}"' in opml


def test_a_reset_makes_all_feeds_well_again() -> None:
    with FeedSimulator(items=5) as sim:
        sim.now(1, "gone")
        sim.next(1, "broken")
        sim.publish(1)
        sim.reset()
        answer = httpx2.get(sim.feed(1), timeout=60)
        assert answer.status_code == 200
        assert answer.text.count("<item>") == 5
        assert "Entry 6" not in answer.text


def test_the_application_may_poll_it() -> None:
    found = simulated()
    assert isinstance(found.simulator, FeedSimulator)
    wanted = {"allow_networks": ["127.0.0.0/8"], "ports": [], "simulated": "http://127.0.0.1:1"}
    assert found.settings("http://127.0.0.1:1") == wanted
