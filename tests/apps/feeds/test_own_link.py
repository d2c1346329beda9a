"""When our own network is down, no feed is to blame."""

from __future__ import annotations

import logging

import pytest

from tests.apps.feeds.building import GUARD, HOUR, Desk, lines
from tidegate import net
from tidegate_apps.feeds.models import SourceRequest
from tidegate_apps.feeds.poller import PollPolicy

URL = "http://a.example/f"


@pytest.mark.req("FEED-04")
def test_when_our_own_link_is_down_nothing_is_counted_and_it_is_said_once(
    quick: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    quick.policy = PollPolicy(paced=False, guard=GUARD)
    caplog.set_level(logging.INFO)
    quick.sources.add_many([SourceRequest(feed_url=f"http://h{n}.example/f", interval=60.0) for n in range(40)], "ada")
    quick.clock.advance(60)
    memory = quick.memory()
    down = net.Unreachable("no network")
    for n in range(40):
        quick.answers[f"http://h{n}.example/f"] = down
    for _ in range(30):
        quick.poll(memory=memory)
        quick.clock.advance(400)

    states = [quick.state(n) for n in range(1, 41)]
    assert max(state.consecutive_errors for state in states) <= 2
    assert not any(state.rest.disabled for state in states)
    said = [text for _, text in lines(caplog)]
    assert said.count("own_link_lost") == 1
    assert [(kind, unread) for kind, _, unread in quick.notices() if kind == "own_link"] == [("own_link", True)]

    quick.answers.clear()
    for _ in range(3):
        quick.poll(memory=memory)
        quick.clock.advance(400)
    assert [text for _, text in lines(caplog)].count("own_link_back") == 1
    assert [notice[2] for notice in quick.notices() if notice[0] == "own_link"] == [False]


@pytest.mark.req("FEED-04")
def test_that_our_own_link_is_down_is_known_from_one_turn_of_polling_to_the_next(
    quick: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    quick.sources.add_many([SourceRequest(feed_url=f"http://h{n}.example/f") for n in range(40)], "ada")
    for n in range(40):
        quick.answers[f"http://h{n}.example/f"] = net.Unreachable("no network")
    turns = 24
    for _ in range(turns):
        quick.clock.advance(HOUR)
        quick.poll(quick.next_turn())

    states = [quick.state(n) for n in range(1, 41)]
    assert not any(state.rest.disabled for state in states)
    assert max(state.consecutive_errors for state in states) <= 2
    assert [text for _, text in lines(caplog)].count("own_link_lost") == 1


@pytest.mark.req("FEED-04")
def test_a_server_that_starts_when_the_network_is_back_ends_what_the_last_one_said(
    quick: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    quick.policy = PollPolicy(paced=False, guard=GUARD)
    quick.sources.add_many([SourceRequest(feed_url=f"http://h{n}.example/f") for n in range(40)], "ada")
    quick.clock.advance(60)
    for n in range(40):
        quick.answers[f"http://h{n}.example/f"] = net.Unreachable("no network")
    quick.poll()
    assert [notice[2] for notice in quick.notices() if notice[0] == "own_link"] == [True]
    quick.answers.clear()
    quick.clock.advance(HOUR)
    quick.poll(quick.next_turn())  # it has heard nothing of the other

    assert [notice[2] for notice in quick.notices() if notice[0] == "own_link"] == [False]
    assert "own_link_back" not in [text for _, text in lines(caplog)]


REFUSED = (
    net.BlockedAddress("h.example", "10.0.0.1", "private"),
    net.BadUrl("port"),
    net.TooManyRedirects("loop"),
    net.CutShort("cut"),
)


@pytest.mark.req("FEED-04")
@pytest.mark.parametrize("failure", REFUSED, ids=[type(each).__name__ for each in REFUSED])
def test_what_is_refused_or_answered_badly_says_nothing_of_our_own_link(quick: Desk, failure: Exception) -> None:
    quick.policy = PollPolicy(paced=False, guard=GUARD)
    quick.sources.add_many([SourceRequest(feed_url=f"http://h{n}.example/f") for n in range(30)], "ada")
    for n in range(20):
        quick.answers[f"http://h{n}.example/f"] = failure
    memory = quick.memory()
    for _ in range(10):
        quick.clock.advance(9 * HOUR)
        quick.poll(memory=memory)

    assert [quick.state(n).rest.reason for n in range(1, 31)] == ["network"] * 20 + [None] * 10
    assert not [notice for notice in quick.notices() if notice[0] == "own_link"]
