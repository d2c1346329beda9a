"""The same on PostgreSQL, where writers do not wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.databases import POSTGRES, Database
from tests.web.api.building import HERE, Shop, client_of, served, shop

pytestmark = pytest.mark.parametrize("db", [POSTGRES], indirect=True)

READS = [
    "/api/v1/overview", "/api/v1/targets", "/api/v1/targets/mailer", "/api/v1/queues", "/api/v1/queues/mail",
    "/api/v1/jobs",
    "/api/v1/jobs?state=failed&code=bad_request", "/api/v1/jobs/1", "/api/v1/workers", "/api/v1/notices",
    "/api/v1/events", "/api/v1/explain/jobs/7",
    "/api/v1/explain/targets/mailer", "/health/ready", "/metrics", "/",
]  # fmt: skip


@pytest.fixture
def on_postgres(db: Database, tmp_path: Path) -> Iterator[tuple[Shop, TestClient]]:
    with shop(tmp_path, db.url) as found:
        found.fill()
        with client_of(served(found)) as client:
            yield found, client


def test_everything_is_read_and_done_there_too(on_postgres: tuple[Shop, TestClient]) -> None:
    _, api = on_postgres
    for path in READS:
        assert api.get(path).status_code == 200, path
    failed = api.get("/api/v1/jobs?state=failed").json()["items"][0]["id"]
    assert api.post(f"/api/v1/jobs/{failed}/retry").status_code == 200
    assert api.post("/api/v1/targets/mailer/pause", json={"for": 60}).status_code == 200
    assert api.post("/api/v1/queues/mail/pause", json={"for": 60}).status_code == 200
    body = {"action": "forget", "filter": {"state": "done"}, "expected": 3}
    assert api.post("/api/v1/bulk-actions", json=body).json()["changed"] == 3
    assert [event["kind"] for event in api.get("/api/v1/events").json()["items"]][:2] == [
        "target_paused", "queue_paused",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/api/v1/jobs?queue=%00", "/api/v1/events?name=%00", "/api/v1/targets?name=%00"])
def test_what_a_text_there_cannot_hold_is_refused(on_postgres: tuple[Shop, TestClient], path: str) -> None:
    assert on_postgres[1].get(path).status_code == 422


@pytest.mark.parametrize("path", ["/queue?target=%00", "/queue/%00", "/targets/%00", "/bulk?action=retry&kind=%00"])
def test_a_page_that_is_asked_for_it_says_that_it_is_not_allowed(
    on_postgres: tuple[Shop, TestClient], path: str
) -> None:
    answer = on_postgres[1].get(path)
    assert (answer.status_code, "NUL" in answer.text) == (400, True)


@pytest.mark.parametrize("path", ["/targets/mailer/clear", "/targets/mailer/test", "/sign-in", "/bulk"])
def test_a_form_that_holds_it_is_refused(on_postgres: tuple[Shop, TestClient], path: str) -> None:
    fields = {"key": "a\0b", "name": "\0", "kind": "\0", "action": "retry", "expected": "1"}
    answer = on_postgres[1].post(path, data=fields, headers={"origin": HERE}, follow_redirects=False)
    assert answer.status_code == 400


def test_twins_at_the_same_moment_happen_once(on_postgres: tuple[Shop, TestClient]) -> None:
    there, api = on_postgres

    def post(_: int) -> Any:
        return api.post("/api/v1/targets/mailer/pause", json={"for": 60}, headers={"Idempotency-Key": "a"})

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(post, range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len(there.queue.target("mailer").events()) == 1
