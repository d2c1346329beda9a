"""The same thing done to many jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import Shop
from tidegate.ops.listing import Filter
from tidegate.store.tx import Tx
from tidegate.web.bulk import MOST_KEPT, MOST_RUNNING, Bulks
from tidegate.web.problems import Problem


def post(api: TestClient, **body: Any) -> Any:
    return api.post("/api/v1/bulk-actions", json=body)


def settled(api: TestClient, path: str) -> dict[str, Any]:
    end = time.monotonic() + 60
    while (found := api.get(path).json())["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.02)
    return dict(found)


def test_a_dry_run_counts_and_changes_nothing(there: Shop, api: TestClient) -> None:
    answer = post(api, action="retry", filter={"queue": "mail"}, dry_run=True)
    assert (answer.status_code, answer.json()["state"], answer.json()["matched"]) == (200, "dry_run", 3)
    assert there.queue.get(2).state == "failed"


def test_few_are_done_at_once(there: Shop, api: TestClient) -> None:
    answer = post(api, action="retry", filter={"kind": "broken"}, expected=3)
    assert (answer.status_code, answer.json()["state"], answer.json()["changed"]) == (200, "done", 3)
    assert there.queue.get(2).state == "queued"


def test_another_number_than_expected_changes_nothing(there: Shop, api: TestClient) -> None:
    answer = post(api, action="retry", filter={"kind": "broken"}, expected=2)
    assert (answer.status_code, answer.json()["code"], answer.json()["matched"]) == (409, "refused", 3)
    assert answer.json()["detail"] == "3 match, not 2; look again before you retry."
    assert there.queue.get(2).state == "failed"


@pytest.mark.parametrize(
    "body",
    [
        {"action": "retry", "filter": {}},
        {"action": "retry", "filter": {"state": "done"}, "expected": 3},
        {"action": "cancel", "filter": {"state": "failed"}, "expected": 3},
        {"action": "explode", "filter": {}, "expected": 3},
        {"action": "retry", "filter": {}, "expected": True},
        {"action": "retry", "filter": {}, "expected": -1},
        {"action": "retry", "filter": {}, "expected": 3, "dry_run": 1},
        {"action": "retry", "filter": {"stat": "failed"}, "expected": 3},
        {"action": "retry", "filter": {"older": None}, "expected": 3},
        {"action": "retry", "filter": {"older": "1h"}, "expected": 3},
        {"action": "retry", "expected": 3},
    ],
)
def test_an_order_that_is_not_clear_is_refused(unchanged: tuple[Shop, TestClient], body: dict[str, Any]) -> None:
    there, api = unchanged
    assert api.post("/api/v1/bulk-actions", json=body).status_code == 422
    assert there.queue.get(2).state == "failed"


def test_an_unknown_field_inside_the_filter_gets_a_suggestion(still: TestClient) -> None:
    answer = post(still, action="retry", filter={"stat": "failed"}, expected=3).json()
    assert answer["errors"] == [{"field": "filter.stat", "message": "there is no such field; did you mean 'state'?"}]


def test_many_are_done_in_the_background_and_can_be_followed(there: Shop, api: TestClient) -> None:
    for n in range(300):
        there.send.enqueue(f"{n}@example.org", due="1h")
    answer = post(api, action="cancel", filter={"state": "waiting"}, expected=302)
    assert (answer.status_code, answer.json()["matched"]) == (202, 302)
    found = settled(api, answer.headers["location"])
    assert (found["state"], found["done"], found["changed"], found["left"]) == ("done", 302, 302, [])
    assert found["finished_at"] is not None
    assert [each["id"] for each in api.get("/api/v1/bulk-actions").json()["items"]] == [found["id"]]


@contextmanager
def nobody_writes(there: Shop) -> Iterator[None]:
    """Whoever wants to write waits."""
    holds, go = threading.Event(), threading.Event()

    def hold(_: Tx) -> None:
        holds.set()
        go.wait(60)

    thread = threading.Thread(target=lambda: there.queue.store.write(hold))
    thread.start()
    holds.wait(60)
    try:
        yield
    finally:
        go.set()
        thread.join()


def test_no_more_than_a_few_run_at_once(there: Shop) -> None:
    bulks = Bulks(there.site())
    with nobody_writes(there):
        for _ in range(MOST_RUNNING):
            bulks.start("cancel", Filter(state="waiting"), "ada", 2)
        with pytest.raises(Problem) as refused:
            bulks.start("cancel", Filter(state="waiting"), "ada", 2)
    assert refused.value.code == "too_many"
    assert refused.value.retry_after is not None
    assert refused.value.retry_after >= 1
    bulks.stop()
    assert {each.state for each in bulks.listed()} <= {"done", "refused", "stopped"}


def test_no_more_than_many_are_kept(there: Shop) -> None:
    bulks = Bulks(there.site())
    first = bulks.start("cancel", Filter(state="blocked"), "ada", 0)
    one = first
    for _ in range(MOST_KEPT + 5):
        while one.state == "running":
            time.sleep(0.001)
        one = bulks.start("cancel", Filter(state="blocked"), "ada", 0)
    assert len(bulks.listed()) == MOST_KEPT
    assert bulks.get(one.id) is one
    assert bulks.get(first.id) is None
    bulks.stop()


def test_one_that_finds_another_number_is_refused_in_the_background(there: Shop) -> None:
    bulks = Bulks(there.site())
    one = bulks.start("cancel", Filter(state="waiting"), "ada", 7)
    while one.state == "running":
        time.sleep(0.001)
    assert (one.state, one.says) == ("refused", "2 match, not 7; look again before you cancel")
