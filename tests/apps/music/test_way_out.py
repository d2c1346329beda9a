"""Where the addresses that users enter may lead."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading

import httpx2
import pytest

from tests.apps.music.providers.building import Desk, fault_in, lists
from tests.apps.music.providers.conftest import desk, running  # noqa: F401 - fixtures
from tidegate import net
from tidegate_apps.music.registry import WrongValue, enter_values, kinds
from tidegate_apps.music.transport import (
    ENTERED,
    HOME,
    LOOPBACK_REFUSED,
    NEVER_ALLOWED,
    AddressCheckedTransport,
    server,
    why_not,
)

LOGIN = {"user": "ann", "password": "low tide"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://music.example.org", "https://music.example.org"),
        (" HTTPS://Music.Example.ORG:443/ ", "https://music.example.org"),
        ("https://music.example.org/app/#/album/all?sort=name", "https://music.example.org"),
        ("http://nas.local:4533/music/app/", "http://nas.local:4533/music"),
        ("http://[::1]:4533", "http://[::1]:4533"),
        ("http://müsic.example", "http://xn--msic-0ra.example"),
    ],
)
def test_an_address_is_kept_without_what_leads_into_the_pages_of_the_server(given: str, kept: str) -> None:
    assert server(given) == kept
    navidrome = kinds()["navidrome"]
    assert enter_values(navidrome, {"url": given, **LOGIN})["url"] == kept
    assert navidrome.counted({"url": given}) == kept


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("music.example.org", "url: "),
        ("file:///etc/passwd", "url: "),
        ("http:///rest", "url: "),
        ("https://ann:low%20tide@music.example.org", "url: "),
        ("http://10.0.0.1/admin?x=", "url: "),
        ("http://10.0.0.1/admin?", "url: "),
        ("http://10.0.0.1/a b", "url: "),
        ("http://music.example.org:port", "url: "),
    ],
)
def test_an_address_that_would_lead_elsewhere_is_refused_by_name(given: str, said: str) -> None:
    with pytest.raises(WrongValue, match=said):
        enter_values(kinds()["navidrome"], {"url": given, **LOGIN})


THIS_HOST = net.why_blocked("0.0.0.0", net.Networks())


@pytest.mark.parametrize(
    ("address", "home", "public_only"),
    [
        ("93.184.215.14", None, None),
        ("192.168.1.7", None, "private"),
        ("127.0.0.1", LOOPBACK_REFUSED, LOOPBACK_REFUSED),
        ("::1", LOOPBACK_REFUSED, LOOPBACK_REFUSED),
        ("fd12::7", None, "private"),
        ("169.254.169.254", NEVER_ALLOWED, NEVER_ALLOWED),
        ("::ffff:169.254.169.254", NEVER_ALLOWED, NEVER_ALLOWED),
        ("64:ff9b::a9fe:a9fe", NEVER_ALLOWED, NEVER_ALLOWED),
        ("fd00:ec2::254", NEVER_ALLOWED, NEVER_ALLOWED),
        ("100.100.100.200", NEVER_ALLOWED, NEVER_ALLOWED),
        ("fe80::1", NEVER_ALLOWED, NEVER_ALLOWED),
        ("0.0.0.0", THIS_HOST, THIS_HOST),
    ],
)
def test_no_setting_opens_where_machines_learn_of_themselves(
    address: str, home: str | None, public_only: str | None
) -> None:
    assert why_not(address, net.Networks(HOME)) == home
    assert why_not(address, net.Networks()) == public_only
    everything = why_not(address, net.Networks(["0.0.0.0/0", "::/0"]))
    assert (everything is None) is (home != NEVER_ALLOWED)


async def test_only_what_was_checked_is_connected_to_whatever_the_name_says_later(desk: Desk) -> None:  # noqa: F811
    looks: list[str] = []

    async def look_up(host: str, port: int) -> list[str]:
        looks.append(f"{host}:{port}")
        return ["127.0.0.1" if len(looks) == 1 else "169.254.169.254"]

    port = desk.base.rpartition(":")[2]
    async with AddressCheckedTransport(look_up=look_up) as way:
        named = Desk(desk.sim, desk.clock, way, f"http://music.test:{port}")
        provider = named.provider("navidrome")
        await provider.check()
        await provider.check()  # by the same connection
        asked = desk.sim.asked("* /navidrome/rest/ping")[-1]
        assert (looks, asked.headers["host"]) == ([f"music.test:{port}"], f"music.test:{port}")

    async with AddressCheckedTransport(look_up=look_up) as way:
        named = Desk(desk.sim, desk.clock, way, f"http://music.test:{port}")
        with pytest.raises(net.BlockedAddress, match=r"music\.test .*\b169\.254\.169\.254"):
            await named.provider("navidrome").check()
    assert len(desk.sim.asked("* /navidrome/rest/ping")) == 2


async def test_a_private_server_of_a_user_is_not_called_where_the_settings_forbid_it(desk: Desk) -> None:  # noqa: F811
    async with AddressCheckedTransport() as way:
        closed = Desk(desk.sim, desk.clock, way, desk.base, loopback=False)
        provider = closed.provider("navidrome")
        with pytest.raises(net.BlockedAddress, match=r"music\.server_networks"):
            await lists(provider)
        fault = await fault_in(provider, provider.playlists)
        assert fault is not None
        assert fault.fatal
        # Where the operator has said where a service is, that is meant.
        await closed.provider("lastfm").check()
    assert desk.sim.asked("* /navidrome/*") == []


async def test_a_name_that_leads_to_this_machine_is_refused_unless_who_entered_it_may(desk: Desk) -> None:  # noqa: F811
    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    port = desk.base.rpartition(":")[2]
    async with AddressCheckedTransport(look_up=look_up) as way:
        for loopback in (False, True):
            named = Desk(desk.sim, desk.clock, way, f"http://music.test:{port}", loopback=loopback)
            check = named.provider("navidrome").check()
            if loopback:
                await check
            else:
                with pytest.raises(net.BlockedAddress, match=r"music\.server_networks"):
                    await check
    assert len(desk.sim.asked("* /navidrome/rest/ping")) == 1


async def test_what_is_costly_of_a_way_out_is_made_when_it_is_needed_and_once(
    desk: Desk,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ssl.SSLContext] = []
    real = httpx2.create_ssl_context

    def counted() -> ssl.SSLContext:
        made.append(real())
        return made[-1]

    monkeypatch.setattr(httpx2, "create_ssl_context", counted)
    async with AddressCheckedTransport():
        assert made == []
    for _ in range(2):
        async with AddressCheckedTransport() as way:
            here = Desk(desk.sim, desk.clock, way, desk.base)
            await here.provider("navidrome").check()
            await here.provider("lastfm").check()
    assert len(made) <= 1


def to(host: str) -> httpx2.Request:
    """A request to a server whose address a user has entered."""
    return httpx2.Request("GET", f"http://{host}/", extensions={ENTERED: True})


async def test_names_that_nobody_answers_for_hold_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def silent(*_: object, **__: object) -> list[object]:
        answered.wait(60)
        raise OSError("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    async with AddressCheckedTransport() as way:
        asked = [asyncio.create_task(way.handle_async_request(to(f"m{n}.example"))) for n in range(50)]
        try:
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "work of ours"), 30) == "work of ours"
        finally:
            answered.set()
            ended = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(each) for each in ended} == {httpx2.ConnectError}


async def test_a_name_that_cannot_be_one_is_no_mistake_of_ours() -> None:
    async with AddressCheckedTransport() as way:
        with pytest.raises(httpx2.ConnectError, match=r"mmm\.example"):
            await way.handle_async_request(to(f"{'m' * 70}.example"))
