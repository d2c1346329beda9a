"""What the API shows."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.text import numbers
from tests.web.api.building import Shop
from tidegate import Fail
from tidegate.jobs import settle
from tidegate.targets import table

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def ids(answer: Any) -> list[int]:
    return [each["id"] for each in answer.json()["items"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ("queue=files", [10]),
        ("state=queued", [10, 9, 8, 7]),
        ("state=waiting", [9, 8]),
        ("state=failed", [6, 4, 2]),
        ("state=failed&code=bad_request", [6, 4, 2]),
        ("state=failed&code=network", []),
        ("kind=send&state=done", [5, 3, 1]),
        ("target=mailer&state=ready", [7]),
        ("older=3600", []),
        ("younger=3600&kind=pinned", [10]),
    ],
)
def test_jobs_are_listed_newest_first_and_by_filter(still: TestClient, query: str, found: list[int]) -> None:
    answer = still.get(f"/api/v1/jobs?{query}")
    assert ids(answer) == found
    assert answer.json()["total"] == len(found)
    assert answer.json()["total_is_capped"] is False


def test_pages_follow_each_other_by_cursor_and_by_link(still: TestClient) -> None:
    first = still.get("/api/v1/jobs?limit=4&state=")
    assert ids(first) == [10, 9, 8, 7]
    by_cursor = still.get(f"/api/v1/jobs?limit=4&cursor={first.json()['next_cursor']}")
    link = re.fullmatch(r'<(/api/v1/jobs\?[^>]+)>; rel="next"', first.headers["link"])
    assert link is not None
    by_link = still.get(link[1])
    assert ids(by_cursor) == ids(by_link) == [6, 5, 4, 3]
    last = still.get(f"/api/v1/jobs?limit=4&cursor={by_link.json()['next_cursor']}")
    assert ids(last) == [2, 1]
    assert last.json()["next_cursor"] is None
    assert "link" not in last.headers


def test_a_job_is_shown_with_its_history_and_what_it_waits_for(still: TestClient) -> None:
    failed = still.get("/api/v1/jobs/2").json()
    assert failed["state"] == "failed"
    assert failed["code"] == failed["error_code"] == "bad_request"
    assert [event["kind"] for event in failed["events"]] == ["queued", "processing", "failed"]
    assert failed["waits_for"] == []
    assert ISO.fullmatch(failed["created_at"])
    assert ISO.fullmatch(failed["finished_at"])
    waiting = still.get("/api/v1/jobs/8").json()
    assert [why["reason"] for why in waiting["waits_for"]] == ["scheduled", "no_worker"]
    assert ISO.fullmatch(waiting["waits_for"][0]["until"])
    assert waiting["args"] == {"to": "later-1@example.org"}


def test_secrets_and_long_texts_are_not_shown(there: Shop, api: TestClient) -> None:
    @there.queue.job(queue="mail", name="odd")
    def job(given: Any) -> None: ...

    secret = job.enqueue({"api_key": "hunter2", "url": "https://ada:hunter2@example.org/?token=hunter2", "n": 1})
    long = job.enqueue({"text": "x" * 30_000})
    nasty = job.enqueue({"lone": "\ud800", "deep": [[[[1]]]]})

    @there.queue.job(queue="mail", name="sign in")
    def sign_in(user: str, password: str) -> None: ...

    by_name = api.get(f"/api/v1/jobs/{sign_in.enqueue('ada', 'hunter2').id}")
    assert (by_name.json()["args"]["user"], "hunter2" in by_name.text) == ("ada", False)
    shown = api.get(f"/api/v1/jobs/{secret.id}")
    assert "hunter2" not in shown.text
    assert shown.json()["args"]["given"]["n"] == 1
    assert len(api.get(f"/api/v1/jobs/{long.id}").content) < 5000
    assert api.get(f"/api/v1/jobs/{nasty.id}").status_code == 200


def test_a_secret_in_the_message_of_a_failure_is_not_shown(there: Shop, api: TestClient) -> None:
    @there.queue.job(queue="mail", name="tells", attempts=1)
    def tells() -> None:
        raise Fail("bad_request", "refused: https://ada:hunter2@example.org/?token=hunter2")

    job = tells.enqueue().id
    there.queue.drain("mail")
    assert api.get(f"/api/v1/jobs/{job}").json()["error_message"].startswith("refused")
    for path in (f"/api/v1/jobs/{job}", f"/jobs/{job}", "/api/v1/jobs", "/queue", "/api/v1/failures", "/failures"):
        assert "hunter2" not in api.get(path).text, path


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/api/v1/jobs/99", "99"),
        ("/api/v1/targets/mailerr", "'mailerr'"),
        ("/api/v1/explain/jobs/99", "job 99"),
        ("/api/v1/explain/targets/nobody", "'nobody'"),
        ("/api/v1/codes/nonsense", "nonsense"),
        ("/api/v1/bulk-actions/999", "999"),
    ],
)
def test_what_is_not_there_is_404(still: TestClient, path: str, says: str) -> None:
    answer = still.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_there")
    assert says in answer.json()["detail"]


def test_targets_are_listed_and_shown(there: Shop, api: TestClient) -> None:
    there.queue.target("mailer").pause("1h", by="ada")
    (one,) = api.get("/api/v1/targets").json()["items"]
    assert (one["name"], one["token"], one["word"], one["paused_by"]) == ("mailer", "paused", "Paused", "ada")
    assert [each["name"] for each in api.get("/api/v1/targets?state=paused&name=MAIL").json()["items"]] == ["mailer"]
    assert api.get("/api/v1/targets?state=ok").json()["items"] == []
    whole = api.get("/api/v1/targets/mailer").json()
    assert [why["reason"] for why in whole["waits_for"]] == ["paused"]
    assert [event["kind"] for event in whole["events"]] == ["target_paused"]
    explained = api.get("/api/v1/explain/targets/mailer?key=7").json()
    assert [why["reason"] for why in explained["reasons"]] == ["paused"]


def test_a_target_whose_name_has_a_slash_can_be_asked_for(there: Shop, api: TestClient) -> None:
    there.queue.store.write(lambda tx: tx.query("target_new", {"name": "feeds/europe"}))
    assert api.get("/api/v1/targets/feeds%2Feurope").json()["name"] == "feeds/europe"
    assert api.post("/api/v1/targets/feeds%2Feurope/pause", json={"for": 60}).status_code == 200


def test_targets_are_paged(there: Shop, api: TestClient) -> None:
    for n in range(5):
        there.queue.store.write(lambda tx, n=n: tx.query("target_new", {"name": f"t{n}"}))  # type: ignore[misc]
    names: list[str] = []
    path = "/api/v1/targets?limit=2"
    while True:
        page = api.get(path).json()
        names += [each["name"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        path = f"/api/v1/targets?limit=2&cursor={page['next_cursor']}"
    assert sorted(names) == ["mailer", "t0", "t1", "t2", "t3", "t4"]


@pytest.mark.parametrize("path", ["/api/v1/targets?cursor=!!!", "/api/v1/targets?cursor=AAAA"])
def test_a_cursor_that_nobody_gave_is_refused(still: TestClient, path: str) -> None:
    answer = still.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


def test_queues_are_those_with_jobs_and_those_that_are_declared(there: Shop, api: TestClient) -> None:
    there.queue.job(queue="empty", name="nothing")(lambda given: None)
    items = {each["name"]: each for each in api.get("/api/v1/queues").json()["items"]}
    assert sorted(items) == ["empty", "files", "mail"]
    assert items["mail"]["jobs"] == {"done": 3, "failed": 3, "ready": 1, "waiting": 2}
    for way in (("mail", "ready", "running"), ("mail", "running", "ready")):  # and nobody has added it up yet
        there.queue.store.write(lambda tx, way=way: settle.count_moves(tx, {way: 1}))  # type: ignore[misc]
    assert api.get("/api/v1/queues/mail").json()["jobs"] == items["mail"]["jobs"]


def test_one_queue_is_shown_with_its_numbers_and_its_events(there: Shop, api: TestClient) -> None:
    there.queue.pause("mail", "1h", by="ada")
    there.queue.job(queue="not/yet", name="nothing")(lambda given: None)
    found = api.get("/api/v1/queues/mail").json()
    assert (found["name"], found["waiting"], found["paused_by"]) == ("mail", 3, "ada")
    assert [(each["kind"], each["actor"]) for each in found["events"]] == [("queue_paused", "ada")]
    assert api.get("/api/v1/queues/not/yet").json()["waiting"] == 0
    gone = api.get("/api/v1/queues/mial")
    assert (gone.status_code, gone.json()["code"]) == (404, "not_there")


@pytest.mark.parametrize("path", ["/api/v1/targets/mailer/test", "/api/v1/queues/mail/pause"])
def test_what_is_done_by_a_post_cannot_be_read(still: TestClient, path: str) -> None:
    answer = still.get(path)
    assert (answer.status_code, answer.json()["code"], answer.headers["allow"]) == (405, "method", "POST")


def test_a_name_that_ends_like_an_action_can_be_acted_on_and_is_in_the_list(there: Shop, api: TestClient) -> None:
    from tidegate import Target

    there.queue.job(queue="mail", name="pay", target=Target("pay/test"))(lambda given: None)
    assert api.post("/api/v1/targets/pay/test/pause", json={"for": 60}).json()["target"] == "pay/test"
    assert [each["name"] for each in api.get("/api/v1/targets?name=pay").json()["items"]] == ["pay/test"]
    assert api.get("/targets/pay/test").status_code == 200


@pytest.mark.parametrize("path", ["overview", "targets/mailer", "events"])
def test_what_looks_like_a_secret_in_an_event_is_not_shown(there: Shop, api: TestClient, path: str) -> None:
    fields = {"password": "hunter2", "until": 5}
    there.queue.store.write(lambda tx: table.append_event(tx, "target", "mailer", "odd", "ada", fields=fields))
    answer = api.get(f"/api/v1/{path}")
    found = answer.json().get("events") or answer.json()["items"]
    assert [each["fields"] for each in found if each["kind"] == "odd"] == [{"password": "***", "until": 5}]


def test_the_overview_says_how_everything_is(there: Shop, api: TestClient) -> None:
    found = api.get("/api/v1/overview").json()
    assert numbers(found["sentence"])[:2] == [3, 4]  # failed, waiting
    assert (found["healthy"], found["workers"], found["last_tick_at"]) == (False, 0, None)
    assert [each["kind"] for each in found["needs"]] == ["failed", "no_worker", "no_worker"]
    assert [each["name"] for each in found["queues"]] == ["files", "mail"]
    for need in found["needs"]:
        assert api.get(need["href"]).status_code == 200, need
    there.queue.target("mailer").force("open", "1h")
    after = api.get("/api/v1/overview").json()
    assert [each["token"] for each in after["attention"]] == ["open"]
    assert after["targets"] == {"open": 1}
    assert [each["kind"] for each in after["events"]] == ["breaker_state_changed"]


def test_settings_have_their_origin_and_no_secret(still: TestClient) -> None:
    answer = still.get("/api/v1/config")
    assert answer.json()["items"][0]["origin"] == "tidegate.toml"
    assert "hunter2" not in answer.text


def test_every_code_is_listed_once_with_its_help(still: TestClient) -> None:
    items = still.get("/api/v1/codes").json()["items"]
    names = [each["code"] for each in items]
    assert len(names) == len(set(names))
    assert {"network", "GW_TIMEOUT", "invalid", "store_away"} - {"GW_TIMEOUT"} <= set(names)
    one = still.get("/api/v1/codes/unauthorized").json()
    assert (one["class"], one["of"], one["help"]) == ("fatal", "fault", "/help/errors/unauthorized")


@pytest.mark.parametrize(
    "path", ["/api/v1/jobs", "/api/v1/jobs/1", "/api/v1/targets", "/api/v1/codes", "/api/openapi.json"]
)
def test_what_has_not_changed_is_not_sent_again(still: TestClient, path: str) -> None:
    first = still.get(path)
    tag = first.headers["etag"]
    again = still.get(path, headers={"If-None-Match": f'"other", W/{tag}'})
    if again.status_code == 200:  # a second went by, and a line says so
        again = still.get(path, headers={"If-None-Match": again.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert still.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_head_says_what_a_get_would(still: TestClient) -> None:
    answer = still.head("/api/v1/jobs/1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["etag"]


def test_waiting_for_a_job_ends_when_its_state_changes(there: Shop, api: TestClient) -> None:
    begun = threading.Event()

    def later() -> None:
        begun.wait()
        there.queue.cancel(8)

    thread = threading.Thread(target=later)
    thread.start()
    start = time.monotonic()
    begun.set()
    answer = api.get("/api/v1/jobs/8?wait=20")
    thread.join()
    assert answer.json()["state"] == "cancelled"
    assert time.monotonic() - start < 20


def test_waiting_for_a_job_that_has_ended_does_not_wait(still: TestClient) -> None:
    start = time.monotonic()
    assert still.get("/api/v1/jobs/1?wait=20").json()["state"] == "done"
    assert time.monotonic() - start < 20


def test_waiting_has_an_end(still: TestClient) -> None:
    start = time.monotonic()
    assert still.get("/api/v1/jobs/8?wait=0.2").json()["state"] == "queued"
    assert 0.2 <= time.monotonic() - start < 20
    assert still.get("/api/v1/jobs/8?wait=21").status_code == 422
