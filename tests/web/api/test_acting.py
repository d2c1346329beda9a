"""What people do through the API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.text import names
from tests.web.api.building import Shop
from tidegate import outbox
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.store.base import Tx
from tidegate.targets import table
from tidegate.targets.table import TargetRow


def soon(**ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).isoformat()


def mailer(there: Shop) -> TargetRow:
    found = there.queue.store.read(lambda tx: table.target(tx, "mailer"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("job", "action", "result", "state"),
    [
        (2, "retry", "queued", "queued"),
        (7, "cancel", "cancelled", "cancelled"),
        (8, "cancel", "cancelled", "cancelled"),
    ],
)
def test_an_action_on_a_job_is_done(
    there: Shop, api: TestClient, job: int, action: str, result: str, state: str
) -> None:
    answer = api.post(f"/api/v1/jobs/{job}/{action}")
    assert answer.json() == {"id": job, "action": action, "result": result}
    assert there.queue.get(job).state == state
    assert there.queue.events(job)[-1].actor == "local"


def test_a_forgotten_job_is_gone(there: Shop, api: TestClient) -> None:
    assert api.post("/api/v1/jobs/1/forget").json()["result"] == "forgotten"
    assert api.get("/api/v1/jobs/1").status_code == 404


@pytest.mark.parametrize(
    ("job", "action", "says"),
    [
        (1, "retry", "job 1 is done"),
        (1, "cancel", "job 1 is done"),
        (7, "forget", "job 7 is queued"),
        (10, "cancel", "'pinned'"),
    ],
)
def test_what_is_not_possible_is_refused_with_the_reason(still: TestClient, job: int, action: str, says: str) -> None:
    answer = still.post(f"/api/v1/jobs/{job}/{action}")
    assert (answer.status_code, answer.json()["code"], says in answer.json()["detail"]) == (409, "refused", True)


def test_a_refusal_says_when_to_ask_again_if_a_time_is_known(still: TestClient) -> None:
    waiting = still.post("/api/v1/jobs/8/forget")
    due = datetime.fromisoformat(still.get("/api/v1/jobs/8").json()["due_at"])
    left = (due - datetime.now(UTC)).total_seconds()
    assert left - 5 < int(waiting.headers["retry-after"]) < left + 5
    assert left - 5 < waiting.json()["retry_after"] < left + 5
    assert [why["reason"] for why in waiting.json()["waits_for"]] == ["scheduled", "no_worker"]
    ended = still.post("/api/v1/jobs/1/retry")
    assert "retry-after" not in ended.headers
    assert ended.json()["retry_after"] is None


@pytest.mark.parametrize("end", [lambda: {"for": 600}, lambda: {"until": soon(minutes=10)}], ids=["for", "until"])
def test_a_target_is_paused_until_a_time_and_resumed(
    there: Shop, api: TestClient, end: Callable[[], dict[str, Any]]
) -> None:
    answer = api.post("/api/v1/targets/mailer/pause", json=end())
    assert answer.json()["changed"] is True
    row = mailer(there)
    assert row.paused_until is not None
    assert 500 < row.paused_until - there.queue.store.now() <= 600
    assert row.paused_by == "local"
    assert api.post("/api/v1/targets/mailer/resume").json()["changed"] is True
    assert mailer(there).paused_until is None
    assert api.post("/api/v1/targets/mailer/resume").json()["changed"] is False


def test_a_breaker_is_forced_open_and_reset(there: Shop, api: TestClient) -> None:
    opened = api.post("/api/v1/targets/mailer/force", json={"state": "open", "for": 60})
    assert (opened.json()["breaker"], opened.json()["changed"]) == ("open", True)
    assert mailer(there).breaker.state == "open"
    assert api.post("/api/v1/targets/mailer/reset").json()["changed"] is True
    assert mailer(there).breaker.state == "closed"
    assert api.post("/api/v1/targets/mailer/force", json={"state": "closed"}).json()["changed"] is False


def test_a_target_is_tested_by_a_job_that_waits(there: Shop, api: TestClient) -> None:
    calm = api.post("/api/v1/targets/mailer/test")
    assert (calm.status_code, calm.json()["code"]) == (409, "refused")
    assert (calm.status_code, "mailer" in calm.json()["detail"]) == (409, True)
    there.queue.target("mailer").force("open", "1h")

    tested = api.post("/api/v1/targets/mailer/test", json={}).json()

    assert (tested["action"], tested["breaker"], tested["job"], tested["key"]) == ("test", "half-open", 7, "")
    assert names(tested["says"], "Job 7", "mailer", tested["waits_for"][0]["message"])
    assert [each["reason"] for each in tested["waits_for"]] == ["no_worker"]
    assert mailer(there).breaker.state == "half-open"
    other = api.post("/api/v1/targets/mailer/test", json={"key": "9"})
    assert "key 9 of mailer" in other.json()["detail"]


def test_a_key_is_disabled_enabled_and_cleared(there: Shop, api: TestClient) -> None:
    assert api.post("/api/v1/targets/mailer/disable", json={"key": "7", "for": 60}).status_code == 200
    assert [each["key"] for each in api.get("/api/v1/targets/mailer").json()["keys"]] == ["7"]
    assert api.post("/api/v1/targets/mailer/enable", json={"key": "7"}).json()["changed"] is True
    assert api.post("/api/v1/targets/mailer/enable", json={"key": "7"}).json()["changed"] is False
    assert api.post("/api/v1/targets/mailer/disable", json={"for": 60}).status_code == 200
    assert api.post("/api/v1/targets/mailer/clear").json()["changed"] is True
    assert api.get("/api/v1/targets/mailer").json()["keys"] == []


def test_a_target_that_no_worker_has_met_yet_can_be_paused(there: Shop, api: TestClient) -> None:
    from tidegate import Target

    there.queue.job(queue="mail", name="fresh", target=Target("fresh"))(lambda given: None)
    assert api.post("/api/v1/targets/fresh/pause", json={"for": 5}).status_code == 200


def test_a_queue_is_paused_and_resumed(there: Shop, api: TestClient) -> None:
    assert api.post("/api/v1/queues/mail/pause", json={"for": 60}).json()["changed"] is True
    found = {each["name"]: each for each in api.get("/api/v1/queues").json()["items"]}
    assert found["mail"]["paused_by"] == "local"
    assert api.post("/api/v1/queues/mail/resume").json()["changed"] is True
    assert api.post("/api/v1/queues/mail/resume").json()["changed"] is False
    missing = api.post("/api/v1/queues/mial/pause", json={"for": 60})
    assert (missing.status_code, names(missing.json()["detail"], "'mial'", "'mail'")) == (404, True)


FIELDS = [
    ({}, "body", "until or for"),
    ({"for": 5, "until": soon(hours=1)}, "body", "until or for"),
    ({"for": False}, "for", "give a number"),
    ({"for": "60"}, "for", "give a number"),
    ({"for": 0}, "for", "give more than 0"),
    ({"for": 1e300}, "for", "give 3155760000.0 or less"),
    ({"for": None}, "body", "null"),
    ({"until": 5}, "until", None),
    ({"until": "tomorrow"}, "until", None),
    ({"until": "2030-01-01T00:00:00"}, "until", None),
    ({"utnil": soon(hours=1)}, "utnil", "'until'"),
    ([], "body", "JSON object"),
    ("for", "body", "JSON object"),
]


@pytest.mark.parametrize(("body", "field", "says"), FIELDS)
def test_a_pause_without_a_proper_end_is_not_made(
    unchanged: tuple[Shop, TestClient], body: Any, field: str, says: str | None
) -> None:
    there, still = unchanged
    answer = still.post("/api/v1/targets/mailer/pause", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert answer.json()["errors"][0]["field"] == field
    assert says is None or says in answer.json()["errors"][0]["message"]
    assert mailer(there).paused_until is None


def test_a_time_that_has_passed_is_refused(there: Shop, api: TestClient) -> None:
    for until in ("2020-01-01T00:00:00Z", soon(days=40_000)):
        answer = api.post("/api/v1/targets/mailer/pause", json={"until": until})
        assert (answer.status_code, answer.json()["code"]) == (409, "time_passed")
    assert mailer(there).paused_until is None


@pytest.mark.parametrize(
    ("body", "code", "good"),
    [
        ({"status": 429, "headers": {"Retry-After": "7"}}, "rate_limited", False),
        ({"status": 200, "body": "fine"}, None, True),
        ({"exception": "httpx.ConnectTimeout"}, "timeout", False),
        ({"exception": "builtins.ConnectionResetError", "message": "reset by peer"}, "network", False),
        ({"exception": "ConnectionResetError"}, "network", False),
        ({"exception": "my.own.Mistake", "message": "whatever"}, "unexpected", False),
        ({"message": "connection reset by peer"}, "network", False),
        ({"status": 401, "rules": "spotify"}, "unauthorized", False),
    ],
)
def test_an_answer_or_an_exception_is_classified(
    still: TestClient, body: dict[str, Any], code: str | None, good: bool
) -> None:
    answer = still.post("/api/v1/classify", json=body).json()
    assert answer["good"] is good
    assert (answer["fault"] and answer["fault"]["code"]) == code


@pytest.mark.parametrize(
    "body",
    [
        {}, {"status": True}, {"status": 99}, {"status": 200, "message": "no"}, {"headers": {}},
        {"status": 200, "rules": "spotfiy"}, {"status": "200"}, {"status": 200, "headers": {"a": 1}},
    ],
)  # fmt: skip
def test_what_is_neither_an_answer_nor_an_exception_is_refused(still: TestClient, body: dict[str, Any]) -> None:
    assert still.post("/api/v1/classify", json=body).status_code == 422


def _raised(notice: NewNotice, tx: Tx) -> bool:
    return outbox.raise_notice(tx, notice)


def test_notices_are_listed_newest_first_and_read_once(there: Shop, api: TestClient) -> None:
    for n in range(3):
        told = NewNotice(
            kind="fatal",
            level="error",
            place=NoticeSubject(subject="target", name=f"t{n}"),
            episode=1.0,
            title="It needs you",
            message="The service refused the credentials.",
            code="unauthorized",
        )
        there.queue.store.write(partial(_raised, told))
    first = api.get("/api/v1/notices?limit=2").json()
    assert [each["name"] for each in first["items"]] == ["t2", "t1"]
    assert first["unread"] == 3
    rest = api.get(f"/api/v1/notices?limit=2&cursor={first['next_cursor']}").json()
    assert [each["name"] for each in rest["items"]] == ["t0"]
    one = first["items"][0]
    assert api.post(f"/api/v1/notices/{one['id']}/ack").json()["changed"] is True
    assert api.post(f"/api/v1/notices/{one['id']}/ack").json()["changed"] is False
    left = api.get("/api/v1/notices?unread=true").json()
    assert [each["name"] for each in left["items"]] == ["t1", "t0"]
    assert left["unread"] == 2
    assert api.get("/api/v1/notices").json()["items"][0]["acked_by"] == "local"
    assert api.post("/api/v1/notices/99/ack").status_code == 404
