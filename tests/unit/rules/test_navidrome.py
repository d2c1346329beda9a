"""Navidrome and the Subsonic envelope."""

from __future__ import annotations

import pytest

from tests.unit.rules.case import GOOD, Answer, Case, answer, check, page
from tidegate.rules import navidrome

PACK = navidrome
REST = "https://music.test/rest/getPlaylists.view?f=json"
LOGIN = "https://music.test/auth/login"


def failed(code: int, message: str = "no", status: int = 200, **headers: str) -> Answer:
    error = {"code": code, "message": message}
    envelope = {"status": "failed", "version": "1.16.1", "type": "navidrome", "openSubsonic": True, "error": error}
    return answer(status, {"subsonic-response": envelope}, REST, **headers)


def xml(code: int) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?><subsonic-response xmlns="http://subsonic.org/restapi" status="failed" '
        f'version="1.16.1"><error code="{code}" message="no"></error></subsonic-response>'
    )


ENVELOPE = {"subsonic-response": {"status": "ok", "version": "1.16.1", "playlists": {}}}
TITLED = {"subsonic-response": {"status": "ok", "song": {"title": "failed", "error": {"code": 40}}}}

CASES = [
    Case("200, status ok, empty collection", answer(200, ENVELOPE, REST), GOOD),
    Case("200, status ok, a song called failed", answer(200, TITLED, REST), GOOD),
    Case("200 + code 0, Internal Server Error:", failed(0, "Internal Server Error: database is locked"),
         "retriable/transient/target", "upstream_failure", "internal-error"),
    Case("200 + code 0, other text", failed(0, "invalid parameter"), "retriable/transient/operation", "call_failed",
         "generic-error"),
    Case("200 + code 10, missing parameter", failed(10), "fatal/item/operation", "bad_request", "missing-parameter"),
    Case("200 + code 20, client too old", failed(20), "fatal/config/target", "wrong_version", "version-mismatch"),
    Case("200 + code 30, server too old", failed(30), "fatal/config/target", "wrong_version", "version-mismatch"),
    Case("200 + code 40 (looks like auth, may be their database)", failed(40), "fatal/auth/credential", "unauthorized",
         "wrong-credentials"),
    Case("200 + code 40 in XML", answer(200, xml(40), REST), "fatal/auth/credential", "unauthorized",
         "wrong-credentials"),
    Case("code 40 in a message", RuntimeError(f"server said: {failed(40).content.decode()}"), "fatal/auth/credential",
         "unauthorized", "wrong-credentials"),
    Case("200 + code 41, LDAP", failed(41), "fatal/auth/credential", "login_method", "login-method"),
    Case("200 + code 42, mechanism", failed(42), "fatal/auth/credential", "login_method", "login-method"),
    Case("200 + code 43, two mechanisms", failed(43), "fatal/auth/credential", "login_method", "login-method"),
    Case("200 + code 44, API key", failed(44), "fatal/auth/credential", "login_method", "login-method"),
    Case("200 + code 50, not permitted", failed(50), "fatal/auth/operation", "forbidden", "not-permitted"),
    Case("200 + code 60, trial over", failed(60), "fatal/config/target", "trial_over", "trial-over"),
    Case("200 + code 70, entity gone", failed(70), "fatal/item/item", "not_found", "not-found"),
    Case("200 + a number nobody knows", failed(99), "retriable/transient/operation", "call_failed", "other-error"),
    Case("200, failed without an error",
         answer(200, {"subsonic-response": {"status": "failed"}}, REST), "retriable/transient/operation",
         "call_failed", "other-error"),
    Case("404 without an envelope", answer(404, "404 page not found", REST), "retriable/transient/target", "no_server",
         "no-server"),
    Case("404 of the login", answer(404, "", LOGIN), "retriable/transient/target", "no_server", "no-server"),
    Case("404 of a call that older releases lack", answer(404, "", "https://music.test/api/scrobble"),
         "fatal/item/item", "not_found", "status:404"),
    Case("401 + code 40, as other servers do", failed(40, status=401), "fatal/auth/credential", "unauthorized",
         "wrong-credentials"),
    Case("429 + Retry-After: 5, body still a Subsonic error", failed(0, status=429, retry_after="5"),
         "retriable/throttled/credential", "rate_limited", "status:429", retry_after=5.0),
    Case("429 plain text on cover art", answer(429, "too many requests", "https://music.test/rest/getCoverArt"),
         "retriable/throttled/credential", "rate_limited", "status:429"),
    Case("501 plain text", answer(501, "not implemented", REST), "fatal/config/operation", "not_supported",
         "status:501"),
    Case("410 plain text", answer(410, "gone", REST), "fatal/config/operation", "not_supported", "withdrawn"),
    Case("302 -> 200 HTML (looks like success)", page(), "retriable/transient/target", "html_answer", "web-page"),
    Case("/auth/login 401", answer(401, {"error": "Invalid username or password"}, LOGIN), "fatal/auth/credential",
         "wrong_password", "login-refused"),
    Case("/auth/login 422", answer(422, {"error": "x"}, LOGIN), "fatal/item/item", "bad_request", "status:422"),
    Case("/auth/login 429", answer(429, "", LOGIN), "retriable/throttled/target", "rate_limited", "too-many-logins"),
    Case("/auth/login 500", answer(500, "", LOGIN), "retriable/transient/target", "upstream_failure", "status:500"),
    Case("/api/* 401 (looks like auth, may be their database)",
         answer(401, {"error": "Not authenticated"}, "https://music.test/api/song"), "fatal/auth/credential",
         "unauthorized", "status:401"),
    Case("200, cut in the middle of the envelope", answer(200, b'{"subsonic-response":{"status":"failed","err', REST),
         GOOD),
    Case("200, the envelope is a list", answer(200, {"subsonic-response": ["failed"]}, REST), GOOD),
]  # fmt: skip


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_answer_means_what_the_server_means_by_it(case: Case) -> None:
    check(case, PACK)


@pytest.mark.req("SYNC-04")
def test_a_refused_login_is_believed_at_once_and_code_40_only_when_it_was_confirmed() -> None:
    doubted = {each.code: each for each in PACK.confirm}

    assert doubted["unauthorized"].times == 2
    assert "wrong_password" not in doubted
    assert "login_method" not in doubted


@pytest.mark.req("SYNC-04")
def test_the_same_failed_call_becomes_a_fault_of_the_item_after_three_times() -> None:
    policy = next(each for each in PACK.confirm if each.code == "call_failed")

    assert (policy.times, policy.until_then, policy.becomes) == (3, "call_failed", "bad_request")
