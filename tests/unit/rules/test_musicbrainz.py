"""MusicBrainz: whose haste a 503 is about."""

from __future__ import annotations

import pytest

from tests.unit.rules.case import GOOD, Answer, Case, Refused, answer, check, page
from tidegate.rules import musicbrainz

PACK = musicbrainz
LOOKUP = "https://musicbrainz.org/ws/2/artist/5b11f4ce-a62d-471e-81fc-a69a8278c7da?fmt=json"
SEARCH = "https://musicbrainz.org/ws/2/release-group?fmt=json&query=x"
NOON = "Tue, 01 Sep 2026 12:00:00 GMT"
NOON_EPOCH = 1788264000
OURS = "Your requests are exceeding the allowable rate limit. Please see the documentation."
BUSY = "The MusicBrainz web server is currently busy. Please try again later."


def error(status: int, text: str, **headers: str) -> Answer:
    return answer(status, {"error": text, "help": "For usage, please see the documentation."}, LOOKUP, **headers)


SHED = {"x_ratelimit_who": "search-shed", "x_ratelimit_zone": "search-global", "x_ratelimit_remaining": "12"}
SLOW_DOWN, THEIRS = "retriable/throttled/target", "retriable/overloaded/target"

CASES = [
    Case("200, an artist", answer(200, {"id": "x", "name": "Nirvana"}, LOOKUP), GOOD),
    Case("400 Invalid mbid.", error(400, "Invalid mbid."), "fatal/item/item", "bad_request", "status:400"),
    Case("404 Not Found (a normal answer)", error(404, "Not Found"), GOOD, rule="unknown-id"),
    Case("404 inside an exception", Refused(error(404, "Not Found")), GOOD, rule="unknown-id"),
    Case("404 in a message", RuntimeError("musicbrainz returned status 404"), GOOD, rule="unknown-id"),
    Case("404 to a search", answer(404, {"error": "Not Found"}, SEARCH), "retriable/transient/target", "no_service",
         "not-the-service"),
    Case("404 HTML: not the web service at all", page(404), "retriable/transient/target", "html_answer", "web-page"),
    Case("401, user data only", error(401, "Authorization required"), "fatal/config/operation", "misconfigured",
         "user-data"),
    Case("503 exceeding the allowable rate limit (looks like an outage)", error(503, OURS), SLOW_DOWN, "rate_limited",
         "too-fast"),
    Case("the same, in a message", RuntimeError(OURS), SLOW_DOWN, "rate_limited", "too-fast"),
    Case("503 with X-RateLimit-Reset", error(503, OURS, x_ratelimit_reset=str(NOON_EPOCH + 4), date=NOON), SLOW_DOWN,
         "rate_limited", "too-fast", retry_after=4.0),
    Case("503 with a reset that is over", error(503, OURS, x_ratelimit_reset=str(NOON_EPOCH - 4), date=NOON), SLOW_DOWN,
         "rate_limited", "too-fast"),
    Case("503 with a reset and no Date", error(503, OURS, x_ratelimit_reset=str(NOON_EPOCH + 4)), SLOW_DOWN,
         "rate_limited", "too-fast"),
    Case("503 with a reset that is no number", error(503, OURS, x_ratelimit_reset="soon", date=NOON), SLOW_DOWN,
         "rate_limited", "too-fast"),
    Case("503 with both a reset and a longer Retry-After",
         error(503, OURS, x_ratelimit_reset=str(NOON_EPOCH + 4), date=NOON, retry_after="9"), SLOW_DOWN,
         "rate_limited", "too-fast", retry_after=9.0),
    Case("Retry-After: 0 on a 503", error(503, OURS, retry_after="0"), SLOW_DOWN, "rate_limited", "too-fast"),
    Case("Retry-After: 0 beside a reset",
         error(503, OURS, retry_after="0", x_ratelimit_reset=str(NOON_EPOCH + 2), date=NOON), SLOW_DOWN,
         "rate_limited", "too-fast", retry_after=2.0),
    Case("503 currently busy, search-shed (looks like our rate)", error(503, BUSY, **SHED), THEIRS, "overloaded",
         "shedding"),
    Case("503 of a global zone", error(503, BUSY, x_ratelimit_zone="search-global"), THEIRS, "overloaded",
         "global-limit"),
    Case("503 currently busy, no headers", error(503, BUSY), THEIRS, "overloaded", "busy"),
    Case("503 read-only database", error(503, "The database is in read-only mode"), THEIRS, "overloaded", "read-only"),
    Case("503 that nothing explains", answer(503, b"", LOOKUP), SLOW_DOWN, "rate_limited", "unexplained"),
    Case("503 whose body broke off", answer(503, b'{"error": "Your requests are exc', LOOKUP), SLOW_DOWN,
         "rate_limited", "unexplained"),
    Case("status 503 in a message", RuntimeError("musicbrainz returned status 503"), SLOW_DOWN, "rate_limited",
         "unexplained"),
    Case("500", answer(500, b"", LOOKUP), "retriable/transient/target", "upstream_failure", "status:500"),
    Case("connection dropped", ConnectionResetError("reset"), "retriable/transient/target", "network", "kind:reset"),
]  # fmt: skip


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_answer_means_what_musicbrainz_means_by_it(case: Case) -> None:
    check(case, PACK)
