"""Errors that look like one thing and are another, seen by a target as the loops have one: for all six services."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.apps.music.providers.building import Desk, Guarded, artists, fault_in, one_found, plays, rows
from tidegate import Fault
from tidegate_apps.music.provider import Operation, Provider
from tidegate_apps.music.registry import kinds

MINUTE = 60.0


def guarded(desk: Desk, name: str) -> Guarded:
    return Guarded(kinds()[name], desk.clock)


async def judged(guard: Guarded, provider: Provider, user: str = "ann") -> Fault | None:
    async def sync() -> None:
        await plays(provider)

    return await guard.believed(user, sync)


# Looks like an auth failure, is a database of theirs.


def refused_by_navidrome(desk: Desk, provider: Provider, where: str) -> Callable[[], Awaitable[object]]:
    """What meets the refusal: of the API of Subsonic inside a 200, or of the server's own, after a good login."""
    desk.sim.navidrome.now(*{"rest": ("code_40",), "native": ("refused", "scrobble")}[where])
    return provider.check if where == "rest" else lambda: plays(provider)


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("where", ["rest", "native"])
async def test_a_right_password_that_navidrome_refuses_in_passing_stops_nobody(desk: Desk, where: str) -> None:
    guard, provider = guarded(desk, "navidrome"), desk.provider("navidrome")
    work = refused_by_navidrome(desk, provider, where)
    first = await guard.believed("ann", work)
    assert first is not None
    assert (first.code, first.fatal) == ("upstream_failure", False)

    desk.sim.navidrome.now("well")
    desk.sim.navidrome.now("well", "scrobble")
    desk.clock.advance(MINUTE)
    assert await guard.believed("ann", work) is None


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("where", ["rest", "native"])
async def test_a_password_that_navidrome_refuses_twice_is_wrong(desk: Desk, where: str) -> None:
    guard, provider = guarded(desk, "navidrome"), desk.provider("navidrome")
    work = refused_by_navidrome(desk, provider, where)
    await guard.believed("ann", work)
    desk.clock.advance(MINUTE)
    second = await guard.believed("ann", work)
    assert second is not None
    assert (second.code, second.reason, second.reach) == ("unauthorized", "auth", "credential")


# Looks like an auth failure, is another generation of the API, or a privacy setting.


async def test_a_removed_call_of_spotify_asks_nobody_to_reconnect(desk: Desk) -> None:
    guard, provider = guarded(desk, "spotify"), desk.provider("spotify")
    desk.sim.spotify.now("forbidden", "recently-played")
    found = await judged(guard, provider)
    assert found is not None
    assert (found.reason, found.reach) == ("config", "operation")
    assert await guard.check(provider, "ann") is None, "the account is well"


async def test_a_hidden_history_of_lastfm_asks_nobody_to_reconnect(desk: Desk) -> None:
    guard, provider = guarded(desk, "lastfm"), desk.provider("lastfm")
    desk.sim.lastfm.hidden.add("ann")
    found = await judged(guard, provider)
    assert found is not None
    assert (found.reason, found.reach) == ("config", "operation")
    assert await guard.check(provider, "ann") is None


# Looks like revoked access, is an outage of everybody.


async def test_many_revocations_within_minutes_are_an_outage_of_spotify(desk: Desk) -> None:
    guard = guarded(desk, "spotify")
    providers = {f"user{number}": desk.provider("spotify", user=f"user{number}") for number in range(6)}
    for user in providers:
        desk.sim.spotify.accounts.end_access(user)
    desk.sim.spotify.now("mass_invalid_grant", "token")
    codes = []
    for user, provider in providers.items():
        found = await guard.check(provider, user)
        codes.append(None if found is None else found.fatal)
        desk.clock.advance(10)
    assert codes[2:] == [False] * 4, "those after the second are believed no more"
    assert desk.saved == [], "and no token is deleted"

    desk.sim.spotify.now("well", "token")
    desk.clock.advance("1h")
    for user, provider in list(providers.items())[2:]:
        assert await guard.check(provider, user) is None


async def test_one_revocation_alone_is_one(desk: Desk) -> None:
    guard, provider = guarded(desk, "spotify"), desk.provider("spotify")
    desk.sim.spotify.accounts.revoke("ann")
    found = await guard.check(provider, "ann")
    assert found is not None
    assert (found.code, found.fatal, found.reach) == ("grant_revoked", True, "credential")


# Looks like haste, is an empty purse.


