"""The same thing done to many jobs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.text import names, numbers
from tests.web.api.building import Shop, shop
from tests.web.local import LocalClient
from tidegate.jobs.bulk import service
from tidegate.jobs.bulk.table import BulkOperation
from tidegate.jobs.listing import Filter
from tidegate.web.bulk_runner import MAX_RUNNING, BulkRunner
from tidegate.web.live.watcher import changes, take_snapshot
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
    assert numbers(answer.json()["detail"]) == [3, 2]
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
    (error,) = answer["errors"]
    assert (error["field"], "'state'" in error["message"]) == ("filter.stat", True)


def test_many_are_done_in_the_background_and_can_be_followed(there: Shop, api: TestClient) -> None:
    for n in range(300):
        there.send.options(due="1h").enqueue(f"{n}@example.org")
    answer = post(api, action="cancel", filter={"state": "waiting"}, expected=302)
    assert (answer.status_code, answer.json()["matched"]) == (202, 302)
    found = settled(api, answer.headers["location"])
    assert (found["state"], found["done"], found["changed"], found["left"]) == ("done", 302, 302, [])
    assert found["finished_at"] is not None
    assert [each["id"] for each in api.get("/api/v1/bulk-actions").json()["items"]] == [found["id"]]


def left_behind(there: Shop) -> BulkOperation:
    """A bulk action over the two jobs that wait, which nobody works on: whoever asked for it is gone."""
    one = service.begin(there.queue.store, "cancel", Filter(state="waiting"), "ada", expected=2)
    assert one is not None
    return one


def nobody_works(api: TestClient) -> None:
    """The server's own thread leaves them alone."""
    assert isinstance(api, LocalClient)
    app = api.inner
    assert isinstance(app, FastAPI)
    app.state.bulks.stop()


def test_what_was_left_when_the_server_stopped_is_gone_on_with_after_its_start(there: Shop) -> None:
    one = left_behind(there)
    bulks = BulkRunner(there.site())
    bulks.begin()
    end = time.monotonic() + 60
    while (found := there.queue.store.read(lambda tx: service.require(tx, one.id))).running:
        assert time.monotonic() < end
        time.sleep(0.01)
    bulks.stop()
    assert (found.state, found.changed, found.refused) == ("done", 2, 0)


def test_no_more_than_a_few_run_at_once(there: Shop) -> None:
    for _ in range(MAX_RUNNING):
        left_behind(there)
    with pytest.raises(Problem) as refused:
        BulkRunner(there.site()).start("cancel", Filter(state="waiting"), "ada", 2)
    assert refused.value.code == "too_many"
    assert refused.value.retry_after is not None
    assert refused.value.retry_after >= 1


def test_one_that_is_cancelled_leaves_the_rest_as_it_is(there: Shop, api: TestClient) -> None:
    nobody_works(api)
    one = left_behind(there)
    path = f"/api/v1/bulk-actions/{one.id}"
    answer = api.post(f"{path}/cancel")
    assert (answer.status_code, answer.json()["state"], answer.json()["done"]) == (200, "cancelled", 0)
    assert numbers(answer.json()["says"]) == [2]
    assert answer.json()["ended_by"] == "local"
    again = api.post(f"{path}/cancel")
    assert (again.status_code, names(again.json()["detail"], one.id, "cancelled")) == (409, True)
    assert api.post("/api/v1/bulk-actions/999/cancel").status_code == 404
    waiting = api.get("/api/v1/jobs", params={"state": "waiting"}).json()["items"]
    assert len(waiting) == 2


def test_what_became_of_each_job_is_told_a_page_at_a_time(there: Shop, api: TestClient) -> None:
    nobody_works(api)
    one = left_behind(there)
    moved_on = api.get("/api/v1/jobs", params={"state": "waiting"}).json()["items"][0]["id"]
    there.queue.cancel(moved_on)
    while (far := service.step(there.queue.store, one.id, "me")) is not None and far.running:
        pass
    path = f"/api/v1/bulk-actions/{one.id}"
    found = api.get(path).json()
    assert (found["changed"], found["refused"], found["left"], found["origin"]) == (1, 1, [moved_on], "program")
    first = api.get(f"{path}/items", params={"limit": 1}).json()
    second = api.get(f"{path}/items", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert second["next_cursor"] is None
    why = {each["job"]: (each["outcome"], each["why"]) for each in (*first["items"], *second["items"])}
    assert (why[moved_on][0], "cancelled" in why[moved_on][1]) == ("refused", True)
    assert sorted(outcome for outcome, _ in why.values()) == ["changed", "refused"]
    only = api.get(f"{path}/items", params={"outcome": "refused"}).json()["items"]
    assert [each["job"] for each in only] == [moved_on]
    assert f"/jobs/{moved_on}" in api.get(f"/actions/{one.id}").text


def test_open_pages_hear_of_its_progress_also_when_nothing_is_changed(there: Shop) -> None:
    one, store = left_behind(there), there.queue.store
    before = store.read(lambda tx: take_snapshot(tx, None))

    store.write(lambda tx: tx.query("bulk_far", {"id": one.id, "changed": 0, "refused": 1}))
    after = store.read(lambda tx: take_snapshot(tx, None))

    assert [kind for kind, _, _ in changes(before, after)] == ["now"]
    assert list(changes(after, after)) == []


def test_a_queue_that_is_closed_first_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with shop(tmp_path) as gone:
        bulks = BulkRunner(gone.site())
    bulks.begin()
    end = time.monotonic() + 60
    while "bulk_waits" not in caplog.text:
        assert time.monotonic() < end
        time.sleep(0.01)
    bulks.stop(60)
