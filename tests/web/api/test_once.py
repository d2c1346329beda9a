"""A request with an Idempotency-Key happens once, however often it is sent."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import Shop
from tidegate import idempotency
from tidegate.targets import table


def key(text: str) -> dict[str, str]:
    return {"Idempotency-Key": text}


def pauses(there: Shop) -> int:
    return len(there.queue.store.read(lambda tx: table.events(tx, "target", "mailer")))


def test_the_second_of_two_twins_gets_the_first_answer(there: Shop, api: TestClient) -> None:
    first = api.post("/api/v1/targets/mailer/pause", json={"for": 60}, headers=key("a"))
    second = api.post("/api/v1/targets/mailer/pause", json={"for": 60}, headers=key('"a"'))
    assert first.json() == second.json()
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert second.headers["content-type"] == "application/json"
    assert pauses(there) == 1


def test_twins_at_the_same_moment_happen_once(there: Shop, api: TestClient) -> None:
    def post(_: int) -> Any:
        return api.post("/api/v1/targets/mailer/pause", json={"for": 60}, headers=key("b"))

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(post, range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert pauses(there) == 1


def test_a_key_is_of_one_request(there: Shop, api: TestClient) -> None:
    assert api.post("/api/v1/targets/mailer/pause", json={"for": 60}, headers=key("c")).status_code == 200
    other = api.post("/api/v1/targets/mailer/pause", json={"for": 61}, headers=key("c"))
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    # Another address is another request.
    assert api.post("/api/v1/queues/mail/pause", json={"for": 61}, headers=key("c")).status_code == 200
    assert pauses(there) == 1


def test_what_was_refused_is_not_kept(there: Shop, api: TestClient) -> None:
    assert api.post("/api/v1/jobs/1/retry", headers=key("d")).status_code == 409
    assert api.post("/api/v1/jobs/2/retry", headers=key("e")).status_code == 200
    again = api.post("/api/v1/jobs/2/retry", headers=key("e"))
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    there.queue.cancel(7)
    assert api.post("/api/v1/jobs/7/cancel", headers=key("f")).status_code == 409
    there.queue.retry(7)
    assert api.post("/api/v1/jobs/7/cancel", headers=key("f")).status_code == 200


@pytest.mark.parametrize("text", ["", " ", "x" * 256, "a b", "\u00e9", "a\tb"])
def test_a_key_that_is_none_is_refused(still: TestClient, text: str) -> None:
    headers = {b"Idempotency-Key": text.encode()}
    answer = still.post("/api/v1/classify", json={"status": 200}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "key_malformed")


def test_a_twin_of_one_that_is_under_way_is_told_when_to_come_back(there: Shop, api: TestClient) -> None:
    body = b'{"action":"retry","filter":{},"expected":3}'
    digest = hashlib.sha256(body).hexdigest()
    scope = "local POST /api/v1/bulk-actions"
    there.queue.store.write(lambda tx: idempotency.begin(tx, "g", scope, digest))
    headers = {**key("g"), "Content-Type": "application/json"}
    answer = api.post("/api/v1/bulk-actions", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (409, "key_in_flight")
    assert 1 <= int(answer.headers["retry-after"]) <= idempotency.LEASE
    assert answer.json()["retriable"] is True


def test_a_bulk_action_with_a_key_happens_once(there: Shop, api: TestClient) -> None:
    body = {"action": "retry", "filter": {"state": "failed"}, "expected": 3}
    first = api.post("/api/v1/bulk-actions", json=body, headers=key("h"))
    second = api.post("/api/v1/bulk-actions", json=body, headers=key("h"))
    assert first.json()["changed"] == 3
    assert second.json() == first.json()
    assert second.headers["idempotency-replayed"] == "true"
