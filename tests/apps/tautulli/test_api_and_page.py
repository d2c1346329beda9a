"""The API and the page over ASGI: what is stored is served whatever Tautulli does, and its age is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from starlette.testclient import TestClient

from tests.apps.tautulli.building import Desk
from tests.databases import Database
from tests.text import message
from tests.web.local import LocalClient
from tidegate import Queue
from tidegate.apps import install
from tidegate.faults.codes import CORE
from tidegate.web.app import build
from tidegate.web.auth import Authenticator
from tidegate.web.site import Site
from tidegate_apps.tautulli.api import sync_now
from tidegate_apps.tautulli.app import app
from tidegate_apps.tautulli.settings import TautulliSettings

HISTORY, STATUS, PAGE = "/api/v1/tautulli/history", "/api/v1/tautulli/status", "/tautulli"


def at(desk: Desk) -> TestClient:
    site = Site(queue=desk.queue, apps=(desk.there,), access=Authenticator([]))
    return LocalClient(
        build(site), client=("127.0.0.1", 50000), base_url="http://127.0.0.1", raise_server_exceptions=False
    )


@pytest.fixture
def client(desk: Desk) -> Iterator[TestClient]:
    with at(desk) as found:
        yield found


@pytest.fixture
def web(quick: Desk) -> Iterator[TestClient]:
    with at(quick) as found:
        yield found


def words(client: TestClient, path: str = PAGE) -> str:
    """What a reader sees."""
    answer = client.get(path)
    assert answer.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat().replace("+00:00", "Z")


def break_it(desk: Desk) -> None:
    desk.sim.outage("1h down")
    for _ in range(6):
        desk.clock.advance(20)
        desk.run()
    assert desk.breaker.state == "open"


@pytest.mark.req("BRK-10")
def test_the_history_comes_page_by_page_and_whole(desk: Desk, client: TestClient) -> None:
    desk.run()
    found: list[Any] = []
    cursor = ""
    while True:
        body = client.get(HISTORY, params={"limit": 250, "cursor": cursor}).json()
        found += body["items"]
        if body["next_cursor"] is None:
            break
        cursor = body["next_cursor"]
    assert [item["row_id"] for item in found] == [row[0] for row in reversed(desk.rows())]
    assert (body["stale_since"], body["synced_at"]) == (None, iso(desk.clock.now()))
    newest = desk.sim.history.row(599)
    assert found[0] == {
        "row_id": newest["row_id"], "started": iso(newest["started"]), "stopped": iso(newest["stopped"]),
        "duration": newest["play_duration"], "paused": newest["paused_counter"],
        "user": newest["friendly_name"] or newest["user"], "user_id": newest["user_id"],
        "platform": newest["platform"], "product": newest["product"] or "", "player": newest["player"],
        "media_type": newest["media_type"], "rating_key": newest["rating_key"],
        "title": newest["grandparent_title"] or newest["full_title"], "full_title": newest["full_title"],
        "year": newest["year"] or None, "transcode_decision": newest["transcode_decision"],
        "percent_complete": newest["percent_complete"], "watched_status": newest["watched_status"],
    }  # fmt: skip


def test_every_filter_keeps_what_it_says(desk: Desk, client: TestClient) -> None:
    desk.run()
    every = client.get(HISTORY, params={"limit": 500}).json()["items"]
    every += client.get(HISTORY, params={"limit": 500, "before": every[-1]["started"]}).json()["items"]
    every = list({item["row_id"]: item for item in every}.values())
    some = every[7]
    day = datetime.fromisoformat(some["started"])
    for given, keep in (
        ({"user": some["user"]}, lambda item: item["user"] == some["user"]),
        ({"title": some["title"]}, lambda item: item["title"] == some["title"]),
        ({"platform": some["platform"]}, lambda item: item["platform"] == some["platform"]),
        ({"media_type": "movie"}, lambda item: item["media_type"] == "movie"),
        ({"user": some["user"], "title": some["title"]},
         lambda item: (item["user"], item["title"]) == (some["user"], some["title"])),
        ({"user": some["user"], "platform": some["platform"], "media_type": some["media_type"]},
         lambda item: all(item[name] == some[name] for name in ("user", "platform", "media_type"))),
        ({"after": some["started"]}, lambda item: item["started"] >= some["started"]),
        ({"after": iso((day - timedelta(days=1)).timestamp()), "before": some["started"]},
         lambda item: iso((day - timedelta(days=1)).timestamp()) <= item["started"] < some["started"]),
        ({"user": "nobody"}, lambda item: False),
    ):  # fmt: skip
        wanted = [item["row_id"] for item in every if keep(item)]
        found = client.get(HISTORY, params={**given, "limit": 500}).json()["items"]
        assert [item["row_id"] for item in found] == wanted, given


@pytest.mark.parametrize(
    "given", [{"limit": 0}, {"limit": 501}, {"cursor": "x"}, {"cursor": "1_x"}, {"after": "soon"}, {"user": "a\0"}]
)
def test_what_cannot_be_asked_is_refused_by_its_field(web: TestClient, given: dict[str, Any]) -> None:
    answer = web.get(HISTORY, params=given)
    assert answer.status_code in (400, 422)
    assert next(iter(given)) in answer.text


@pytest.mark.req("BRK-10")
def test_while_it_is_open_the_stored_history_is_served_with_its_age(quick: Desk, web: TestClient) -> None:
    quick.run()
    synced_at = quick.clock.now()
    break_it(quick)
    body = web.get(HISTORY, params={"limit": 10}).json()
    assert (len(body["items"]), body["stale_since"]) == (10, iso(synced_at))

    status = web.get(STATUS).json()
    assert (status["plays"], status["outcome"], status["stale_since"]) == (600, "skipped", iso(synced_at))
    breaker = status["breaker"]
    assert (breaker["name"], breaker["state"], breaker["failures_in_a_row"]) == ("tautulli-api", "open", 5)
    assert datetime.fromisoformat(breaker["next_trial"]).timestamp() == pytest.approx(quick.fresh.next_trial, abs=1)

    shown = words(web)
    clock = f"{datetime.fromtimestamp(synced_at).astimezone():%H:%M}"
    assert clock in shown
    assert "600 plays" in shown
    page = web.get(PAGE).text
    assert 'id="freshness" data-breaker="open"' in page
    assert 'data-state="open"' in page
    assert re.search(r"<dd>5</dd>", page)  # failures in a row

    quick.sim.outage(None)
    quick.clock.advance(120)
    quick.run()
    assert web.get(STATUS).json()["stale_since"] is None
    assert 'id="freshness"' not in web.get(PAGE).text


def test_the_page_says_why_the_last_sync_failed_and_what_to_do(quick: Desk, web: TestClient) -> None:
    quick.sim.now("bad_key")
    quick.run()
    shown = words(web)
    assert CORE["unauthorized"].message in shown
    assert "tautulli.api_key" in shown
    assert quick.sim.key not in web.get(PAGE).text
    assert web.get("/help/errors/api_off").status_code == 200


def test_a_sync_that_nobody_makes_is_noticed(quick: Desk, web: TestClient) -> None:
    quick.run()
    quick.clock.advance(300)
    assert web.get(STATUS).json()["stale_since"] is None
    quick.clock.advance(301)
    assert web.get(STATUS).json()["stale_since"] is not None
    assert 'id="freshness" data-stale' in web.get(PAGE).text


def test_each_empty_page_says_what_comes_next(quick: Desk, web: TestClient, tmp_path: Path) -> None:
    assert 'data-outcome="none"' in web.get(PAGE).text
    with Queue(f"sqlite:///{tmp_path / 'unset.db'}") as queue:
        there = install(app, queue, TautulliSettings())
        with LocalClient(
            build(Site(queue=queue, apps=(there,), access=Authenticator([]))),
            client=("127.0.0.1", 50000),
            base_url="http://127.0.0.1",
        ) as unset:
            shown = words(unset)
            assert "[tautulli] url = &#34;http://tautulli:8181&#34;" in shown.replace('"', "&#34;")
            assert unset.post("/api/v1/tautulli/sync").status_code == 409
            assert unset.get(HISTORY).json()["items"] == []
    with (
        Desk.opened(Database("sqlite-apsw", f"sqlite:///{tmp_path / 'new.db'}", "apsw"), {"rows": 0}) as new,
        at(new) as fresh,
    ):
        new.run()
        assert 'data-outcome="synced"' in fresh.get(PAGE).text


def test_a_sync_is_put_in_from_the_page_and_by_the_api(quick: Desk, web: TestClient) -> None:
    answer = web.post("/tautulli/sync", headers={"Origin": "http://127.0.0.1"}, follow_redirects=False)
    assert answer.status_code == 303
    assert message(web.get(PAGE).text)[0] == "good"
    quick.queue.drain()
    assert quick.state.outcome == "synced"
    made = web.post("/api/v1/tautulli/sync")
    assert made.status_code == 202
    quick.queue.drain()
    assert quick.queue.get(made.json()["job"]).state == "done"


def test_a_sync_that_a_person_asks_for_is_put_in_and_noted_in_one_transaction(quick: Desk, web: TestClient) -> None:
    def noted() -> int:
        return sum(each["action"] == "target_asked" for each in web.get("/api/v1/activity").json()["items"])

    made = web.post("/api/v1/tautulli/sync").json()["job"]
    assert noted() == 1
    assert web.post("/api/v1/tautulli/sync").json()["job"] != made  # the one that waits made room for it
    assert noted() == 2
    quick.queue.drain()
    raw = apsw.Connection(quick.queue.url.removeprefix("sqlite:///"))
    raw.execute("create trigger full before insert on tg_activity begin select raise(abort, 'no room'); end")
    raw.close()
    with pytest.raises(Exception, match="no room"):
        sync_now(quick.there, "ada")
    assert quick.queue.drain().done == 0


def test_the_charts_are_pictures_with_words_and_no_script_stands_in_the_page(quick: Desk, web: TestClient) -> None:
    quick.run()
    text = web.get(PAGE).text
    assert text.count('class="picture chart" role="img" aria-label="') == 2
    assert len(re.findall(r"<g><title>[^<]+: [\d,]+ plays?</title>", text)) == 30 + 24
    assert "<script>" not in text
    assert " style=" not in text
    assert "onclick" not in text
