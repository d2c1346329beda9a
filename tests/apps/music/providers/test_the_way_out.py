"""What is the same for all six: faults of the wire, bounds, credentials that stay where they belong."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.apps.music.providers.building import AGENT, Desk, fault_in, first_call, lists, rows
from tidegate import classify
from tidegate.testing import Step, VirtualClock
from tidegate_apps.music.client import ProviderClient, ProviderRequest, ServiceError
from tidegate_apps.music.parsing import WrongShape
from tidegate_apps.music.provider import Batch, Operation, ProviderKind
from tidegate_apps.music.registry import kinds
from tidegate_demo.simulators.music import NOWHERE, MusicSimulator

SIX = ("navidrome", "spotify", "lastfm", "musicbrainz", "fanart", "openai")

# What each fault of the wire is, whoever it comes from.
CODES = {
    "broken": "upstream_failure", "bad_gateway": "upstream_failure", "gateway_timeout": "upstream_failure",
    "unavailable": "overloaded", "throttled": "rate_limited", "throttled_until": "rate_limited",
    "throttled_zero": "rate_limited", "throttled_for_a_day": "rate_limited", "resets": "network",
    "resets_in_the_middle": "network", "no_http": "network", "cut": "cut_short", "cut_unseen": "cut_short",
    "bad_gzip": "cut_short", "empty": "cut_short", "page": "html_answer", "wrong_shape": "bad_answer",
    "huge": "parse_error", "elsewhere": "redirected",
}  # fmt: skip
OWN = {  # where the service means something else by it
    ("musicbrainz", "unavailable"): "rate_limited",
    ("lastfm", "wrong_shape"): "upstream_failure",
    # Of one entry alone, so that the others go on.
    ("musicbrainz", "huge"): None, ("fanart", "huge"): None, ("openai", "huge"): None,
}  # fmt: skip
IN_VIRTUAL_TIME = {"hangs": "timeout", "drips": "timeout"}


@pytest.mark.parametrize("name", SIX)
async def test_every_fault_of_the_wire_is_what_it_is(desk: Desk, name: str) -> None:
    provider = desk.provider(name)
    seen = {}
    for fault in CODES:
        desk.sim.services[name].next(*[fault] * 3)
        found = await fault_in(provider)
        seen[fault] = None if found is None else found.code
        desk.sim.services[name].begin()
        provider = desk.provider(name)
    assert seen == {fault: OWN.get((name, fault), code) for fault, code in CODES.items()}


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("fault", IN_VIRTUAL_TIME)
def test_no_call_lasts_longer_than_it_may(name: str, fault: str) -> None:
    clock = VirtualClock()
    sim = MusicSimulator(clock=clock)
    desk = Desk(sim, clock, sim.transport(), NOWHERE)
    sim.services[name].now(fault)

    found = clock.run(fault_in(desk.provider(name)))

    assert found is not None
    assert found.code == "timeout"
    assert clock.monotonic() <= (151 if name == "openai" else 61)


def test_all_faults_of_the_wire_are_in_one_of_the_tables() -> None:
    from tidegate_demo.simulators.music.base import ANY

    assert sorted([*CODES, *IN_VIRTUAL_TIME]) == sorted(ANY)
    assert sorted(kinds()) == sorted(SIX)


@pytest.mark.parametrize("name", SIX)
async def test_every_request_says_who_asks_and_how_to_reach_us(desk: Desk, name: str) -> None:
    provider = desk.provider(name)
    await provider.check()
    await first_call(provider)
    asked = desk.sim.asked()
    assert len(asked) >= 2
    assert {each.headers.get("user-agent") for each in asked} == {AGENT}


@pytest.mark.parametrize("name", SIX)
async def test_no_error_and_no_log_line_has_a_credential_in_it(
    desk: Desk, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    secret = {each.name for each in kinds()[name].fields if each.secret}
    for fault in ("well", "broken", "resets", "cut", "page", "elsewhere", "huge"):
        values = desk.values(name)
        provider = desk.with_values(name, values)
        assert provider is not None
        desk.sim.services[name].now(fault)
        for call in (provider.check, lambda provider=provider: first_call(provider)):
            shown = [*await said_by(call, kinds()[name]), caplog.text]
            for each in secret & values.keys():
                assert not [text for text in shown if values[each] in text], (fault, each)
        desk.sim.reset()


async def said_by(call: Callable[[], Awaitable[None]], kind: ProviderKind) -> list[str]:
    """All that is seen of the error of a call."""
    try:
        await call()
    except Exception as error:  # that is what is looked at
        request = getattr(error, "request", None) or getattr(getattr(error, "response", None), "request", None)
        assert request is None or set(request.url.params) <= {"method"}
        seen = (
            [] if request is None else [str(request.url), str(request.headers.multi_items()), str(request.extensions)]
        )
        return [str(error), repr(error), repr(classify(error, kind.rules)), *seen]
    return []


@pytest.mark.parametrize(("name", "secret"), [("navidrome", "password"), ("fanart", "api_key"), ("openai", "api_key")])
async def test_credentials_that_need_not_be_in_an_address_are_not(desk: Desk, name: str, secret: str) -> None:
    values = desk.values(name)
    provider = desk.with_values(name, values)
    assert provider is not None
    await first_call(provider)
    if kinds()[name].operations == (Operation.PLAYS, Operation.PLAYLISTS):
        await lists(provider)
    assert not [each for each in desk.sim.asked() if values[secret] in each.raw_query]


async def test_a_redirect_to_another_host_is_not_followed(desk: Desk) -> None:
    desk.sim.on("GET /elsewhere/{rest:path}", {"stolen": True})
    port = desk.sim.url.rpartition(":")[2]
    calls = ProviderClient("test", kinds()["openai"].rules, desk.there())
    for location in (
        f"http://localhost:{port}/elsewhere/x",
        "https://127.0.0.1/elsewhere/x",
        "//localhost/x",
        "http://[",
    ):
        desk.sim.on("GET /away", Step(302, b"", {"Location": location}))
        with pytest.raises(ServiceError) as caught:
            await calls.ask(ProviderRequest(url=f"{desk.base}/away", headers={"Authorization": "Bearer secret"}))
        fault = calls.verdict(caught.value)
        assert fault is not None
        assert (fault.code, fault.fatal) == ("redirected", True)
    assert desk.sim.count("GET /elsewhere/{rest:path}") == 0


async def test_a_redirect_within_one_server_is_followed_a_few_times(desk: Desk) -> None:
    desk.sim.on("GET /hop/{left}", lambda asked: Step(302, b"", {"Location": f"/hop/{int(asked.params['left']) - 1}"}))
    desk.sim.on("GET /hop/0", lambda asked: {"authorization": asked.headers.get("authorization")})
    calls = ProviderClient("test", kinds()["openai"].rules, desk.there())

    answer = await calls.ask(ProviderRequest(url=f"{desk.base}/hop/3", headers={"Authorization": "Bearer mine"}))
    assert answer.json == {"authorization": "Bearer mine"}
    with pytest.raises(ServiceError):
        await calls.ask(ProviderRequest(url=f"{desk.base}/hop/4"))


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"name": "\xff\xfe"}', b"[" + b"1" * 5000 + b"]"],
    ids=["too deep", "no text", "too long"],
)
async def test_what_json_cannot_be_is_a_wrong_shape(desk: Desk, body: bytes) -> None:
    desk.sim.on("GET /odd", Step(200, body, {"Content-Type": "application/json"}))
    calls = ProviderClient("test", kinds()["openai"].rules, desk.there())
    with pytest.raises((WrongShape, json.JSONDecodeError)) as caught:
        await calls.ask(ProviderRequest(url=f"{desk.base}/odd"))
    fault = calls.verdict(caught.value)
    assert fault is not None
    assert fault.code in ("bad_answer", "cut_short")


async def test_cookies_of_one_user_do_not_reach_another(desk: Desk) -> None:
    desk.sim.on("GET /biscuit", Step(200, {}, {"Set-Cookie": "who=ann; Path=/"}))
    pack = kinds()["openai"].rules
    first, second = ProviderClient("test", pack, desk.there()), ProviderClient("test", pack, desk.there())
    await first.ask(ProviderRequest(url=f"{desk.base}/biscuit"))
    await second.ask(ProviderRequest(url=f"{desk.base}/biscuit"))
    assert [each.headers.get("cookie") for each in desk.sim.asked("GET /biscuit")] == ["", ""]


async def test_closing_a_provider_leaves_the_transport_to_the_others(desk: Desk) -> None:
    first, second = desk.provider("lastfm"), desk.provider("musicbrainz")
    await first.aclose()
    await second.check()


@pytest.mark.parametrize("name", SIX)
async def test_what_a_kind_does_not_list_cannot_be_asked_of_its_provider(desk: Desk, name: str) -> None:
    provider, offered = desk.provider(name), kinds()[name].operations
    calls: dict[Operation, Callable[[], AsyncIterator[Batch[Any]]]] = {
        Operation.PLAYS: lambda: provider.plays(None),
        Operation.PLAYLISTS: provider.playlists,
    }
    if not set(offered) - calls.keys():
        calls[Operation.TAGS] = lambda: provider.enrich(Operation.TAGS, [])
    for operation in calls.keys() - set(offered):
        with pytest.raises(NotImplementedError, match="has no"):
            await rows(calls[operation]())
