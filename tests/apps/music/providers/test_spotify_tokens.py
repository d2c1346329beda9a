"""Spotify's tokens: renewed once, kept before they are used, deleted never."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.apps.music.providers.building import Desk, fault_in, lists, plays
from tidegate.testing import Step, VirtualClock
from tidegate_apps.music.provider import LoginRefused, Provider, ProviderConnection, ProviderContext, Returned
from tidegate_apps.music.registry import kinds, make_provider
from tidegate_demo.simulators.music import NOWHERE, MusicSimulator
from tidegate_demo.simulators.music.spotify import SCOPES

TOKEN, ME = "POST /spotify/api/token", "GET /spotify/v1/me"
KIND = kinds()["spotify"]
BACK = "http://tidegate.test/callback"


def back_with(desk: Desk, answer: Mapping[str, str], verifier: str) -> Returned:
    return Returned(answer=answer, redirect=BACK, verifier=verifier, context=desk.there())


def provider_of(values: Mapping[str, str], there: ProviderContext) -> Provider:
    found = make_provider(KIND, ProviderConnection(user="ann", provider="spotify", values=values), there)
    assert found is not None
    return found


@pytest.mark.req("SYNC-16")
async def test_a_401_renews_once_and_replays_once(desk: Desk) -> None:
    provider = desk.provider("spotify")
    desk.sim.spotify.accounts.end_access("ann")
    await provider.check()
    assert (desk.sim.count(ME), desk.sim.count(TOKEN)) == (2, 1)
    old, new = (each.headers["authorization"] for each in desk.sim.asked(ME))
    assert old != new
    await provider.check()
    assert (desk.sim.count(ME), desk.sim.count(TOKEN)) == (3, 1)


@pytest.mark.req("SYNC-16")
async def test_a_401_after_a_good_renewal_is_not_answered_with_another(desk: Desk) -> None:
    provider = desk.provider("spotify")
    desk.sim.spotify.now("token_invalid", "recently-played")
    found = await fault_in(provider)
    assert found is not None
    assert (found.code, desk.sim.count(TOKEN)) == ("unauthorized", 1)
    assert desk.sim.count("GET /spotify/v1/me/player/recently-played") == 2


@pytest.mark.req("SYNC-16")
@pytest.mark.parametrize(
    ("fault", "code", "fatal"),
    [
        ("well", "grant_revoked", True), ("invalid_client", "client_refused", True),
        ("token_too_fast", "rate_limited", False), ("token_broken", "overloaded", False), ("resets", "network", False),
        ("cut", "cut_short", False), ("broken", "upstream_failure", False),
    ],
)  # fmt: skip
async def test_a_refused_renewal_is_fatal_and_no_other_failure_of_it_is(
    desk: Desk, fault: str, code: str, fatal: bool
) -> None:
    values = desk.values("spotify")
    provider = provider_of(values, desk.there())
    if fault == "well":
        desk.sim.spotify.accounts.revoke("ann")
    else:
        desk.sim.spotify.accounts.end_access("ann")
        desk.sim.spotify.now(fault, "token")
    found = await fault_in(provider)
    assert found is not None
    assert (found.code, found.fatal) == (code, fatal)
    assert desk.saved == [], "no token is deleted or changed"

    if not fatal:
        desk.sim.spotify.now("well", "token")
        await provider.check()


@pytest.mark.req("SYNC-16")
@pytest.mark.parametrize("rotates", [True, False])
async def test_new_tokens_are_kept_before_they_are_used(desk: Desk, rotates: bool) -> None:
    desk.sim.spotify.accounts.rotates = rotates
    values = desk.values("spotify")
    asked_before: list[int] = []

    async def save(changes: Mapping[str, str]) -> None:
        asked_before.append(desk.sim.count(ME))
        desk.saved.append(changes)

    desk.sim.spotify.accounts.end_access("ann")
    await provider_of(values, replace(desk.there(), save=save)).check()

    assert asked_before == [1], "the call had been refused, and was not repeated yet"
    [saved] = desk.saved
    assert ("refresh_token" in saved) == rotates, "one that does not come again stays as it is"
    assert saved["access_token"] != values["access_token"]
    assert float(saved["expires_at"]) == pytest.approx(desk.clock.now() + 3600, abs=1)

    desk.sim.spotify.accounts.end_access("ann")
    await provider_of({**values, **saved}, desk.there()).check()


@pytest.mark.req("SYNC-16")
async def test_a_token_that_could_not_be_kept_is_kept_at_the_next_call_and_not_lost(desk: Desk) -> None:
    desk.sim.spotify.accounts.rotates = True
    full = [OSError("no room on the disk")]

    async def save(changes: Mapping[str, str]) -> None:
        if full:
            raise full.pop()
        desk.saved.append(changes)

    provider = provider_of(desk.values("spotify"), replace(desk.there(), save=save))
    desk.sim.spotify.accounts.end_access("ann")
    with pytest.raises(OSError, match="no room"):
        await provider.check()
    assert (desk.sim.count(ME), desk.sim.count(TOKEN)) == (1, 1), "it was not used"
    await provider.check()
    assert (desk.sim.count(TOKEN), len(desk.saved)) == (1, 1), "rotated away, another could not have been asked for"


@pytest.mark.req("SYNC-16")
async def test_calls_that_are_refused_together_renew_once(desk: Desk) -> None:
    desk.sim.spotify.accounts.rotates = True
    provider = desk.provider("spotify")
    desk.sim.spotify.accounts.end_access("ann")
    await asyncio.gather(plays(provider), lists(provider), provider.check())
    assert (desk.sim.count(TOKEN), len(desk.saved)) == (1, 1)


@pytest.mark.req("SYNC-16")
def test_a_refusal_that_arrives_after_the_renewal_of_another_does_not_renew_again() -> None:
    clock = VirtualClock()
    sim = MusicSimulator(clock=clock)
    desk = Desk(sim, clock, sim.transport(), NOWHERE)
    provider = desk.provider("spotify")
    sim.spotify.accounts.end_access("ann")
    sim.then("GET /spotify/v1/me/playlists", Step(401, {"error": {"status": 401, "message": "expired"}}, delay=5))

    async def both() -> None:
        await asyncio.gather(lists(provider), provider.check())

    clock.run(both())
    assert (sim.count(TOKEN), len(desk.saved)) == (1, 1)


@pytest.mark.req("SYNC-15")
def test_a_renewal_that_hangs_is_given_up_so_soon_that_an_end_can_wait_for_it() -> None:
    clock = VirtualClock()
    sim = MusicSimulator(clock=clock)
    desk = Desk(sim, clock, sim.transport(), NOWHERE)
    provider = desk.provider("spotify")
    sim.spotify.accounts.end_access("ann")
    sim.then(TOKEN, Step(200, {}, delay=1000))
    began = clock.monotonic()

    async def ends() -> None:
        caller = asyncio.create_task(provider.check())
        await asyncio.sleep(5)
        caller.cancel()
        await provider.aclose()

    clock.run(ends())
    assert clock.monotonic() - began <= 20


@pytest.mark.req("SYNC-15", "SYNC-16")
async def test_a_renewal_whose_caller_was_stopped_is_brought_to_its_end(desk: Desk) -> None:
    desk.sim.spotify.accounts.rotates = True
    values = desk.values("spotify")
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def save(changes: Mapping[str, str]) -> None:
        begun.set()
        await go_on.wait()
        desk.saved.append(changes)

    provider = provider_of(values, replace(desk.there(), save=save))
    desk.sim.spotify.accounts.end_access("ann")
    call = asyncio.create_task(provider.check())
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    go_on.set()
    await provider.aclose()
    [saved] = desk.saved
    await provider_of({**values, **saved}, desk.there()).check()


async def test_a_token_that_is_about_to_end_is_renewed_before_it_is_refused(desk: Desk) -> None:
    provider = desk.provider("spotify")
    desk.clock.advance(3590)
    await provider.check()
    assert (desk.sim.count(ME), desk.sim.count(TOKEN)) == (1, 1)


async def test_without_a_refresh_token_a_401_is_final(desk: Desk) -> None:
    values = {name: value for name, value in desk.values("spotify").items() if name != "refresh_token"}
    desk.sim.spotify.accounts.end_access("ann")
    found = await fault_in(provider_of(values, desk.there()))
    assert found is not None
    assert (found.code, desk.sim.count(TOKEN)) == ("unauthorized", 0)


async def test_six_months_after_the_consent_it_ends_however_often_it_was_renewed(desk: Desk) -> None:
    values = desk.values("spotify")
    assert KIND.ends(values) == pytest.approx(desk.clock.now() + 182 * 86400, abs=1)
    assert KIND.ends({}) is None
    provider = provider_of(values, desk.there())
    for _ in range(6):
        desk.clock.advance("30d")
        await provider.check()
    desk.clock.advance("3d")
    found = await fault_in(provider)
    assert found is not None
    assert (found.code, found.fatal) == ("grant_revoked", True)


async def browser(url: str, say: str = "yes") -> dict[str, str]:
    """What a user does there; the query with which the browser comes back."""
    async with httpx2.AsyncClient(timeout=60) as client:
        page = await client.get(url)
        assert page.status_code == 200
        form = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        sent = await client.post(url.partition("?")[0], data={**form, "user": "ann", "say": say})
    assert sent.status_code == 302
    back = sent.headers["location"]
    assert back.startswith(BACK)
    return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}


@pytest.mark.parametrize("secret", ["rising tide", ""])
async def test_a_login_in_the_browser_connects_with_or_without_a_secret_of_the_app(desk: Desk, secret: str) -> None:
    values = {"client_id": "tidegate-simulated", "client_secret": secret}
    assert KIND.oauth is not None
    assert KIND.oauth.required
    begun = KIND.oauth.begin(values, redirect=BACK, state="s1", context=desk.there())
    assert begun.verifier not in begun.url
    assert parse_qs(urlsplit(begun.url).query)["scope"] == [SCOPES]
    answer = await browser(begun.url)
    assert answer["state"] == "s1"
    given = await KIND.oauth.finish(values, back_with(desk, answer, begun.verifier))
    assert float(given["authorized_at"]) == pytest.approx(desk.clock.now(), abs=1)
    await provider_of({**values, **given}, desk.there()).check()


@pytest.mark.parametrize("base", ["http://localhost:8321", "http://music.example.org"])
async def test_a_login_that_spotify_would_not_send_back_is_not_begun(desk: Desk, base: str) -> None:
    assert KIND.oauth is not None
    real = replace(desk.there(), addresses={})
    with pytest.raises(LoginRefused, match=r"https\b.* http://127\.0\.0\.1"):
        KIND.oauth.begin({"client_id": "x"}, redirect=f"{base}/music/back/spotify", state="s", context=real)
    for allowed in ("http://127.0.0.1:8321", "https://music.example.org"):
        assert KIND.oauth.begin({"client_id": "x"}, redirect=allowed, state="s", context=real).url


async def test_a_code_is_worth_nothing_without_the_verifier_and_only_once(desk: Desk) -> None:
    values = {"client_id": "tidegate-simulated"}
    assert KIND.oauth is not None
    for verifier, twice in (("another", False), ("", True)):
        begun = KIND.oauth.begin(values, redirect=BACK, state="s", context=desk.there())
        answer = await browser(begun.url)
        if twice:
            await KIND.oauth.finish(values, back_with(desk, answer, begun.verifier))
        with pytest.raises(Exception, match="invalid_grant"):
            await KIND.oauth.finish(values, back_with(desk, answer, verifier or begun.verifier))


async def test_a_user_who_says_no_is_not_connected(desk: Desk) -> None:
    values = {"client_id": "tidegate-simulated"}
    assert KIND.oauth is not None
    begun = KIND.oauth.begin(values, redirect=BACK, state="s", context=desk.there())
    with pytest.raises(LoginRefused, match="no permission"):
        await KIND.oauth.finish(values, back_with(desk, await browser(begun.url, "no"), begun.verifier))


async def test_it_is_not_there_before_somebody_has_connected_it(desk: Desk) -> None:
    assert desk.with_values("spotify", {"client_id": "x"}) is None
    assert desk.with_values("spotify", {"access_token": "x"}) is None
