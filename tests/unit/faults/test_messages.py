"""A plain message is searched for statuses and known words, but only when no type says anything."""

from __future__ import annotations

import pytest

from tidegate.faults.classification import classify, status_code
from tidegate.faults.fault import Fault
from tidegate.faults.heuristics import LASTFM_CODES, WORDS, status_in
from tidegate.rules.lastfm import lastfm


def verdict(text: str) -> Fault:
    fault = classify(RuntimeError(text))
    assert fault is not None
    assert fault == classify(RuntimeError(text))
    return fault


STATUSES = {
    "spotify API returned status 403": 403,
    "Spotify API returned status: 403": 403,
    "unexpected status code 502": 502,
    "status_code=429": 429,
    "status-code: 429": 429,
    "statusCode: 429": 429,
    'got {"status": 503, "message": "no"}': 503,
    "{'status': '503'}": 503,
    "HTTP 500": 500,
    "HTTP/1.1 503": 503,
    "HTTP/2 404": 404,
    "HTTP Error 404: Not Found": 404,
    "HTTP status 418": 418,
    "Error code: 401 - {'error': {}}": 401,
    "response code 410": 410,
    "502 Bad Gateway": 502,
    "504: Gateway Timeout": 504,
    "503 Server Error: Service Unavailable for url: x": 503,
    "Client error '404 Not Found' for url": 404,
    "too many 503 error responses": 503,
    "lidarr returned 500": 500,
    "lidarr returned 500.": 500,
    "lidarr returned a 500, giving up": 500,
    "server responded with 503": 503,
    "returned HTTP 302": 302,
}


@pytest.mark.req("SYNC-03")
@pytest.mark.parametrize(("text", "status"), STATUSES.items())
def test_a_status_in_a_message_decides_and_reaches_the_fault(text: str, status: int) -> None:
    fault = verdict(text)

    assert (fault.status, fault.rule, fault.code) == (status, f"text:{status}", status_code(status))


@pytest.mark.req("SYNC-03")
@pytest.mark.parametrize(
    "text",
    [
        "the query returned 500 rows",
        "got 404 items",
        "exit status 127",
        "status 4040",
        "status 99",
        "HTTP 2",
        "user 403 was merged",
        "line 404 of 500",
        "error code 9",
        "got 100%",
        "returned 404th",
        "port 443 is in use",
    ],
)
def test_a_number_that_is_no_status_is_left_alone(text: str) -> None:
    assert status_in(text) == 0


@pytest.mark.req("SYNC-03")
@pytest.mark.parametrize("text", ["status 200", "HTTP 204", "returned status 304"])
def test_a_message_about_a_good_answer_is_about_something_else(text: str) -> None:
    fault = verdict(text)

    assert (fault.code, fault.status, fault.rule) == ("unexpected", 0, "unknown")


@pytest.mark.req("SYNC-03")
@pytest.mark.parametrize(("code", "word"), [(code, word) for code, words in WORDS for word in words])
def test_known_words_decide_in_any_case_but_only_as_words(code: str, word: str) -> None:
    for text in (word, word.upper(), f"it said: {word}!", f"({word})"):
        assert verdict(text).code == code
    assert verdict(f"x{word}x").code in {"unexpected", *(c for c, ws in WORDS for w in ws if w != word and w in word)}


@pytest.mark.req("SYNC-03")
def test_a_status_beats_words_and_fatal_words_beat_retriable_ones() -> None:
    assert verdict("status 404 after a timeout").code == "not_found"
    assert verdict("unauthorized: session timeout").code == "unauthorized"


@pytest.mark.req("SYNC-01", "SYNC-03")
@pytest.mark.parametrize("text", ["", "boom", "no luck today", "ошибка", "\x00\ud800"])
def test_anything_else_is_unknown_and_so_retriable_and_loud(text: str) -> None:
    fault = verdict(text)

    assert (fault.code, fault.rule, fault.level) == ("unexpected", "unknown", "ERROR")
    assert fault.retriable


@pytest.mark.req("SYNC-02", "SYNC-03")
def test_the_message_of_a_cause_is_read_and_a_status_there_beats_words_above() -> None:
    outer = RuntimeError("sync failed, please try again later")
    outer.__cause__ = RuntimeError("spotify API returned status 403")

    assert (fault := classify(outer)) is not None
    assert (fault.code, fault.status) == ("forbidden", 403)


def xml(number: int, text: str = "no") -> str:
    return f'<?xml version="1.0"?>\n<lfm status="failed">\n  <error code="{number}">{text}</error>\n</lfm>'


@pytest.mark.req("SYNC-03")
@pytest.mark.parametrize(("number", "code"), LASTFM_CODES.items())
def test_an_xml_error_of_lastfm_is_read_out_of_a_message(number: int, code: str) -> None:
    for text in (xml(number), f"lastfm: {xml(number)}", repr(xml(number)), xml(number).replace('"', '\\"')):
        fault = verdict(text)
        assert (fault.code, fault.rule) == (code, f"text:lastfm-{number}")


@pytest.mark.req("SYNC-03")
def test_the_number_of_lastfm_says_more_than_the_status_beside_it() -> None:
    fault = verdict(f"lastfm API returned status 403: {xml(29, 'Rate limit exceeded')}")

    assert (fault.code, fault.status, fault.retriable) == ("rate_limited", 403, True)


@pytest.mark.req("SYNC-03")
def test_a_number_of_lastfm_that_nobody_knows_leaves_the_rest_of_the_message_to_decide() -> None:
    assert verdict(f"status 503: {xml(998)}").code == "overloaded"
    assert verdict(xml(999, "try again later")).code == "overloaded"


@pytest.mark.req("SYNC-03", "SYNC-04")
@pytest.mark.parametrize("number", [number for number in LASTFM_CODES if number != 6])
def test_the_general_table_and_the_pack_of_lastfm_agree_on_the_class(number: int) -> None:
    special = classify(RuntimeError(xml(number)), lastfm)

    assert special is not None
    assert verdict(xml(number)).fatal is special.fatal
