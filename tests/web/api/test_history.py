"""The past of queues and targets over the API."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import Shop
from tidegate.jobs import history


def put_down(there: Shop) -> None:
    there.queue.store.write(lambda tx: history.take(tx, there.queue.clock.now()))


def test_the_past_of_a_queue_has_a_step_for_what_was_watched(there: Shop, api: TestClient) -> None:
    put_down(there)
    found = api.get("/api/v1/history/queues/mail", params={"span": "3h"}).json()
    assert found["step"] == 300
    *before, last = found["points"]
    assert len(before) <= 1  # a step may have ended meanwhile
    assert last["depth"] == 3
    assert found["start"] < last["at"] <= found["end"]


def test_the_past_of_a_target_counts_its_calls(there: Shop, api: TestClient) -> None:
    put_down(there)
    there.queue.drain(queue="mail")
    calls, mail = (api.get(f"/api/v1/history/{of}").json()["points"] for of in ("targets/mailer", "queues/mail"))
    assert sum(each["good"] + each["bad"] for each in calls) == sum(each["attempts"] for each in mail) > 0


@pytest.mark.parametrize("path", ["queues/nobody", "targets/nobody"])
def test_nobody_has_no_past(api: TestClient, path: str) -> None:
    assert api.get(f"/api/v1/history/{path}").status_code == 404


def test_a_span_that_is_none_is_refused(api: TestClient) -> None:
    assert api.get("/api/v1/history/queues/mail", params={"span": "1y"}).status_code == 422
