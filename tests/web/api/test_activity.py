"""Who did what, as the API, the page and the feed tell it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from starlette.testclient import TestClient

from tests.text import names
from tests.web.api.building import HERE, Shop, client_of
from tidegate.accounts import users
from tidegate.store.base import Tx
from tidegate.web.app import build
from tidegate.web.auth import COOKIE

FORM = {"origin": HERE}


def items(api: TestClient, **wanted: Any) -> list[dict[str, Any]]:
    return list(api.get("/api/v1/activity", params=wanted).json()["items"])


def test_what_was_done_on_the_page_and_through_the_api_tells_them_apart(there: Shop, api: TestClient) -> None:
    api.post("/queue/mail/pause", data={"lasts": "1h", "reason": "too many mails"}, headers=FORM)
    assert api.post("/api/v1/queues/mail/pause", json={"for": 60, "reason": "once more"}).status_code == 200
    assert api.post("/api/v1/queues/mail/resume").status_code == 200

    found = items(api)

    assert [(each["origin"], each["action"], each["reason"]) for each in found] == [
        ("api", "queue_resumed", ""), ("api", "queue_paused", "once more"), ("page", "queue_paused", "too many mails"),
    ]  # fmt: skip
    assert (found[0]["actor"], found[0]["subject"], found[0]["name"]) == ("local", "queue", "mail")
    assert names(found[0]["says"], "local", "mail")
    assert (found[0]["before"]["state"], found[0]["after"]) == ("paused", {"state": "on"})
    assert len(items(api, origin="page", subject="queue", name="mail")) == 1
    assert items(api, younger=0.0, actor="nobody") == []
    text = api.get("/activity", params={"origin": "page"}).text
    assert "too many mails" in text
    assert "once more" not in text


def test_a_list_that_goes_on_says_where(there: Shop, api: TestClient) -> None:
    for _ in range(3):
        api.post("/api/v1/queues/mail/pause", json={"for": 60})
    first = api.get("/api/v1/activity", params={"limit": 2})
    assert 'rel="next"' in first.headers["link"]
    rest = items(api, limit=2, cursor=first.json()["next_cursor"])
    assert (len(first.json()["items"]), len(rest)) == (2, 1)
    assert api.get("/api/v1/activity", params={"cursor": "x"}).status_code == 422


def test_the_feed_is_well_formed_and_quotes_what_people_wrote(there: Shop, api: TestClient) -> None:
    api.post("/api/v1/queues/mail/pause", json={"for": 60, "reason": "a < b & c"})
    answer = api.get("/activity.atom")
    assert answer.headers["content-type"].startswith("application/atom+xml")
    (entry,) = ET.fromstring(answer.text).findall("{http://www.w3.org/2005/Atom}entry")
    assert names(entry.findtext("{http://www.w3.org/2005/Atom}title") or "", "local", "mail")
    assert "a < b & c" in (entry.findtext("{http://www.w3.org/2005/Atom}summary") or "")


def test_what_was_done_to_users_is_for_admins_only(there: Shop) -> None:
    def people(tx: Tx) -> dict[str, str]:
        for name, role in (("ada", "admin"), ("vera", "viewer")):
            users.add_user(tx, name, role, "x")
        return {name: users.begin_session(tx, name) for name in ("ada", "vera")}

    sessions = there.queue.store.write(people)
    there.queue.store.write(lambda tx: users.add_user(tx, "gone", "viewer", "x"))
    there.queue.store.write(lambda tx: users.remove_user(tx, "gone"))
    with client_of(build(there.site())) as client:
        for name, sees in (("ada", ["user"] * 4), ("vera", [])):
            client.cookies.set(COOKIE, sessions[name])
            assert [each["subject"] for each in items(client)] == sees
            assert ("the user vera" in client.get("/activity").text) is bool(sees)
            assert ("the user vera" in client.get("/activity.atom").text) is bool(sees)
            assert ('href="/people/vera"' in client.get("/activity").text) is bool(sees)
            # Who was removed has no page: nothing leads there.
            assert all("/people/gone" not in client.get(path).text for path in ("/activity", "/activity.atom"))
