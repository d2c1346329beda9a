"""What is said when something is wrong: one shape, a code, a time to come back if one is known, and no secret."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException
from starlette.responses import StreamingResponse
from starlette.testclient import TestClient

from tests.web.api.building import SECRET, Shop, app_with, client_of, served
from tidegate.clock import VirtualClock
from tidegate.errors import BreakerOpen, Held, LeaseLost, SchemaTooNew, StoreBusy, StoreError, StoreFull, UniqueTaken
from tidegate.web import problem
from tidegate.web.middleware import ResponseAborted
from tidegate.web.problems import API_CODES, Problem
from tidegate.web.site import StoreOutage

FIELDS = {
    "type", "title", "status", "detail", "instance", "code", "class", "retriable", "retry_after", "request_id",
}  # fmt: skip


@pytest.mark.parametrize("row", API_CODES.values(), ids=str)
def test_every_problem_has_its_sentence_and_its_advice(row: Any) -> None:
    assert 400 <= row.status < 600
    assert row.title.endswith(".")
    assert row.advice.endswith(".")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/nope", 404, "no_such_path"),
        ("/api/v1/jobs/x", 422, "invalid"),
        ("/api/v1/jobs/99", 404, "not_there"),
        ("/api/v2/jobs", 404, "no_such_path"),
        ("/health/nope", 404, "no_such_path"),
    ],
)
def test_a_problem_has_all_its_fields(still: TestClient, path: str, status: int, code: str) -> None:
    answer = still.get(path)
    about = answer.json()
    assert set(about) >= FIELDS
    assert (answer.status_code, about["status"], about["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert about["type"] == f"/help/errors/{code}"
    assert about["instance"] == path
    assert about["request_id"] == answer.headers["x-request-id"]
    assert about["class"] == ("retriable" if about["retriable"] else "fatal")
    assert still.get(about["type"]).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/api/v1/jobs", "GET, HEAD"),
        ("GET", "/api/v1/jobs/1/retry", "POST"),
        ("DELETE", "/api/v1/bulk-actions", "GET, HEAD, POST"),
        ("GET", "/api/v1/targets/mailer/pause", "POST"),
        ("PUT", "/health/live", "GET, HEAD"),
    ],
)
def test_another_method_is_405_and_says_which_ones_there_are(
    still: TestClient, method: str, path: str, allow: str
) -> None:
    answer = still.request(method, path, headers={"Origin": "http://127.0.0.1:8321"})
    assert (answer.status_code, answer.json()["code"], answer.headers["allow"]) == (405, "method", allow)


def test_mistakes_on_pages_are_pages(still: TestClient) -> None:
    answer = still.get("/nope")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


# -- what breaks inside ----------------------------------------------------------------------------------------------


def raising(error: Exception, there: Shop) -> FastAPI:
    def broken() -> None:
        raise error

    return served(there, app_with(broken=broken))


@pytest.mark.parametrize("path", ["/api/broken", "/broken"])
def test_what_an_exception_says_reaches_neither_answer_nor_log(
    there: Shop, path: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG), client_of(raising(RuntimeError(f"{SECRET} in /etc/shadow"), there)) as api:
        answer = api.get(path)
    assert answer.status_code == 500
    said = (
        answer.content + str(answer.headers.raw).encode() + caplog.text.encode() + "".join(capfd.readouterr()).encode()
    )
    assert SECRET.encode() not in said
    assert b"/etc/shadow" not in said
    assert b"Traceback" not in said
    assert str(Path.cwd()).encode() not in answer.content
    assert "RuntimeError" not in answer.text
    assert "request_failed" in caplog.text
    assert " where=" in caplog.text, "a field `at` would hide when it happened"
    assert answer.headers["x-request-id"] in caplog.text


RAISED = [
    (BreakerOpen("spotify", None, "breaker", 0.0, 2e9, 42.4), 503, "held", 43),
    (Held("spotify", None, "fatal", 0.0, None, None), 503, "held", None),
    (StoreBusy(f"postgresql://ada:{SECRET}@db is away"), 503, "store_away", 1),
    (StoreError(f"/var/{SECRET}.db is no database"), 503, "store_away", 1),
    (StoreFull(SECRET), 503, "store_full", 1),
    (SchemaTooNew(SECRET), 503, "schema_too_new", None),
    (UniqueTaken(SECRET), 409, "unique_taken", None),
    (LeaseLost(7, 3), 409, "refused", None),
    (HTTPException(418, "a teapot"), 418, "malformed", None),
    (HTTPException(404, "There is no upload 7."), 404, "not_there", None),
    (HTTPException(502, SECRET), 502, "internal", None),
    (Problem("rate_limited", "Slowly.", status=429, retry_after=3.2), 429, "rate_limited", 4),
]


@pytest.mark.parametrize(("error", "status", "code", "after"), RAISED, ids=lambda each: type(each).__name__)
def test_what_the_layers_below_raise_becomes_its_problem(
    there: Shop, error: Exception, status: int, code: str, after: int | None
) -> None:
    with client_of(raising(error, there)) as api:
        answer = api.get("/api/broken")
        page = api.get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers.get("retry-after") == (None if after is None else str(after))
    assert page.status_code == status
    assert SECRET not in answer.text + page.text


def test_a_database_that_answers_is_not_said_to_be_silent(there: Shop) -> None:
    codes = {}
    for error in (StoreBusy(""), StoreFull(""), SchemaTooNew("")):
        with client_of(raising(error, there)) as api:
            page = api.get("/broken").text
        assert "<pre data-copy" in page  # the command that says more
        codes[type(error)] = re.findall(r'<span class="code">(\w+)</span>', page)
    assert codes == {StoreBusy: ["store_away"], StoreFull: ["store_full"], SchemaTooNew: ["schema_too_new"]}


def test_an_answer_that_breaks_off_breaks_the_connection_without_a_word(
    there: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError(SECRET)

    app = served(there, app_with(half=lambda: StreamingResponse(pieces())))
    with client_of(app) as api, pytest.raises(ResponseAborted) as broken:
        api.get("/api/half")
    assert SECRET not in repr(broken.value)
    assert broken.value.__suppress_context__
    assert SECRET not in caplog.text


def test_a_program_can_answer_with_a_problem_of_its_own(there: Shop) -> None:
    said = problem(409, "NOT_READY", "It is not ready.", "The file is being made.", retry_after=11.5, job=7)
    with client_of(served(there, app_with(file=lambda: said))) as api:
        answer = api.get("/api/file")
    assert answer.headers["retry-after"] == "12"
    about = answer.json()
    assert (about["code"], about["title"], about["job"]) == ("NOT_READY", "It is not ready.", 7)
    assert about["instance"] == "/api/file"


# -- the store is away -----------------------------------------------------------------------------------------------


@pytest.fixture
def away(there: Shop) -> Iterator[TestClient]:
    with client_of(served(there)) as client:
        client.get("/api/v1/codes")  # it learns that nobody has a password
        there.queue.away = True
        yield client
        there.queue.away = False


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/jobs"), ("GET", "/api/v1/jobs/1"), ("GET", "/api/v1/targets"), ("GET", "/api/v1/workers"),
        ("POST", "/api/v1/jobs/1/retry"), ("GET", "/api/v1/events"), ("GET", "/health/ready"),
        ("GET", "/health/workers"),
    ],
)  # fmt: skip
def test_without_the_store_the_api_says_so_and_when_to_come_back(away: TestClient, method: str, path: str) -> None:
    answer = away.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (503, "store_away")
    assert int(answer.headers["retry-after"]) >= 1
    assert SECRET not in answer.text


def test_without_the_store_the_rest_is_alive(away: TestClient) -> None:
    assert away.get("/health/live").status_code == 200
    assert away.get("/api/openapi.json").status_code == 200
    assert away.get("/api/v1/codes").status_code == 200
    assert "tidegate_store_up 0.0" in away.get("/metrics").text
    page = away.get("/")
    assert page.status_code == 503
    assert '<span class="code">store_away</span>' in page.text


def test_the_longer_the_store_is_away_the_later_one_should_ask_again() -> None:
    clock = VirtualClock()
    outage = StoreOutage(clock.monotonic)
    waits = []
    for later in (0.0, 0.4, 2.1, 27.5, 4000.0):
        clock.advance(later)
        waits.append(outage.seen())
    assert waits == [1, 1, 3, 30, 60]
    outage.over()
    assert outage.seen() == 1
