"""No connection to a private address, whatever names, redirects and name servers say."""

from __future__ import annotations

import pytest

from tests.net.serving import OK, PRIVATE, PUBLIC, Canary, client, free_port, names, redirect, serving
from tidegate import classify, net
from tidegate.net.addresses import in_turns

pytestmark = pytest.mark.req("FEED-13")

CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


async def test_a_name_that_is_private_at_its_second_lookup_is_refused_then() -> None:
    async with serving(CLOSING, port=free_port()) as server:
        resolver = names(feed=[[PUBLIC], [PRIVATE]])
        with Canary(server.port) as canary:
            async with client(resolver=resolver) as fetching:
                url = f"http://feed.example:{server.port}/"
                assert (await fetching.get(url)).body == b"ok"
                with pytest.raises(net.BlockedAddress, match=r"feed\.example .*\b127\.0\.0\.1"):
                    await fetching.get(url)
            assert not canary.visited()
        assert server.connections == 1


async def test_a_connection_goes_to_the_address_that_was_checked_and_the_name_is_asked_for_once() -> None:
    async with serving(OK, port=free_port()) as server:
        resolver = names(feed=[[PUBLIC], [PRIVATE]])
        with Canary(server.port) as canary:
            async with client(resolver=resolver) as fetching:
                for _ in range(3):
                    await fetching.get(f"http://feed.example:{server.port}/")
            assert not canary.visited()
        assert resolver.asked == ["feed.example"]
        assert server.connections == 1
        assert f"Host: feed.example:{server.port}".encode() in server.requests[0]


@pytest.mark.parametrize("addresses", [[PUBLIC, PRIVATE], [PRIVATE, PUBLIC], [PUBLIC, "::1"], [PUBLIC, "10.0.0.1"]])
async def test_one_private_address_among_public_ones_refuses_them_all(addresses: list[str]) -> None:
    async with serving(OK, port=free_port()) as server:
        with Canary(server.port) as canary:
            async with client(resolver=names(feed=addresses)) as fetching:
                with pytest.raises(net.BlockedAddress):
                    await fetching.get(f"http://feed.example:{server.port}/")
            assert not canary.visited()
        assert server.connections == 0


@pytest.mark.parametrize(
    "host",
    [
        PRIVATE, "localhost", "inside.example", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]",
        "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "0", "0.0.0.0", "169.254.169.254",
        "127.0.0.1%23.feed.example", "feed.example@127.0.0.1", "127。0。0。1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("by", ["a redirect", "the address itself"])
async def test_neither_an_address_nor_a_redirect_leads_inside(host: str, by: str) -> None:
    async with serving(lambda _: redirect(f"http://{host}:{server.port}/"), port=free_port()) as server:
        start = "feed.example" if by == "a redirect" else host
        with Canary(server.port) as canary:
            async with client(resolver=names(feed=[PUBLIC], inside=[PRIVATE])) as fetching:
                with pytest.raises(net.Refused) as caught:
                    await fetching.get(f"http://{start}:{server.port}/")
            assert not canary.visited()
        fault = classify(caught.value)
        assert fault is not None
        assert fault.code == "bad_address"
        assert server.connections == (1 if by == "a redirect" else 0)


async def test_private_networks_are_reached_when_a_setting_allows_them() -> None:
    async with serving(OK, host=PRIVATE) as server, client(allow=["127.0.0.1/32"]) as fetching:
        assert (await fetching.get(f"http://{PRIVATE}:{server.port}/")).status == 200


async def test_ports_are_refused_unless_a_setting_allows_them() -> None:
    async with serving(OK) as server:
        async with client(ports=[80, 443]) as fetching:
            with pytest.raises(net.BadUrl, match=r"\b80, 443\b"):
                await fetching.get(f"http://{PUBLIC}:{server.port}/")
        async with client(ports=[server.port]) as fetching:
            assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).status == 200
        assert server.connections == 1


async def test_a_redirect_leads_to_no_port_that_is_not_allowed() -> None:
    with Canary(0, PUBLIC) as canary:
        onward = redirect(f"http://{PUBLIC}:{canary.port}/")
        async with serving(onward) as server, client(ports=[server.port]) as fetching:
            with pytest.raises(net.BadUrl, match=f"port {canary.port} of "):
                await fetching.get(f"http://{PUBLIC}:{server.port}/")
        assert not canary.visited()


async def test_a_proxy_in_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(OK) as server:
        with Canary(0) as canary:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://{PRIVATE}:{canary.port}")
            async with client() as fetching:
                assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).status == 200
            assert not canary.visited()


async def test_the_next_address_is_tried_when_nobody_listens_at_the_first() -> None:
    async with serving(OK) as server:
        resolver = names(feed=["127.0.0.3", PUBLIC])
        async with client(resolver=resolver, allow=["127.0.0.2/31"]) as fetching:
            assert (await fetching.get(f"http://feed.example:{server.port}/")).status == 200


@pytest.mark.parametrize(
    ("addresses", "order"),
    [
        ("6a 6b 6c 4a 4b", "6a 4a 6b 4b 6c"),
        ("4a 4b 6a", "4a 6a 4b"),
        ("4a 4b", "4a 4b"),
        ("", ""),
    ],
)
def test_both_families_are_tried_in_turns(addresses: str, order: str) -> None:
    as_addresses = {"6a": "2606::a", "6b": "2606::b", "6c": "2606::c", "4a": "1.1.1.1", "4b": "1.1.1.2"}
    tried = in_turns([as_addresses[each] for each in addresses.split()])
    assert tried == [as_addresses[each] for each in order.split()]


async def test_a_name_without_addresses_is_unreachable() -> None:
    async with client(resolver=names(empty=[[], []])) as fetching:
        for host in ("empty.example", "unknown.example"):
            with pytest.raises(net.Unreachable) as caught:
                await fetching.get(f"http://{host}/")
            fault = classify(caught.value)
            assert fault is not None
            assert fault.code == "network"
