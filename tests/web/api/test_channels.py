"""Channels and snoozes through the API, on the pages and at a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.notices.receiving import Hook, hook
from tests.web.api.building import Shop
from tests.web.local import LocalClient
from tidegate import audit, outbox
from tidegate.admin import doctor
from tidegate.audit import AuditFilter
from tidegate.cli.root import run as command
from tidegate.notices.channels import Channel, Webhook
from tidegate.notices.dispatcher import NoticeDispatcher
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.web.app import build
from tidegate.web.site import Site


@pytest.fixture
def receiver() -> Iterator[Hook]:
    with hook() as found:
        yield found


@pytest.fixture
def client(there: Shop, receiver: Hook) -> Iterator[LocalClient]:
    channel = Channel(name="hook", config=Webhook(url=f"{receiver.url}T0/s3cr3t"))
    telling = NoticeDispatcher(there.queue, [channel], address="https://t.example")
    telling.declare()
    with LocalClient(
        build(Site(queue=there.queue, telling=telling)), client=("127.0.0.1", 50000), base_url="http://localhost"
    ) as found:
        yield found


def tell(there: Shop, **more: Any) -> int:
    new = NewNotice(
        kind="fatal",
        level="error",
        place=NoticeSubject(subject="target", name="mailer"),
        episode=1.0,
        title="It fails",
        message="It failed.",
        **more,
    )
    there.queue.store.write(lambda tx: outbox.raise_notice(tx, new))
    return int(there.queue.store.read(lambda tx: tx.query("notices", {"before": 2**62, "n": 1}))[0][0])


def test_a_channel_is_listed_without_its_secrets(client: TestClient) -> None:
    text = client.get("/api/v1/channels").text

    (found,) = json.loads(text)["items"]
    assert (found["name"], found["kind"], found["state"], found["last_at"]) == ("hook", "webhook", "new", None)
    assert found["leads_to"].endswith("/…")
    assert "s3cr3t" not in text + client.get("/channels").text


def test_a_test_is_sent_now_and_what_came_of_it_is_said(client: TestClient, receiver: Hook) -> None:
    assert client.post("/api/v1/channels/hook/test").json() == {
        "channel": "hook", "delivered": True, "code": None, "why": "",
    }  # fmt: skip
    assert receiver.documents()[0]["type"] == "notice.test"
    receiver.always = 401
    answer = client.post("/api/v1/channels/hook/test").json()
    assert (answer["delivered"], answer["code"]) == (False, "unauthorized")
    (found,) = client.get("/api/v1/channels").json()["items"]
    assert (found["state"], found["tested_ok"]) == ("failing", False)
    assert "does not deliver" in client.get("/").text
    assert "does not deliver" in client.get("/notices").text
    assert client.post("/api/v1/channels/pigeon/test").status_code == 404


def test_a_form_tests_a_channel_too(client: TestClient, receiver: Hook) -> None:
    page = client.post("/channels/hook/test", headers={"origin": "http://localhost"})

    assert re.search(r'class="said good">.*hook', page.text, re.DOTALL)
    assert len(receiver.got) == 1
    assert client.post("/channels/hook/test", headers={"origin": "http://evil.example"}).status_code == 403
    assert len(receiver.got) == 1


def test_a_snooze_ends_and_hides_until_then(client: TestClient, there: Shop) -> None:
    id_ = tell(there)
    before = client.get("/api/v1/notices").json()["unread"]
    answer = client.post(f"/api/v1/notices/{id_}/snooze", json={"lasts": "1h"})

    assert (answer.status_code, answer.json()["action"]) == (200, "snooze")
    listed = client.get("/api/v1/notices").json()
    assert listed["unread"] == before - 1
    assert listed["items"][0]["snoozed_until"] == answer.json()["until"]
    assert "snoozed by local" in client.get("/notices").text


@pytest.mark.parametrize(("body", "status"), [({"lasts": "9y"}, 400), ({}, 400), ({"lasts": "1h", "x": 1}, 400)])
def test_a_snooze_without_an_end_is_refused(client: TestClient, there: Shop, body: dict[str, Any], status: int) -> None:
    assert client.post(f"/api/v1/notices/{tell(there)}/snooze", json=body).status_code in (status, 422)


def test_what_is_over_cannot_be_snoozed(client: TestClient, there: Shop) -> None:
    id_ = tell(there, over=True)

    assert client.post(f"/api/v1/notices/{id_}/snooze", json={"lasts": "1h"}).status_code == 409
    assert client.post("/api/v1/notices/99999/snooze", json={"lasts": "1h"}).status_code == 404


def test_the_page_snoozes_and_says_until_when(client: TestClient, there: Shop) -> None:
    id_ = tell(there)
    page = client.post(f"/notices/{id_}/snooze", data={"lasts": "4h"}, headers={"origin": "http://localhost"})

    assert "for 4 h" in page.text


def test_the_page_says_what_channels_were_told_and_why_not(client: LocalClient, there: Shop) -> None:
    id_ = tell(there)
    site: Site = client.inner.state.site  # type: ignore[attr-defined]
    assert site.telling is not None
    site.telling.evaluate()
    assert "hook: " in client.get("/notices").text
    listed = {each["id"]: each["deliveries"] for each in client.get("/api/v1/notices").json()["items"]}
    assert [(each["channel"], each["state"]) for each in listed[id_]] == [("hook", "queued")]


def test_a_terminal_lists_and_tests(receiver: Hook, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = tmp_path / "tidegate.toml"
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    settings.write_text(
        f'db = "{url}"\napps = []\n[channels.hook]\nkind = "webhook"\nurl = "{receiver.url}s3cr3t"\n', encoding="utf-8"
    )

    def run(*args: str) -> tuple[int, str]:
        code = command(["channels", *args])
        return code, capsys.readouterr().out

    code, out = run("test", "hook", "--config", str(settings))
    assert (code, "hook" in out) == (0, True)
    receiver.always = 500
    code, said = run("test", "hook", "--config", str(settings), "--json")
    assert (code, json.loads(said)["code"]) == (1, "upstream_failure")
    assert run("test", "pigeon", "--config", str(settings))[0] == 7
    code, said = run("list", "--db", url)
    assert (code, "Failing" in said, "s3cr3t" in said) == (0, True, False)


def test_everybody_says_where_they_are_mailed_and_takes_it_back(client: TestClient, there: Shop) -> None:
    def send(mail: str) -> str:
        return client.post("/channels/address", data={"mail": mail}, headers={"origin": "http://localhost"}).text

    def kept() -> list[Any]:
        return there.queue.store.read(lambda tx: tx.query("address", {"who": "local"}))

    assert "ada@example.org" in send(" ada@example.org ")
    assert kept() == [("ada@example.org",)]
    assert 'class="said bad"' in send("ada, bob@example.org")
    assert kept() == [("ada@example.org",)]
    assert 'class="said good"' in send("")
    assert kept() == []


def test_who_snoozed_and_who_tested_is_written_down(client: TestClient, there: Shop) -> None:
    client.post(f"/api/v1/notices/{tell(there)}/snooze", json={"lasts": "1h"})
    client.post("/api/v1/channels/hook/test")

    done = there.queue.store.read(lambda tx: audit.list_entries(tx, AuditFilter(), 2))
    assert [(deed.actor, deed.action, deed.place.name) for deed in done] == [
        ("local", "target_tested", "channel hook"), ("local", "notice_snoozed", done[1].place.name),
    ]  # fmt: skip


def test_doctor_says_which_channel_was_never_tried_and_which_fails(
    client: TestClient, there: Shop, receiver: Hook
) -> None:
    def found() -> list[tuple[str, str]]:
        return [
            (each.id, str(each.status)) for each in there.queue.store.read(lambda tx: list(doctor.check_channels(tx)))
        ]

    assert found() == [("channels.tried", "warn")]
    client.post("/api/v1/channels/hook/test")
    assert found() == [("channels.well", "ok")]
    receiver.always = 500
    client.post("/api/v1/channels/hook/test")
    assert found() == [("channels.delivers", "error")]


def test_on_the_page_an_error_that_goes_on_stands_first_and_says_whose_it_is(there: Shop, client: TestClient) -> None:
    tell(there, user="ada")
    calm = NewNotice(
        kind="cap",
        level="warning",
        place=NoticeSubject(subject="target", name="slow"),
        episode=2.0,
        title="It is slow",
        message="It was slow.",
    )
    there.queue.store.write(lambda tx: outbox.raise_notice(tx, calm))

    text = client.get("/notices").text

    assert (text.count("<h2>It fails"), text.count("<h2>It is slow")) == (1, 1)
    assert text.index("<h2>It fails") < text.index("for ada ·") < text.index("<h2>It is slow")
