"""The poller's side of a source manager that is another server: what it takes over, and what it tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from tests.apps.feeds.building import DAY, HOUR, Desk, fetched
from tests.databases import Database
from tests.web.local import LocalClient
from tidegate import Target, net
from tidegate.accounts import access
from tidegate.accounts.access import Issuer, Role
from tidegate.apps import DbTx
from tidegate.clock import VirtualClock
from tidegate.web.app import build
from tidegate.web.auth import Authenticator
from tidegate.web.site import Site
from tidegate_apps.feeds.models import Change, Source
from tidegate_apps.feeds.source_manager import RemoteSources, source_event_fields, tell_there
from tidegate_apps.feeds.state import FeedState

ISSUER = Issuer.own(b"k" * 32)
URL, ELSEWHERE = "http://a.example/f", "http://b.example/f"


class Pair:
    """A poller and a source manager, each with a database of its own, on one clock."""

    def __init__(self, poller: Desk, manager: Desk, web: TestClient) -> None:
        self.poller, self.manager, self._web = poller, manager, web
        self.during_list: Callable[[], object] = lambda: None
        self.refuse: httpx2.Response | None = None
        self._words: list[tuple[int, str]] = []
        target = Target("source-manager", clock=poller.clock)
        poller.manager = RemoteSources(poller.there.db, target, self._client, poller.clock.now, self._put_in)

    def _put_in(self, _: DbTx, state: FeedState, moved_from: str) -> None:
        self._words.append((state.source_id, moved_from))

    def _client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url="http://127.0.0.1", transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if self.refuse is not None:
            return self.refuse
        token = access.issue_token(ISSUER, "robot", Role.POLLER, 600, self.manager.now)
        answer = self._web.request(
            request.method, str(request.url), content=request.read(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )  # fmt: skip
        if request.method == "GET" and request.url.path == "/api/v1/sources":
            self.during_list()
        return httpx2.Response(answer.status_code, content=answer.content)

    def add(self, url: str = URL) -> Source:
        made = self.manager.add(url)
        self.refresh()
        return made

    def source(self) -> Source:
        return self.manager.sources.get(1)

    def refresh(self) -> None:
        self.poller.clock.run(self.poller.manager.refresh())

    def tell(self) -> None:
        """The words that were put in, as the job does it."""
        for id_, moved_from in self._words:
            state = self.poller.state(id_)
            asyncio.run(tell_there(self._client(), state, moved_from))
            self.poller.there.db.all("told", **source_event_fields(state))
        self._words.clear()

    def poll(self, answer: net.FetchResponse) -> None:
        self.poller.answers[URL] = self.poller.answers[ELSEWHERE] = answer
        self.poller.there.db.all("set_due", source_id=1, due_at=0.0, due_why="asked")
        self.poller.poll()

    def advance(self, seconds: float) -> None:
        self.poller.clock.advance(seconds)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    clock = VirtualClock()

    def database(name: str) -> Database:
        return Database("sqlite-apsw", f"sqlite:///{tmp_path / name}.db", "apsw")

    with (
        Desk.opened(database("poller"), clock, source_manager_url="http://127.0.0.1") as poller,
        Desk.opened(database("manager"), clock, poll=False) as manager,
        LocalClient(
            build(Site(queue=manager.queue, apps=(manager.there,), access=Authenticator([ISSUER]))),
            client=("127.0.0.1", 50000),
            base_url="http://127.0.0.1",
        ) as web,
    ):
        yield Pair(poller, manager, web)


@pytest.mark.req("FEED-10", "FEED-12")
def test_a_probe_that_succeeds_enables_the_feed_at_the_other_server(pair: Pair) -> None:
    pair.add()
    pair.poll(fetched(410))
    pair.tell()
    assert (pair.source().feed_disable_reason, pair.source().disabled_by) == ("gone", "auto")

    pair.advance(72 * HOUR + 1)
    pair.refresh()
    pair.poll(fetched(304))
    pair.tell()
    assert pair.source().feed_disabled_at is None


@pytest.mark.req("FEED-10")
@pytest.mark.parametrize("known", [True, False], ids=["polled before", "new to the poller"])
def test_a_rest_that_the_poller_did_not_make_is_ended_by_its_probe_too(pair: Pair, known: bool) -> None:
    pair.manager.add(URL)
    if known:
        pair.refresh()
        pair.poll(fetched(body="one"))
    pair.manager.sources.disable(1, "upstream_failure", "ada")
    pair.refresh()
    pair.advance(6 * HOUR + 1)
    pair.refresh()
    assert pair.poller.poll().polled == 1
    pair.tell()

    assert pair.source().feed_disabled_at is None


@pytest.mark.req("FEED-10")
def test_a_probe_of_a_rest_made_elsewhere_that_fails_rests_again_at_once(pair: Pair) -> None:
    pair.add()
    pair.manager.sources.disable(1, "upstream_failure", "ada")
    pair.refresh()
    pair.advance(6 * HOUR + 1)
    pair.refresh()
    pair.poll(fetched(404))
    pair.tell()

    assert (pair.source().feed_disable_reason, pair.source().feed_disabled_at) == ("not_found", pair.manager.now)


@pytest.mark.req("FEED-09", "FEED-12")
def test_what_a_person_has_switched_off_no_word_of_a_poller_switches(pair: Pair) -> None:
    pair.add()
    pair.poll(fetched(410))
    pair.manager.sources.disable(1, "manual", "ada")
    pair.tell()
    assert (pair.source().feed_disable_reason, pair.source().disabled_by) == ("manual", "ada")

    pair.advance(80 * HOUR)
    pair.poll(fetched(304))
    pair.tell()
    pair.refresh()
    assert (pair.source().feed_disable_reason, pair.source().disabled_by) == ("manual", "ada")
    assert pair.poller.poll_on(30 * DAY) == 0


@pytest.mark.req("FEED-12", "FEED-13")
def test_a_feed_that_has_moved_moves_at_the_other_server(pair: Pair) -> None:
    pair.add()
    moved = net.FetchResponse(status=200, headers=fetched().headers, body=b"one", url=ELSEWHERE, history=((301, URL),))
    for _ in range(3):
        pair.tell()
        assert pair.source().feed_url == URL
        pair.poll(moved)
    pair.tell()
    pair.refresh()

    assert pair.source().feed_url == ELSEWHERE == pair.poller.state().feed_url


@pytest.mark.req("FEED-12")
def test_an_address_that_a_person_gave_counts_more_than_what_was_found_at_the_old_one(pair: Pair) -> None:
    pair.add()
    pair.poll(fetched(410))
    pair.manager.sources.change(1, Change(feed_url=ELSEWHERE), "ada")
    pair.tell()
    assert (pair.source().feed_url, pair.source().feed_disabled_at) == (ELSEWHERE, None)

    pair.refresh()
    pair.poll(fetched(body="one"))
    assert (pair.poller.state().feed_url, pair.poller.state().rest.disabled) == (ELSEWHERE, False)


@pytest.mark.req("FEED-10", "FEED-12")
def test_a_list_that_was_read_before_a_word_does_not_undo_it(pair: Pair) -> None:
    pair.add()

    def rest() -> None:
        """All of it between the list and its adoption: the poll, and the word."""
        pair.poller.there.db.all(
            "set_state_rest", source_id=1, rest_at=pair.poller.now, rest_until=pair.poller.now + 72 * HOUR,
            rest_reason="gone", rest_by="auto", due_at=pair.poller.now + 72 * HOUR, due_why="cooldown",
        )  # fmt: skip

    pair.during_list = rest
    pair.refresh()
    assert pair.poller.state().rest.disabled


@pytest.mark.req("FEED-12")
def test_a_list_from_before_a_word_was_told_does_not_undo_it(pair: Pair) -> None:
    pair.add()
    pair.poll(fetched(410))

    def told() -> None:
        pair.poller.there.db.all("told", **source_event_fields(pair.poller.state()))

    pair.during_list = told  # the list does not show the rest, which is told by the time that it is adopted
    pair.refresh()
    assert pair.poller.state().rest.disabled


def test_the_page_of_a_poller_counts_and_finds_the_sources_of_the_other_server(pair: Pair) -> None:
    for n in range(3):
        pair.manager.add(f"{URL}{n}", name=f"Feed {n}")
    pair.refresh()
    pair.poller.answers[f"{URL}1"] = fetched(410)
    pair.poller.clock.advance(5)
    pair.poller.poll()
    site = Site(queue=pair.poller.queue, apps=(pair.poller.there,), access=Authenticator([ISSUER]))
    with LocalClient(build(site), client=("127.0.0.1", 50000), base_url="http://127.0.0.1") as web:
        for query, names in (("", {"0", "1", "2"}), ("?state=disabled", {"1"}), ("?q=feed+2", {"2"})):
            text = web.get(f"/feeds{query}").text
            assert {n for n in "012" if f"Feed {n}" in text} == names, query


@pytest.mark.req("FEED-03")
@pytest.mark.parametrize(("status", "level"), [(503, "WARNING"), (200, "ERROR")], ids=["away", "no list of ours"])
def test_a_list_that_cannot_be_read_is_loud_only_when_nobody_foresaw_it(
    pair: Pair, caplog: pytest.LogCaptureFixture, status: int, level: str
) -> None:
    pair.refuse = httpx2.Response(status, content=b"{}")
    pair.refresh()
    said = [record for record in caplog.records if record.getMessage().startswith("sources_not_listed")]
    assert [record.levelname for record in said] == [level]
