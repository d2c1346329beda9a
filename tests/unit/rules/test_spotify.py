"""Spotify: the Web API and the token endpoint."""

from __future__ import annotations

import pytest

from tests.unit.rules.case import GOOD, Answer, Case, Refused, answer, check, page
from tidegate.rules import spotify

PACK = spotify
API = "https://api.spotify.com/v1/me/player/recently-played"
TOKEN = "https://accounts.spotify.com/api/token"
OLD_TRACKS = "https://api.spotify.com/v1/playlists/37i9/tracks?limit=50"


def refused(status: int, message: str, url: str = API, reason: str | None = None, **headers: str) -> Answer:
    error: dict[str, object] = {"status": status, "message": message}
    if reason:
        error["reason"] = reason
    return answer(status, {"error": error}, url, **headers)


def token(status: int, error: str, description: str = "") -> Answer:
    return answer(status, {"error": error, "error_description": description}, TOKEN)


PLAYED: dict[str, object] = {"items": [], "next": None, "cursors": None, "limit": 50}

CASES = [
    Case("200, nothing played", answer(200, PLAYED, API), GOOD),
    Case("204, private session", answer(204, b"", API), GOOD),
    Case("401 access token expired", refused(401, "The access token expired"), "fatal/auth/credential", "unauthorized",
         "status:401"),
    Case("401 Invalid access token", Refused(refused(401, "Invalid access token")), "fatal/auth/credential",
         "unauthorized", "status:401"),
    Case("token 400 invalid_grant, revoked", token(400, "invalid_grant", "Refresh token revoked"),
         "fatal/auth/credential", "grant_revoked", "grant-revoked"),
    Case("token 400 invalid_grant, invalid token", Refused(token(400, "invalid_grant", "Invalid refresh token")),
         "fatal/auth/credential", "grant_revoked", "grant-revoked"),
    Case("invalid_grant in a message", RuntimeError("error: invalid_grant, error_description: Refresh token revoked"),
         "fatal/auth/credential", "grant_revoked", "grant-revoked"),
    Case("token 404: another server", answer(404, b"", TOKEN), "retriable/transient/target", "no_service",
         "no-accounts"),
    Case("token 400 invalid_client", token(400, "invalid_client"), "fatal/config/target", "client_refused",
         "client-refused"),
    Case("token 401 invalid_client", token(401, "invalid_client", "Invalid client secret"), "fatal/config/target",
         "client_refused", "client-refused"),
    Case("token 429", answer(429, b"", TOKEN, retry_after="3"), "retriable/throttled/target", "rate_limited",
         "too-fast", retry_after=3.0),
    Case("token 500", answer(500, b"", TOKEN), "retriable/transient/target", "upstream_failure", "status:500"),
    Case("token 503", answer(503, b"", TOKEN), "retriable/overloaded/target", "overloaded", "status:503"),
    Case("token 400 invalid_request", token(400, "invalid_request"), "fatal/item/item", "bad_request", "status:400"),
    Case("403 Insufficient client scope", refused(403, "Insufficient client scope"), "fatal/auth/operation",
         "scope_missing", "scope-missing"),
    Case("403 Insufficient client scope, in a message",
         RuntimeError("spotify API returned status 403: Insufficient client scope"), "fatal/auth/operation",
         "scope_missing", "scope-missing"),
    Case("403 User not registered", refused(403, "User not registered in the Developer Dashboard"),
         "fatal/config/credential", "not_registered", "not-registered"),
    Case("403 Forbidden on a removed path (looks like auth)", refused(403, "Forbidden", OLD_TRACKS),
         "fatal/config/operation", "endpoint_removed", "endpoint-removed"),
    Case("403 Forbidden on /users/{id}/playlists",
         refused(403, "Forbidden", "https://api.spotify.com/v1/users/jo/playlists"), "fatal/config/operation",
         "endpoint_removed", "endpoint-removed"),
    Case("403 Forbidden on a playlist of Spotify's own",
         refused(403, "Forbidden", "https://api.spotify.com/v1/playlists/37i9/items"), "fatal/item/item", "not_shared",
         "foreign-playlist"),
    Case("403 Forbidden on such a playlist behind a gateway",
         refused(403, "Forbidden", "http://gateway.test/spotify/v1/playlists/37i9/items"), "fatal/item/item",
         "not_shared", "foreign-playlist"),
    Case("403 premium required", refused(403, "Player command failed: Premium required", reason="PREMIUM_REQUIRED"),
         "fatal/quota/operation", "premium_required", "premium-required"),
    Case("403 owner lapsed", refused(403, "Active premium subscription required for the owner of the app."),
         "fatal/quota/target", "owner_not_premium", "owner-not-premium"),
    Case("403 anything else", refused(403, "Bad OAuth request"), "fatal/auth/operation", "forbidden", "status:403"),
    Case("404 on one's own account", refused(404, "Not found.", "https://api.spotify.com/v1/me/playlists?limit=50"),
         "fatal/config/operation", "not_supported", "call-missing"),
    Case("404 on a playlist", refused(404, "Resource not found", "https://api.spotify.com/v1/playlists/37i9"),
         "fatal/item/item", "not_found", "status:404"),
    Case("429 + Retry-After s", refused(429, "API rate limit exceeded", retry_after="7"), "retriable/throttled/target",
         "rate_limited", "too-fast", retry_after=7.0),
    Case("429 with hours to wait", refused(429, "API rate limit exceeded", retry_after="86400"),
         "retriable/throttled/target", "rate_limited", "too-fast", retry_after=86400.0),
    Case("429 with Retry-After: 0", refused(429, "API rate limit exceeded", retry_after="0"),
         "retriable/throttled/target", "rate_limited", "too-fast"),
    Case("429 QUOTA_EXCEEDED (looks like a rate limit)", refused(429, "Quota exceeded", reason="QUOTA_EXCEEDED"),
         "fatal/quota/target", "quota_exhausted", "quota-exceeded"),
    Case("429 QUOTA_EXCEEDED in the words of a client",
         RuntimeError("http status: 429, code: -1 - /v1/me: Too many, reason: QUOTA_EXCEEDED"), "fatal/quota/target",
         "quota_exhausted", "quota-exceeded"),
    Case("429 whose body broke off", answer(429, b'{"error": {', API), "retriable/throttled/target", "rate_limited",
         "too-fast"),
    Case("500", refused(500, "Server error"), "retriable/transient/target", "upstream_failure", "status:500"),
    Case("502", answer(502, "Bad gateway.", API), "retriable/transient/target", "upstream_failure", "status:502"),
    Case("503", refused(503, "Service unavailable"), "retriable/overloaded/target", "overloaded", "status:503"),
    Case("403 HTML from the edge", page(403, API), "retriable/transient/target", "html_answer", "web-page"),
]  # fmt: skip


