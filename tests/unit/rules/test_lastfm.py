"""Last.fm: JSON and XML, in any status."""

from __future__ import annotations

import json

import pytest

from tests.unit.rules.case import GOOD, Answer, Case, Refused, answer, check, page
from tidegate.rules import lastfm

PACK = lastfm
ARTIST = "https://ws.audioscrobbler.com/2.0/?method=artist.getInfo&artist=x"
RECENT = "https://ws.audioscrobbler.com/2.0/?method=user.getRecentTracks&user=jo"
POSTED = "https://ws.audioscrobbler.com/2.0/"


def error(number: int, status: int, message: str = "no", url: str = ARTIST, **headers: str) -> Answer:
    return answer(status, {"error": number, "message": message, "links": []}, url, **headers)


def xml(number: int, message: str = "no") -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<lfm status="failed">\n<error code="{number}">{message}</error></lfm>'
    )


AUTH, KEY, MISTAKE = "fatal/auth/credential", "fatal/config/target", "fatal/item/item"
PASSING = "retriable/transient/target"
OK_XML = '<?xml version="1.0"?><lfm status="ok"><artist><name>error code="9"</name></artist></lfm>'

CASES = [
    Case("200, an artist", answer(200, {"artist": {"name": "x", "error": "9"}}, ARTIST), GOOD),
    Case("200, XML, status ok", answer(200, OK_XML, ARTIST), GOOD),
    Case("code 2, service", error(2, 400), "fatal/item/operation", "bad_request", "our-mistake"),
    Case("code 3, method", error(3, 400), "fatal/item/operation", "bad_request", "our-mistake"),
    Case("code 5, format", error(5, 400), "fatal/item/operation", "bad_request", "our-mistake"),
    Case("code 4", error(4, 403), AUTH, "unauthorized", "4-authentication"),
    Case("code 6, no such artist, 200", error(6, 200, "The artist you supplied could not be found"), GOOD,
         rule="6-no-such-music"),
    Case("code 6, no such track, 404", Refused(error(6, 404, "Track not found")), GOOD, rule="6-no-such-music"),
    Case("code 6, no such artist, XML", answer(400, xml(6, "Artist not found"), ARTIST), GOOD, rule="6-no-such-music"),
    Case("code 6, user not found", error(6, 404, "User not found", POSTED), "fatal/config/credential", "unknown_user",
         "6-user"),
    Case("code 6 of a user method", error(6, 400, "no", RECENT), "fatal/config/credential", "unknown_user", "6-user"),
    Case("code 6, a parameter is missing",
         error(6, 400, "Invalid parameters - Your request is missing a required parameter", RECENT), MISTAKE,
         "bad_request", "6-parameter"),
    Case("code 7", error(7, 400), MISTAKE, "bad_request", "7-resource"),
    Case("code 8, 500", error(8, 500, "Operation failed - Most likely the backend service failed"), PASSING,
         "upstream_failure", "passing-fault"),
    Case("code 8, 200", error(8, 200), PASSING, "upstream_failure", "passing-fault"),
    Case("code 9, session key revoked", error(9, 403, "Invalid session key - Please re-authenticate"), AUTH,
         "session_revoked", "9-session"),
    Case("code 9, 200", error(9, 200), AUTH, "session_revoked", "9-session"),
    Case("code 9, XML, 403", answer(403, xml(9), POSTED), AUTH, "session_revoked", "9-session"),
    Case("code 9, XML in a message", RuntimeError(f"last.fm request failed: {xml(9)}"), AUTH, "session_revoked",
         "9-session"),
    Case("code 9, JSON in a message", RuntimeError(f"last.fm: {json.dumps({'error': 9, 'message': 'no'})}"), AUTH,
         "session_revoked", "9-session"),
    Case("code 10, bad API key", error(10, 403), KEY, "key_invalid", "10-key"),
    Case("code 11, offline", error(11, 503), "retriable/overloaded/target", "overloaded", "11-offline"),
    Case("code 13, signature", error(13, 403), MISTAKE, "signature_refused", "13-signature"),
    Case("code 14, token not authorised", error(14, 403), AUTH, "login_unfinished", "login-unfinished"),
    Case("code 15, token expired", error(15, 403), AUTH, "login_unfinished", "login-unfinished"),
    Case("code 16, temporary", error(16, 503), PASSING, "upstream_failure", "passing-fault"),
    Case("code 17, listening hidden (looks like auth)", error(17, 403, "Login: User required to be logged in", RECENT),
         "fatal/config/operation", "listening_hidden", "17-hidden"),
    Case("code 26, key suspended", error(26, 403), KEY, "key_suspended", "26-suspended"),
    Case("code 27, deprecated", error(27, 410), "fatal/config/operation", "not_supported", "27-deprecated"),
    Case("code 29, 429", error(29, 429), "retriable/throttled/target", "rate_limited", "29-too-fast"),
    Case("code 29, 403", error(29, 403), "retriable/throttled/target", "rate_limited", "29-too-fast"),
    Case("code 29, 200, XML", answer(200, xml(29), POSTED), "retriable/throttled/target", "rate_limited",
         "29-too-fast"),
    Case("200, a number nobody knows", error(77, 200), "retriable/transient/target", "unexpected", "other-number"),
    Case("404 without a number", answer(404, "nothing here", RECENT), "fatal/config/operation", "not_supported",
         "call-missing"),
    Case("404, a number nobody knows", error(77, 404), MISTAKE, "not_found", "status:404"),
    Case("HTML in place of data", page(200, ARTIST), PASSING, "html_answer", "web-page"),
    Case("malformed, 200", answer(200, "Fatal: out of memory", ARTIST), PASSING, "upstream_failure", "garbled"),
    Case("malformed, found by the client", json.JSONDecodeError("Expecting value", '{"a": <b>, "c": 1}', 6), PASSING,
         "upstream_failure", "not-json"),
    Case("500 whose body broke off", answer(500, b'{"error": {', ARTIST), PASSING, "upstream_failure", "status:500"),
    Case("200 whose body broke off", answer(200, b'{"error": 9, "mess', ARTIST), GOOD),
    Case("200 whose XML broke off", answer(200, b'<lfm status="failed"><error co', ARTIST), GOOD),
    Case("200, error is no number", answer(200, {"error": True, "message": "no"}, ARTIST), GOOD),
]  # fmt: skip


@pytest.mark.req("SYNC-04", "SYNC-03")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_number_means_the_same_in_every_form(case: Case) -> None:
    check(case, PACK)


@pytest.mark.req("SYNC-04")
def test_an_unknown_user_is_confirmed_twice() -> None:
    policy = next(each for each in PACK.confirm if each.code == "unknown_user")

    assert policy.times == 2
    assert not PACK.code_book[policy.until_then].fatal


@pytest.mark.req("SYNC-04")
def test_who_hides_the_listening_is_not_sent_to_reconnect() -> None:
    code = PACK.code_book["listening_hidden"]

    assert "not help" in code.advice
    assert "privacy" in code.advice
