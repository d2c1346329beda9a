"""Fanart.tv: no pictures is no error."""

from __future__ import annotations

import pytest

from tests.unit.rules.case import GOOD, Answer, Case, Refused, answer, check, page
from tidegate.rules import fanart

PACK = fanart
ARTIST = "https://webservice.fanart.tv/v3/music/5b11f4ce-a62d-471e-81fc-a69a8278c7da"
KEY = "fatal/config/target"


def error(status: int, text: str, url: str = ARTIST) -> Answer:
    return answer(status, {"status": "error", "error message": text}, url)


ELSEWHERE = "retriable/transient/target"

CASES = [
    Case("200, pictures", answer(200, {"name": "x", "artistthumb": []}, ARTIST), GOOD),
    Case("200, the album that was asked for is absent", answer(200, {"name": "x", "albums": {}}, ARTIST), GOOD),
    Case("404 Not found (a normal answer)", error(404, "Not found"), GOOD, rule="no-art"),
    Case("404 inside an exception", Refused(error(404, "Not found")), GOOD, rule="no-art"),
    Case("404 HTML: not the service at all", page(404, ARTIST), "retriable/transient/target", "html_answer",
         "web-page"),
    Case("404 in a message", RuntimeError("fanart.tv returned status 404"), GOOD, rule="no-art-in-words"),
    Case("404 of another server", answer(404, "404 page not found", ARTIST), ELSEWHERE, "no_service",
         "not-the-service"),
    Case("404 of another service", Refused(answer(404, {"detail": "Not Found"}, ARTIST)), ELSEWHERE, "no_service",
         "not-the-service"),
    Case("404 without a word", answer(404, b"", ARTIST), ELSEWHERE, "no_service", "not-the-service"),
    Case("200 + status error, not found", error(200, "Not found"), GOOD, rule="no-art-in-200"),
    Case("200 + status error, something else", error(200, "Database error"), "retriable/transient/target",
         "upstream_failure", "error-in-200"),
    Case("404 on /music/ with an empty id", error(404, "Not found", "https://webservice.fanart.tv/v3/music/"),
         "fatal/item/item", "bad_request", "empty-id"),
    Case("404 on /music/albums/ with an empty id",
         error(404, "Not found", "https://webservice.fanart.tv/v3/music/albums/"), "fatal/item/item", "bad_request",
         "empty-id"),
    Case("401", answer(401, b"", ARTIST), KEY, "key_invalid", "key-refused"),
    Case("200 + body mentions the API key", error(200, "A valid API key is required"), KEY, "key_invalid",
         "key-missing"),
    Case("403 + body mentions the API key", answer(403, "Invalid API Key", ARTIST), KEY, "key_invalid", "key-in-text"),
    Case("404 + body mentions the API key", error(404, "API key not valid"), KEY, "key_invalid", "key-in-text"),
    Case("an artist called API Key", answer(200, {"name": "API Key", "artistthumb": []}, ARTIST), GOOD),
    Case("429", answer(429, b"", ARTIST), "retriable/throttled/credential", "rate_limited", "status:429"),
    Case("500", answer(500, b"", ARTIST), "retriable/transient/target", "upstream_failure", "status:500"),
    Case("503", answer(503, b"", ARTIST), "retriable/overloaded/target", "overloaded", "status:503"),
    Case("200 whose body broke off", answer(200, b'{"status": "error", "error mess', ARTIST), GOOD),
]  # fmt: skip


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_answer_means_what_fanart_means_by_it(case: Case) -> None:
    check(case, PACK)
