"""Who the client is behind proxies: only trusted ones are believed, and only for the hop before them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from tidegate.web.proxies import PEER, apply_forwarding, client_networks, parse_networks

TRUSTED = parse_networks(["127.0.0.1", "::1", "10.0.0.0/8", "2001:db8:1::/48"])


def scope_of(peer: str | None, *headers: tuple[str, str]) -> dict[str, Any]:
    made = {
        "type": "http", "scheme": "http", "path": "/", "client": None if peer is None else (peer, 4711),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }  # fmt: skip
    apply_forwarding(made, TRUSTED)
    return made


def client_of(peer: str | None, *forwarded: str) -> str | None:
    client = scope_of(peer, *(("X-Forwarded-For", each) for each in forwarded))["client"]
    return None if client is None else str(client[0])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.5", ["198.51.100.7"], "203.0.113.5"),  # anyone may write the header
        ("127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:127.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("127.0.0.1", ["6.6.6.6, 198.51.100.7"], "198.51.100.7"),  # the left one was written by the client
        ("127.0.0.1", ["6.6.6.6", "198.51.100.7, 10.2.3.4"], "198.51.100.7"),
        ("127.0.0.1", ["6.6.6.6, 10.1.1.1, 10.2.3.4"], "6.6.6.6"),
        ("127.0.0.1", ["10.1.1.1, 10.2.3.4"], "10.1.1.1"),  # all are trusted: the first one sent it
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", ["unknown"], "127.0.0.1"),
        ("127.0.0.1", ["198.51.100.7, garbage, 10.2.3.4"], "10.2.3.4"),
        ("127.0.0.1", ["198.51.100.7:5000"], "198.51.100.7"),
        ("127.0.0.1", ["[2001:db8:2::7]:5000"], "2001:db8:2::7"),
        ("127.0.0.1", ["2001:db8:2::7"], "2001:db8:2::7"),
        ("127.0.0.1", ["198.51.100.7, 2001:db8:1::9"], "198.51.100.7"),
        ("127.0.0.1", ["2130706433"], "127.0.0.1"),
        ("127.0.0.1", ["é"], "127.0.0.1"),
        (None, ["198.51.100.7"], None),
    ],
)
def test_the_client_is_the_rightmost_hop_that_is_no_trusted_proxy(
    peer: str | None, forwarded: list[str], client: str | None
) -> None:
    assert client_of(peer, *forwarded) == client


def test_the_peer_stays_known() -> None:
    assert scope_of("127.0.0.1", ("X-Forwarded-For", "198.51.100.7"))[PEER] == ("127.0.0.1", 4711)


@pytest.mark.parametrize(
    ("peer", "values", "scheme"),
    [("127.0.0.1", ["https"], "https"), ("127.0.0.1", ["HTTPS"], "https"), ("127.0.0.1", ["http, https"], "https"),
     ("127.0.0.1", ["https", "http"], "http"), ("127.0.0.1", ["wss"], "http"), ("127.0.0.1", [""], "http"),
     ("127.0.0.1", [], "http"), ("203.0.113.5", ["https"], "http")],
)  # fmt: skip
def test_only_a_trusted_proxy_says_that_the_page_is_on_https(peer: str, values: list[str], scheme: str) -> None:
    assert scope_of(peer, *(("X-Forwarded-Proto", each) for each in values))["scheme"] == scheme


@pytest.mark.parametrize(
    ("address", "networks"),
    [
        ("203.0.113.5", ("203.0.113.5/32", "203.0.113.0/24")),
        ("::ffff:203.0.113.5", ("203.0.113.5/32", "203.0.113.0/24")),
        ("2001:db8:2::7", ("2001:db8:2::/64", "2001:db8:2::/56", "2001:db8:2::/48")),
        ("2001:db8:2:1ff::8", ("2001:db8:2:1ff::/64", "2001:db8:2:100::/56", "2001:db8:2::/48")),
        ("nonsense", ("unknown",)),
        (None, ("unknown",)),
    ],
)
def test_limits_count_the_networks_that_one_client_may_own(address: str | None, networks: tuple[str, ...]) -> None:
    scope: dict[str, Any] = {"type": "http", "headers": [], "client": None if address is None else (address, 1)}
    assert client_networks(Request(scope)) == networks
