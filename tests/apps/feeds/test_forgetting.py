"""What is old is forgotten, bit by bit."""

from __future__ import annotations

import pytest

from tests.apps.feeds.building import DAY, Desk, fetched
from tidegate_apps.feeds.models import FeedAbout
from tidegate_apps.feeds.poller import PollPolicy

URL = "http://a.example/f"


def poll(desk: Desk, body: str) -> None:
    desk.clock.advance(DAY)
    desk.answers[URL] = fetched(body=body)
    desk.poll()


def counted(desk: Desk) -> int:
    about = desk.there.db.first(FeedAbout, "details", source_id=1)
    assert about is not None
    return about.items


@pytest.mark.req("FEED-14")
def test_the_oldest_entries_of_a_feed_are_forgotten_but_none_that_it_lists(desk: Desk) -> None:
    desk.policy = PollPolicy(paced=False, guard=None, items=4)
    desk.add(URL)
    poll(desk, "c b pinned")
    poll(desk, "e d pinned")
    assert desk.items() == ["e", "d", "c", "pinned"]  # of five, the oldest that is not listed any more went
    assert counted(desk) == 4

    poll(desk, "g f e d pinned")
    assert desk.items() == ["g", "f", "e", "d", "pinned"]  # all of them are listed
    poll(desk, "h pinned")
    assert desk.items() == ["h", "g", "f", "pinned"]
    assert counted(desk) == 4


@pytest.mark.req("FEED-14")
def test_an_entry_that_is_forgotten_does_not_come_back(quick: Desk) -> None:
    quick.policy = PollPolicy(paced=False, guard=None, items=10, history=99 * DAY)
    quick.add(URL)
    for n in range(60):
        poll(quick, " ".join(f"e{n - i}" for i in range(20)))
    fresh = [beat[4] for beat in quick.there.db.all("beats", source_id=1, since=0.0, n=100)]
    assert fresh[-1] == 20
    assert set(fresh[:-1]) == {1}
    assert counted(quick) == len(quick.items()) == 20  # as many as it lists


def test_polls_and_what_else_happened_are_forgotten_when_they_are_old(desk: Desk) -> None:
    desk.policy = PollPolicy(paced=False, guard=None, history=7 * DAY, events=30 * DAY)
    desk.add(URL)
    desk.sources.disable(1, "manual", "ada")
    desk.clock.advance(20 * DAY)
    desk.sources.enable(1, "ada")
    for n in range(14):
        poll(desk, f"e{n}")
    assert [kind for _, _, kind, _, _ in desk.there.db.all("events", source_id=1, n=99)] == ["enabled"]
    beats = desk.there.db.all("beats", source_id=1, since=0.0, n=99)
    assert [round((desk.now - beat[0]) / DAY) for beat in beats] == list(range(8))