@pytest.mark.req("SYNC-04", "SYNC-16")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_answer_means_what_spotify_means_by_it(case: Case) -> None:
    check(case, PACK)


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("name", ["grant_revoked", "scope_missing"])
def test_who_can_mend_it_by_reconnecting_is_told_so(name: str) -> None:
    code = PACK.code_book[name]

    assert "reconnect" in f"{code.message} {code.advice}".lower()


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("name", ["not_registered", "endpoint_removed"])
def test_who_cannot_mend_it_by_reconnecting_is_told_so_too(name: str) -> None:
    assert "not help" in PACK.code_book[name].advice


@pytest.mark.req("SYNC-04")
def test_many_users_revoked_at_once_are_an_outage_and_one_is_believed_at_once() -> None:
    policy = next(each for each in PACK.confirm if each.code == "grant_revoked")

    assert (policy.times, policy.fewer_than, policy.within) == (1, 3, 300)
    assert not PACK.code_book[policy.until_then].fatal


@pytest.mark.req("SYNC-04", "SYNC-16")
def test_a_token_that_is_refused_right_after_a_good_refresh_is_doubted_once() -> None:
    policy = next(each for each in PACK.confirm if each.code == "unauthorized")

    assert (policy.times, policy.apart) == (2, 30)
    assert not PACK.code_book[policy.until_then].fatal