@pytest.mark.parametrize(
    ("name", "fault", "reason"),
    [
        ("openai", "insufficient_quota", "quota"), ("openai", "credit_balance_exhausted", "quota"),
        ("openai", "organization_spend_limit_exceeded", "quota"), ("openai", "project_spend_limit_exceeded", "quota"),
        ("openai", "organization_usage_limit_exceeded", "quota"), ("openai", "rate_limit", "throttled"),
        ("spotify", "quota_exceeded", "quota"), ("spotify", "too_fast", "throttled"),
    ],
)  # fmt: skip
async def test_a_429_is_haste_or_an_empty_purse(desk: Desk, name: str, fault: str, reason: str) -> None:
    provider = desk.provider(name)
    desk.sim.services[name].now(fault)
    found = await fault_in(provider)
    assert found is not None
    assert (found.status, found.reason, found.reach) == (429, reason, "target")


# A 503 is our own haste, or their trouble.


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("too_fast", "throttled"), ("shedding", "overloaded"), ("read_only", "overloaded"), ("unexplained", "throttled")],
)
async def test_a_503_of_musicbrainz_is_ours_or_theirs(desk: Desk, fault: str, reason: str) -> None:
    provider = desk.provider("musicbrainz")
    desk.sim.musicbrainz.now(fault)
    found = await fault_in(provider)
    assert found is not None
    assert (found.status, found.reason, found.reach) == (503, reason, "target")
    assert not found.retry_after, "zero is no permission"


# Looks like success, is a failure.


@pytest.mark.parametrize(
    ("name", "fault", "code"),
    [
        ("navidrome", "code_0_internal", "upstream_failure"), ("navidrome", "page", "html_answer"),
        ("lastfm", "error_8_in_200", "upstream_failure"), ("lastfm", "error_17_in_xml", "listening_hidden"),
        ("lastfm", "page", "html_answer"), ("spotify", "page", "html_answer"), ("musicbrainz", "page", "html_answer"),
        ("fanart", "error_in_200", "upstream_failure"), ("fanart", "page", "html_answer"),
        ("openai", "quota_in_200", "quota_exhausted"), ("openai", "page", "html_answer"),
    ],
)  # fmt: skip
async def test_a_200_may_be_a_failure(desk: Desk, name: str, fault: str, code: str) -> None:
    provider = desk.provider(name)
    desk.sim.services[name].now(fault)
    found = await fault_in(provider, provider.playlists if fault == "code_0_internal" else None)
    assert found is not None
    assert found.code == code


async def test_a_web_page_is_a_wrong_address_until_it_has_worked_and_a_hiccup_afterwards(desk: Desk) -> None:
    guard, provider = guarded(desk, "navidrome"), desk.provider("navidrome")
    desk.sim.navidrome.now("page")
    found = await guard.check(provider, "ann")
    assert found is not None
    assert (found.code, found.fatal) == ("bad_address", True)

    guard = guarded(desk, "navidrome")
    desk.sim.navidrome.now("well")
    assert await guard.check(provider, "ann") is None
    desk.sim.navidrome.now("page")
    found = await guard.check(provider, "ann")
    assert found is not None
    assert (found.code, found.fatal) == ("html_answer", False)


# Looks like not found, is a normal answer.


@pytest.mark.parametrize(
    ("name", "fault", "operation"), [("fanart", "not_found", Operation.ART), ("musicbrainz", "unknown", Operation.IDS)]
)
async def test_a_404_may_be_the_normal_answer(desk: Desk, name: str, fault: str, operation: Operation) -> None:
    guard, provider = guarded(desk, name), desk.provider(name)
    desk.sim.services[name].now(fault)
    assert one_found(await rows(provider.enrich(operation, artists(0, mbids=True)))).nothing
    assert await guard.check(provider, "ann") is None, "and it counts as a success"


# Looks like another contract, is a body that broke off.


@pytest.mark.parametrize("name", sorted(kinds()))
@pytest.mark.parametrize("fault", ["cut", "cut_unseen", "bad_gzip", "resets_in_the_middle"])
async def test_a_body_that_broke_off_is_no_other_contract(desk: Desk, name: str, fault: str) -> None:
    guard, provider = guarded(desk, name), desk.provider(name)
    desk.sim.services[name].now(fault)
    found = await guard.check(provider, "ann")
    assert found is not None
    assert (found.reason, found.fatal) == ("transient", False)


async def test_lastfm_does_not_know_a_user_in_passing(desk: Desk) -> None:
    guard, provider = guarded(desk, "lastfm"), desk.provider("lastfm")
    desk.sim.lastfm.next("error_6")
    found = await guard.check(provider, "ann")
    assert found is not None
    assert not found.fatal
    desk.clock.advance(MINUTE)
    assert await guard.check(provider, "ann") is None
    desk.sim.lastfm.now("error_6")
    codes = []
    for _ in range(2):
        found = await guard.check(provider, "ann")
        codes.append(None if found is None else (found.code, found.fatal))
        desk.clock.advance(MINUTE)
    assert codes == [("upstream_failure", False), ("unknown_user", True)]
