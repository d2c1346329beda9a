"""Tautulli: one status for everything, and a success that is none."""

from __future__ import annotations

import pytest

from tests.unit.rules.case import GOOD, Answer, Case, answer, check, page
from tidegate.rules import tautulli

PACK = tautulli
API = "https://tautulli.test/api/v2?cmd=get_history"


def error(status: int, message: str | None) -> Answer:
    return answer(status, {"response": {"result": "error", "message": message, "data": {}}}, API)


def history(**fields: object) -> Answer:
    data: dict[str, object] = {"recordsTotal": 0, "recordsFiltered": 0, "draw": 0, "data": [], "filter_duration": "0"}
    return answer(200, {"response": {"result": "success", "message": None, "data": data | fields}}, API)


KEY, CONFIG = "fatal/auth/target", "fatal/config/target"
PASSING, OURS = "retriable/transient/operation", "fatal/item/operation"
ALL_COMMANDS = ", ".join(f"get_command_number_{number}" for number in range(400))

CASES = [
    Case("200, a page of history", history(recordsTotal=1, data=[{"row_id": 1, "title": "error"}]), GOOD),
    Case("200, status", answer(200, {"response": {"result": "success", "message": "Ok", "data": {}}}, API), GOOD),
    Case("400 Invalid apikey (looks like a client error)", error(400, "Invalid apikey"), KEY, "unauthorized",
         "key-refused"),
    Case("400 Parameter apikey is required", error(400, "Parameter apikey is required"), KEY, "unauthorized",
         "key-refused"),
    Case("Invalid apikey in a message", RuntimeError("tautulli: Invalid apikey"), KEY, "unauthorized", "key-refused"),
    Case("400 API not enabled", error(400, "API not enabled"), CONFIG, "api_off", "api-off"),
    Case("400 API key not generated", error(400, "API key not generated correctly"), CONFIG, "api_off", "api-off"),
    Case("400 Parameter cmd is required", error(400, "Parameter cmd is required. Possible commands are: arnold"), OURS,
         "bad_request", "unknown-command"),
    Case("400 Unknown command", error(400, "Unknown command: x. Possible commands are: arnold"), OURS, "bad_request",
         "unknown-command"),
    Case("400 Unknown command, longer than what is read", error(400, f"Unknown command: x. Known: {ALL_COMMANDS}"),
         OURS, "bad_request", "unknown-command"),
    Case("400, message null, data {}", error(400, None), PASSING, "upstream_failure", "nothing-produced"),
    Case("400, any other message", error(400, "Unable to find user"), "fatal/item/item", "bad_request", "status:400"),
    Case("200 + result error, Invalid apikey", error(200, "Invalid apikey"), KEY, "unauthorized", "key-refused"),
    Case("200 + result error, API not enabled", error(200, "API not enabled"), CONFIG, "api_off", "api-off"),
    Case("200 + result error, message null", error(200, None), PASSING, "upstream_failure", "nothing-produced"),
    Case("200 + result error, any other message", error(200, "no"), PASSING, "upstream_failure", "error-in-200"),
    Case("500 Check the logs for errors", error(500, "Check the logs for errors"), "retriable/transient/target",
         "upstream_failure", "status:500"),
    Case("200 success, no rows, draw 0 (looks like success)", history(), PASSING, "empty_history", "no-rows"),
    Case("200 success, no rows, draw 0, as older versions sent it", answer(200, {"response": {
        "result": "success", "message": None, "data": {"recordsFiltered": 0, "recordsTotal": 0, "draw": 0,
        "data": "null", "error": "Unable to execute database query."}}}, API), PASSING, "empty_history", "no-rows"),
    Case("200 success, no rows, draw 1: a new Tautulli", history(draw=1), GOOD),
    Case("200 success, no rows after a filter", history(recordsTotal=9, filter_duration="0"), GOOD),
    Case("200 Please use the /api/v2 endpoint.", error(200, "Please use the /api/v2 endpoint."), CONFIG, "bad_address",
         "wrong-endpoint"),
    Case("303 to a login page", answer(303, b"", API), CONFIG, "redirected", "status:303"),
    Case("200 HTML login page", page(200, API), "retriable/transient/target", "html_answer", "web-page"),
    Case("429 from a proxy", answer(429, b"", API, retry_after="4"), "retriable/throttled/credential", "rate_limited",
         "status:429", retry_after=4.0),
    Case("400 whose body broke off", answer(400, b'{"response": {"result": "err', API), "fatal/item/item",
         "bad_request", "status:400"),
    Case("200 whose body broke off", answer(200, b'{"response": {"result": "error"', API), GOOD),
]  # fmt: skip


@pytest.mark.req("SYNC-04", "BRK-07")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_answer_means_what_tautulli_means_by_it(case: Case) -> None:
    check(case, PACK)


@pytest.mark.req("SYNC-04")
def test_an_empty_history_is_looked_at_twice_where_there_were_rows_and_is_fine_elsewhere() -> None:
    policy = next(each for each in PACK.confirm if each.code == "empty_history")

    assert policy.good
    assert policy.only_worked
    assert policy.times == 2
