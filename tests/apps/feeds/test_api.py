"""The API of the source manager, over ASGI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from starlette.testclient import TestClient

from tests.apps.feeds.building import HOUR, Desk, fetched
from tests.databases import Database
from tests.text import message, numbers
from tests.web.local import LocalClient
from tidegate.accounts import access, users
from tidegate.accounts.access import Issuer, Role
from tidegate.clock import VirtualClock
from tidegate.web.app import build
from tidegate.web.auth import Authenticator
from tidegate.web.site import Site
from tidegate_apps.feeds import api

ISSUER = Issuer.own(b"k" * 32)
URL = "http://a.example/f"


@pytest.fixture
def client(desk: Desk) -> Iterator[TestClient]:
    site = Site(queue=desk.queue, apps=(desk.there,), access=Authenticator([ISSUER]))
    with LocalClient(
        build(site), client=("127.0.0.1", 50000), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as found:
        yield found


def bearer(desk: Desk, role: Role, name: str = "robot") -> dict[str, str]:
    return {"Authorization": f"Bearer {access.issue_token(ISSUER, name, role, 600, desk.now)}"}


def path(what: str = "", id_: int = 1) -> str:
    return f"/api/v1/sources/{id_}{what}"


def test_a_source_is_added_read_changed_and_removed(desk: Desk, client: TestClient) -> None:
    made = client.post("/api/v1/sources", json={"feed_url": URL, "name": "A", "interval": 120})
    assert made.status_code == 201
    body = made.json()
    assert made.headers["location"] == path(id_=body["id"])
    assert {name: body[name] for name in ("name", "feed_url", "interval", "enabled")} == {
        "name": "A", "feed_url": URL, "interval": 120, "enabled": True,
    }  # fmt: skip
    assert [body[name] for name in ("feed_disabled_at", "feed_disable_reason", "disabled_by")] == [None] * 3

    assert client.post("/api/v1/sources", json={"feed_url": URL}).status_code == 409
    changed = client.patch(path(), json={"name": "B", "enabled": False})
    assert (changed.status_code, changed.json()["name"], changed.json()["enabled"]) == (200, "B", False)
    assert client.get(path()).json()["feed_state"]["next_poll_at"] is None
    assert client.delete(path()).status_code == 204
    assert client.get(path()).status_code == client.delete(path()).status_code == 404


def test_a_text_that_no_database_can_look_for_is_refused_by_its_field(client: TestClient) -> None:
    answer = client.get("/api/v1/sources?q=a%00b")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "q")


def test_behind_a_path_a_new_source_is_where_its_answer_says(desk: Desk) -> None:
    site = Site(queue=desk.queue, apps=(desk.there,), access=Authenticator([ISSUER]), base="/tide")
    with LocalClient(build(site), client=("127.0.0.1", 50000), base_url="http://127.0.0.1") as client:
        made = client.post("/tide/api/v1/sources", json={"feed_url": URL})
        assert made.headers["location"] == f"/tide{path(id_=made.json()['id'])}"
        assert client.get(made.headers["location"]).json()["feed_url"] == URL


def test_what_makes_no_source_is_refused_by_its_field(client: TestClient) -> None:
    bodies: list[Any] = [
        {"feed_url": "ftp://a.example/f"},
        {"feed_url": "nonsense"},
        {"feed_url": "http://a.example/" + "鴨" * 700},
        {"feed_url": 7},
        {"feed_url": URL, "interval": 1},
        {"feed_url": URL, "interval": "soon"},
        {"feed_url": URL, "enabled": "yes"},
        {"feed_url": URL, "name": ""},
        {"feed_url": URL, "colour": "red"},
        [],
    ]
    for body in bodies:
        refused = client.post("/api/v1/sources", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), body
    assert client.get("/api/v1/sources").json()["items"] == []


@pytest.mark.req("FEED-08")
def test_the_active_sources_are_listed_page_by_page(desk: Desk, client: TestClient) -> None:
    for n in range(5):
        desk.add(f"{URL}{n}")
    desk.sources.disable(2, "forbidden", "auto")
    desk.sources.disable(4, "manual", "ada")

    def listed(**query: Any) -> list[int]:
        seen, cursor = list[int](), ""
        while True:
            page = client.get("/api/v1/sources", params={"limit": 2, "cursor": cursor, **query}).json()
            seen += [each["id"] for each in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return seen

    assert listed() == [1, 2, 3, 4, 5]
    assert listed(feed_active="true") == [1, 3, 5]
    desk.clock.advance(24 * HOUR)
    assert listed(feed_active="true") == [1, 3, 5, 2]
    first = client.get("/api/v1/sources?feed_active=true&limit=2&q=a+b%26c")
    link = first.headers["link"].removeprefix("<").removesuffix('>; rel="next"')
    assert parse_qs(link.removeprefix("?")) == {
        "feed_active": ["true"], "limit": ["2"], "q": ["a b&c"], "cursor": [first.json()["next_cursor"]],
    }  # fmt: skip
    assert [each["id"] for each in client.get(f"/api/v1/sources{link}").json()["items"]] == [5, 2]
    for cursor in ("x", "1_x", "-1_5", "nan_3", "0.0_99999999999999999999"):
        assert client.get("/api/v1/sources", params={"cursor": cursor}).json()["code"] == "bad_cursor"


@pytest.mark.req("FEED-09")
def test_a_feed_is_disabled_and_enabled_with_a_json_web_token(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    poller, ada = bearer(desk, Role.POLLER), bearer(desk, Role.OPERATOR, "ada")

    disabled = client.patch(path("/feed-disable"), json={"reason": "not_found"}, headers=poller)
    assert disabled.status_code == 200
    body = disabled.json()
    assert (body["feed_disable_reason"], body["disabled_by"]) == ("not_found", "auto")
    assert body["feed_disabled_at"].endswith("Z")
    enabled = client.patch(path("/feed-enable"), headers=poller)
    assert enabled.status_code == 200
    assert [enabled.json()[name] for name in ("feed_disabled_at", "feed_disable_reason", "disabled_by")] == [None] * 3
    by_hand = client.patch(path("/feed-disable"), json={"reason": "manual"}, headers=ada).json()
    assert (by_hand["feed_disable_reason"], by_hand["disabled_by"]) == ("manual", "ada")
    # Whoever is called as the poller calls itself is a person all the same.
    namesake = client.patch(
        path("/feed-disable"), json={"reason": "manual"}, headers=bearer(desk, Role.OPERATOR, "auto")
    )
    assert namesake.json()["disabled_by"] == "user auto"


@pytest.mark.req("FEED-09")
def test_what_a_person_has_switched_off_stays_so_whatever_a_poller_sends(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    poller, ada = bearer(desk, Role.POLLER), bearer(desk, Role.OPERATOR, "ada")
    client.patch(path("/feed-disable"), json={"reason": "manual"}, headers=ada)
    for what, body in (("/feed-disable", {"reason": "network"}), ("/feed-enable", None)):
        answer = client.patch(path(what), json=body, headers=poller)
        assert (answer.status_code, answer.json()["feed_disable_reason"]) == (200, "manual")
        assert answer.json()["rests_until"] is None
    assert client.patch(path("/feed-enable"), headers=ada).json()["feed_disabled_at"] is None


@pytest.mark.req("FEED-09")
def test_who_has_no_token_learns_nothing_else(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    kind = {"Content-Type": "application/json"}
    for id_ in ("1", "x", "99"):
        for body in ("{", "[]", '{"reason": 7}', "", '{"reason": "nonsense"}'):
            at = f"/api/v1/sources/{id_}/feed-disable"
            assert client.patch(at, content=body, headers=kind).status_code == 401
            known = client.patch(at, content=body, headers={**kind, **bearer(desk, Role.POLLER)})
            assert known.status_code == (400 if body == "{" else 422)


@pytest.mark.req("FEED-09")
def test_neither_the_sign_in_of_this_machine_nor_an_api_token_switches_a_feed(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    secret = desk.queue.store.write(lambda tx: users.add_token(tx, "t", Role.ADMIN, "ada"))
    for headers in ({}, {"Authorization": f"Bearer {secret}"}, {"Authorization": "Bearer nonsense"}):
        for what in ("/feed-disable", "/feed-enable"):
            answer = client.patch(path(what), json={"reason": "gone"}, headers=headers)
            assert answer.status_code == 401
            assert "Bearer" in answer.headers["www-authenticate"]
    expired = access.issue_token(ISSUER, "robot", Role.POLLER, 60, desk.now - 3600)
    assert client.patch(path("/feed-enable"), headers={"Authorization": f"Bearer {expired}"}).status_code == 401
    assert client.patch(path("/feed-enable"), headers=bearer(desk, Role.VIEWER)).status_code == 403
    assert desk.sources.get(1).feed_disabled_at is None


@pytest.mark.req("FEED-09")
def test_an_unknown_source_is_404_and_an_unknown_reason_422(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    poller = bearer(desk, Role.POLLER)

    for what, body in (("/feed-disable", {"reason": "gone"}), ("/feed-enable", None)):
        assert client.patch(path(what, 99), json=body, headers=poller).status_code == 404
    wrong: list[Any] = [{"reason": "rate_limited"}, {"reason": ""}, {}, {"reason": 7}, {"reason": "gone", "why": "x"}]
    for given in wrong:
        assert client.patch(path("/feed-disable"), json=given, headers=poller).status_code == 422


@pytest.mark.req("FEED-09")
def test_every_reason_of_the_table_is_taken(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    for reason in ("forbidden", "not_found", "gone", "upstream_failure", "network", "parse_error", "manual"):
        answer = client.patch(path("/feed-disable"), json={"reason": reason}, headers=bearer(desk, Role.POLLER))
        assert (answer.status_code, answer.json()["feed_disable_reason"]) == (200, reason)


def test_a_poller_may_list_and_say_that_a_feed_has_moved_and_nothing_else(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    poller = bearer(desk, Role.POLLER)

    assert client.get("/api/v1/sources?feed_active=true", headers=poller).status_code == 200
    assert client.patch(path(), json={"feed_url": f"{URL}2"}, headers=poller).json()["feed_url"] == f"{URL}2"
    assert client.patch(path(), json={"name": "mine"}, headers=poller).status_code == 403
    assert client.post("/api/v1/sources", json={"feed_url": f"{URL}3"}, headers=poller).status_code == 403
    assert client.delete(path(), headers=poller).status_code == 403
    for nothing in ("", None):
        assert client.patch(path(), json={"feed_url": nothing}, headers=poller).status_code == 403
    assert client.get(path(), headers=poller).status_code == 200
    for what in (path("/items"), "/api/v1/sources/opml", "/feeds/export.opml"):
        assert client.get(what, headers=poller).status_code == 403, what
    for what in ("/feeds/1/enable", "/feeds/1/disable"):
        assert client.post(what, headers={**poller, "origin": "http://127.0.0.1"}).status_code == 403, what
    assert desk.sources.get(1).feed_url == f"{URL}2"


@pytest.mark.parametrize(("role", "whole"), [(Role.VIEWER, False), (Role.OPERATOR, True), (Role.POLLER, True)])
def test_an_address_shows_its_password_to_whoever_may_change_it_or_polls_it(
    desk: Desk, client: TestClient, role: Role, whole: bool
) -> None:
    address = "https://ann:hunter2@a.example/f?token=hunter2"
    id_ = client.post("/api/v1/sources", json={"feed_url": address}).json()["id"]
    headers = bearer(desk, role)
    for place in ("/api/v1/sources", path("", id_), "/api/v1/sources/opml", "/feeds/export.opml"):
        answer = client.get(place, headers=headers)
        if role is not Role.POLLER or not place.endswith("opml"):
            assert answer.status_code == 200, place
            assert ("hunter2" in answer.text) is whole, place
    page = client.get(f"/feeds/{id_}", headers=headers).text
    assert "hunter2" not in page


def test_nobody_finds_a_password_letter_by_letter_who_may_not_see_it(desk: Desk, client: TestClient) -> None:
    desk.add("https://ann:hunter2@a.example/f?token=tr33", name="A")
    desk.add("https://b.example/f", name="Hunters of b")
    viewer, operator = bearer(desk, Role.VIEWER), bearer(desk, Role.OPERATOR)

    def found(query: str, headers: dict[str, str]) -> list[int]:
        answer = client.get("/api/v1/sources", params={"q": query, "limit": 1}, headers=headers).json()
        rest = answer["next_cursor"] and client.get(
            "/api/v1/sources", params={"q": query, "cursor": answer["next_cursor"]}, headers=headers
        )
        return [each["id"] for each in (*answer["items"], *(rest.json()["items"] if rest else []))]

    for query, seen, whole in (
        ("hunt", [2], [1, 2]),
        ("tr33", [], [1]),
        ("ANN:", [1], [1]),
        ("example", [1, 2], [1, 2]),
    ):
        assert (found(query, viewer), found(query, operator)) == (seen, whole), query
        page = client.get("/feeds", params={"q": query}, headers=operator).text
        assert [id_ for id_ in (1, 2) if f'href="/feeds/{id_}"' in page] == seen, query


def test_a_page_shows_no_password_of_the_address_that_a_feed_moves_to(desk: Desk, client: TestClient) -> None:
    old = "http://ann:hunter2@a.example/old"
    found = fetched(304, url="http://a.example/new?token=hunter2")
    desk.answers[old] = replace(found, history=((301, "http://a.example/old"),))
    desk.add(old)
    for _ in range(3):  # the third is believed
        desk.poll()
        page = client.get("/feeds/1", headers=bearer(desk, Role.VIEWER)).text
        assert "http://ann:…@a.example/new?token=…" in page
        assert "hunter2" not in page
        desk.clock.advance(2 * HOUR)
    assert desk.sources.get(1).feed_url == "http://ann:hunter2@a.example/new?token=hunter2"


@pytest.mark.req("FEED-14")
def test_items_are_read_page_by_page_the_newest_first(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    desk.answers[URL] = fetched(body="five four three two one")
    desk.poll()
    seen, cursor = list[str](), None
    while True:
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = client.get(path("/items"), params=query).json()
        seen += [item["title"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert seen == ["five", "four", "three", "two", "one"]
    assert client.get(path("/items", 99)).status_code == 404


@pytest.mark.req("FEED-06")
def test_the_state_of_a_feed_can_be_read(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    desk.answers[URL] = fetched(body="one", ETag='"x"', Last_Modified="yesterday")
    desk.poll()
    desk.answers[URL] = fetched(404)
    assert client.post(path("/poll")).status_code == 202
    assert client.get(path()).json()["feed_state"]["next_poll_at"] == api.iso(desk.now)
    desk.poll()

    state = client.get(path()).json()["feed_state"]
    expected = {
        "consecutive_errors": 1, "run_type": "not_found", "run_length": 1, "last_error": "HTTP 404",
        "last_error_type": "not_found", "etag": '"x"', "last_modified": "yesterday", "next_poll_reason": "interval",
        "items": 1,
    }  # fmt: skip
    assert {name: state[name] for name in expected} == expected


def test_a_list_goes_out_as_it_came_in(desk: Desk, client: TestClient) -> None:
    outlines = "".join(f'<outline text="Feed &amp; {n}" xmlUrl="http://h{n}.example/f?a=1&amp;b=2"/>' for n in range(3))
    given = f'<opml version="1.0"><body><outline text="folder">{outlines}</outline></body></opml>'
    kind = {"content-type": "text/x-opml"}

    assert client.post("/api/v1/sources/opml", content=given, headers=kind).json() == {
        "added": 3, "already_there": 0, "refused": 0,
    }  # fmt: skip
    out = client.get("/api/v1/sources/opml")
    assert out.headers["content-disposition"].startswith("attachment")
    again = client.post("/api/v1/sources/opml", content=out.content, headers=kind).json()
    assert again == {"added": 0, "already_there": 3, "refused": 0}
    assert [each.name for each in desk.sources.list_sources()] == ["Feed & 0", "Feed & 1", "Feed & 2"]
    bad = client.post("/api/v1/sources/opml", content="<html/>", headers=kind)
    assert (bad.status_code, bad.json()["code"]) == (422, "invalid")


# -- the pages ---------------------------------------------------------------------------------------------------------


def test_the_pages_show_every_state_of_a_feed_and_escape_what_it_says(desk: Desk, client: TestClient) -> None:
    assert "No feed yet" in client.get("/feeds").text
    worlds = [fetched(body="one"), fetched(404), fetched(429), fetched(418), fetched(410), fetched(403)]
    for n, answer in enumerate(worlds):
        desk.add(f"{URL}{n}", name=f"<b>{n}</b>")
        desk.answers[f"{URL}{n}"] = answer
    desk.poll()
    desk.sources.disable(1, "manual", "ada")
    text = client.get("/feeds").text

    for word in ("Backing off", "Rate-limited", "Unclassified", "Resting", "Disabled by ada"):
        assert word in text, word
    assert "&lt;b&gt;0&lt;/b&gt;" in text
    assert "<b>0" not in text
    for id_ in range(1, 7):
        assert client.get(f"/feeds/{id_}").status_code == 200
    for tab, count in (("failing", 5), ("disabled", 2), ("unclassified", 1)):
        assert client.get(f"/feeds?state={tab}").text.count('class="lead feed-name"') == count
    assert client.get("/feeds?q=b%3E3").text.count('class="lead feed-name"') == 1
    for missing in ("/feeds/99", "/feeds/x"):
        assert client.get(missing).status_code == 404


def test_feeds_that_are_called_after_the_same_host_are_told_apart_by_their_paths(
    desk: Desk, client: TestClient
) -> None:
    for path in ("one", "two"):
        desk.add(f"http://me:secret@same.example/{path}?key=zebra")
    desk.add("http://same.example/three", name="Three")
    text = client.get("/feeds").text
    assert [f'"reason">/{path}<' in text for path in ("one", "two", "three")] == [True, True, False]
    assert "secret" not in text
    assert "zebra" not in text
    assert "secret" not in client.get("/feeds/1").text


def needs(client: TestClient) -> list[str]:
    return [need["subject"] for need in client.get("/api/v1/overview").json()["needs"]]


@pytest.mark.req("FEED-03")
def test_what_is_unclassified_needs_somebody_on_the_first_page_until_it_is_well(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    desk.answers[URL] = fetched(418)
    desk.poll()
    assert "target feeds" in needs(client)
    del desk.answers[URL]
    desk.sources.poll_now(1)
    desk.poll()
    desk.clock.advance(61)
    desk.poll()  # the notice ends with the chores of a minute
    assert "target feeds" not in needs(client)


def test_every_form_of_the_pages_works_without_script(desk: Desk, client: TestClient) -> None:
    def post(path: str, **fields: str) -> str:
        answer = client.post(path, data=fields, headers={"origin": "http://127.0.0.1"})
        assert answer.status_code == 200, answer.text
        return message(answer.text)[0]

    assert post("/feeds/add", feed_url="a.example/f") == "good"
    assert desk.sources.get(1).feed_url == "https://a.example/f"
    assert post("/feeds/add", feed_url="https://a.example/f") == "bad"
    assert post("/feeds/add", feed_url="x y") == "bad"
    assert post("/feeds/1/poll", back="/feeds/1") == "good"
    assert post("/feeds/1/disable") == "good"
    assert desk.sources.get(1).feed_disable_reason == "manual"
    assert post("/feeds/1/poll") == "warn"
    assert post("/feeds/1/enable") == "good"
    assert desk.sources.get(1).feed_disabled_at is None
    opml = b'<opml><body><outline xmlUrl="http://b.example/f"/><outline xmlUrl="x"/></body></opml>'
    sent = client.post("/feeds/import", files={"file": ("a.opml", opml)}, headers={"origin": "http://127.0.0.1"})
    assert numbers(message(sent.text)[1]) == [1, 0, 1]  # added, there already, without an address
    assert "b.example" in client.get("/feeds/export.opml").text
    assert post("/feeds/1/remove") == "good"
    assert post("/feeds/1/enable") == "warn"


def test_a_notice_leads_to_the_page_of_its_feed(desk: Desk, client: TestClient) -> None:
    desk.add(URL)
    desk.answers[URL] = fetched(410)
    desk.poll()

    assert 'href="/feeds/1"' in client.get("/notices").text


def test_a_server_that_does_not_poll_offers_no_poll(tmp_path: Path) -> None:
    found = Database("sqlite-apsw", f"sqlite:///{tmp_path / 'kept.db'}", "apsw")
    with Desk.opened(found, VirtualClock(), poll=False) as desk:
        desk.add(URL)
        site = Site(queue=desk.queue, apps=(desk.there,), access=Authenticator([ISSUER]))
        with LocalClient(
            build(site), client=("127.0.0.1", 50000), base_url="http://127.0.0.1", raise_server_exceptions=False
        ) as client:
            for page in ("/feeds", "/feeds/1"):
                text = client.get(page).text
                assert "Poll now" not in text
                assert "Disable" in text
            assert client.get("/feeds").text.count("polled elsewhere") == 1
            refused = client.post(path("/poll"))
            assert (refused.status_code, "does not poll" in refused.json()["detail"]) == (409, True)


def test_what_a_notice_speaks_of_is_a_page(desk: Desk, client: TestClient) -> None:
    desk.answers["http://odd.example/f"] = fetched(418)
    for name in ("odd", "well"):
        desk.add(f"http://{name}.example/f", name=f"The {name} one")
    desk.poll()
    for at in ("/feeds/unclassified", "/feeds/host%20odd.example:80"):
        shown = client.get(at)
        assert (shown.status_code, "The odd one" in shown.text, "The well one" in shown.text) == (200, True, False), at
