"""When all of a host fails, its feeds are not to blame, if that is wanted."""

from __future__ import annotations

import logging

import pytest

from tests.apps.feeds.building import DAY, HOUR, Desk, fetched, lines
from tidegate_apps.feeds.host_guard import FailureAttribution, HostGuard
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.poller import PollPolicy
from tidegate_apps.feeds.state import FeedState

ON = PollPolicy(paced=False, guard=None, host_guard=True)
FEEDS = [f"http://one.example/{n}" for n in range(5)]
NOTICE = "Most feeds of one.example:80 fail"


def polled(desk: Desk, hours: int, memory: FailureAttribution | None = None) -> None:
    memory = memory or desk.memory()
    for _ in range(hours):
        desk.clock.advance(9 * HOUR)  # the longest backoff is over
        desk.poll(memory=memory)


def down(desk: Desk, status: int, n: int = 5) -> None:
    for url in FEEDS[:n]:
        desk.answers[url] = fetched(status)


@pytest.fixture
def host(quick: Desk) -> Desk:
    """Five feeds of one host and one of another, all of them well."""
    quick.policy = ON
    quick.sources.add_many([SourceRequest(feed_url=url) for url in [*FEEDS, "http://two.example/"]], "ada")
    quick.clock.advance(60)
    return quick


@pytest.mark.req("FEED-04")
def test_a_host_that_fails_is_blamed_in_place_of_its_feeds_for_a_day(
    host: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    memory = host.memory()
    host.poll(memory=memory)
    assert host.notices() == []
    down(host, 503)
    polled(host, 3, memory)
    # Those that failed before there were enough of them did count.
    assert sorted(host.state(n).consecutive_errors for n in range(1, 6)) == [0, 0, 0, 1, 1]
    assert [(title, goes_on) for _, title, goes_on in host.notices()] == [(NOTICE, True)]
    assert [text for _, text in lines(caplog) if "host" in text.split(" ")[0]] == [
        "host_failing host=one.example:80 error_type=upstream_failure"
    ]

    polled(host, 12, memory)  # more than a day later they count, and rest
    assert {host.state(n).rest.reason for n in range(1, 6)} == {"upstream_failure"}


@pytest.mark.req("FEED-04")
def test_a_host_that_is_well_again_ends_what_was_said_of_it(host: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    memory = host.memory()
    host.poll(memory=memory)
    down(host, 503)
    polled(host, 2, memory)
    host.answers.clear()
    polled(host, 1, memory)
    assert [(title, goes_on) for _, title, goes_on in host.notices() if title == NOTICE] == [(NOTICE, False)]
    assert [text for _, text in lines(caplog)].count("host_well host=one.example:80") == 1
    assert all(host.state(n).consecutive_errors == 0 for n in range(1, 7))


def test_a_server_that_starts_when_a_host_is_well_ends_what_the_last_one_said(host: Desk) -> None:
    host.poll()
    down(host, 503)
    polled(host, 2, host.memory())
    host.answers.clear()
    polled(host, 1, host.memory())  # it has heard nothing of the other
    assert [goes_on for _, title, goes_on in host.notices() if title == NOTICE] == [False]


@pytest.mark.req("FEED-04")
def test_feeds_that_are_gone_count_however_many_of_a_host_there_are(host: Desk) -> None:
    memory = host.memory()
    host.poll(memory=memory)
    down(host, 404)
    polled(host, 3, memory)
    assert {host.state(n).rest.reason for n in range(1, 6)} == {"not_found"}
    assert (NOTICE, True) in [(title, goes_on) for _, title, goes_on in host.notices()]


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize("why", ["too few fail", "it is off", "another host has one feed"])
def test_nobody_is_spared_otherwise(host: Desk, why: str) -> None:
    if why == "it is off":
        host.policy = PollPolicy(paced=False, guard=None)
    memory = host.memory()
    host.poll(memory=memory)
    if why == "another host has one feed":
        host.answers["http://two.example/"] = fetched(503)
    else:
        down(host, 503, n=2 if why == "too few fail" else 5)
    polled(host, 2, memory)
    failing = 6 if why == "another host has one feed" else 1
    assert host.state(failing).consecutive_errors == 2
    assert host.notices() == []


def test_the_day_of_a_host_ends_with_it(host: Desk) -> None:
    """A host that was well in between has a day again."""
    memory = host.memory()
    host.poll(memory=memory)
    for _ in range(3):
        down(host, 503)
        polled(host, 2, memory)
        host.answers.clear()
        polled(host, 1, memory)
    assert host.now - 1_700_000_000.0 > 2 * DAY
    assert all(not host.state(n).rest.disabled and host.state(n).consecutive_errors == 0 for n in range(1, 7))


def test_hosts_whose_feeds_are_gone_are_forgotten_unless_people_have_heard_of_them() -> None:
    def feed(n: int, host: str) -> FeedState:
        return FeedState(source_id=n, name="", feed_url=f"http://{host}/{n}", host=host, interval=HOUR)

    hosts = HostGuard(on=True)
    for n in range(3):
        hosts.record_answer(feed(n, "known:80"), 0.0)
    hosts.told(hosts.news())
    for day in range(20):
        for n in range(500):
            hosts.record_answer(feed(n, f"{n}.{day}.example:80"), day * DAY)
    assert len(hosts) <= 1001  # of two days, and the one
    hosts.record_answer(feed(0, "known:80"), 20 * DAY)
    assert hosts.news() == []  # they have heard that it is well
