"""Reverse proxies: detect them, trust their headers, and find the client behind them.

A request is local only if no proxy forwarded it. A proxy on the same machine also connects from a loopback address, so
the address alone proves nothing. Headers betray most proxies, and the account that opened the connection the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from tidegate.web.peers import Endpoint, opened_by_login

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PEER = "tidegate.peer"  # in the scope: the address that connected, whatever a proxy reports
PEER_FACTS = "tidegate.peer_facts"  # in the scope: a dict that all requests of one connection share
BY_LOGIN = "by_login"  # in that dict: whether a login account opened the connection

# Headers that proxies, load balancers and CDNs add, and browsers do not. In lower case, with "-" for "_".
FORWARDING_HEADERS = frozenset({
    "via", "client-ip", "true-client-ip", "proxy-client-ip", "wl-proxy-client-ip", "x-proxyuser-ip", "x-host",
    "x-request-from", "x-originating-ip", "x-scheme", "x-varnish", "cdn-loop", "front-end-https", "x-arr-ssl",
    "x-bluecoat-via", "x-cloud-trace-context", "proxy-connection", "x-iinfo",
})  # fmt: skip
FORWARDING_PREFIXES = (
    "forwarded", "x-forwarded", "x-real-", "x-client-", "x-cluster-", "x-original-", "x-remote-", "x-envoy-",
    "x-proxy-", "x-appengine-", "x-azure-", "x-amz-cf-", "x-amzn-", "x-auth-request-", "x-nf-", "x-vercel-", "cf-",
    "fastly-", "fly-", "tailscale-", "remote-", "akamai-", "x-akamai-", "incap-", "x-sucuri-", "x-ssl-", "ssl-client-",
)  # fmt: skip

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?", re.ASCII)
_HOP = re.compile(r"\[(?P<v6>[0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?|(?P<v4>[0-9.]+):[0-9]{1,5}", re.ASCII)
_MAX_HOPS = 50


def is_forwarding_header(name: str) -> bool:
    """Whether a header shows that a proxy forwarded the request."""
    plain = name.lower().replace("_", "-")
    return plain in FORWARDING_HEADERS or plain.startswith(FORWARDING_PREFIXES)


def host_name(headers: Headers) -> str | None:
    """Return the name in the Host header without brackets and port. None unless there is exactly one valid header."""
    hosts = headers.getlist("host")
    match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    return None if match is None else match["name"].lower().strip("[]").rstrip(".")


def is_loopback_name(name: str) -> bool:
    """Whether a host name always means this machine: localhost, or a loopback address in its usual notation."""
    address = parse_address(name)
    return name == "localhost" or (address is not None and address.is_loopback)


def parse_address(text: str) -> Address | None:
    """Parse an IP address and drop its zone. An IPv4-mapped IPv6 address becomes IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def parse_networks(written: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks in CIDR notation and single addresses. ValueError names an invalid one."""
    return tuple(ip_network(network) for network in written)


def is_local(scope: Scope) -> bool:
    """Whether a program of a login account on this machine sent the request, without a proxy. May read a file.

    Only HTTP/1.1 counts as local: browsers use no other version here. Older nginx uses HTTP/1.0 by default for upstream
    requests, with its own Host and without a forwarding header.
    """
    headers = Headers(scope=scope)
    peer = parse_address((scope.get(PEER) or scope.get("client") or ("",))[0])
    return (
        peer is not None
        and peer.is_loopback
        and scope.get("http_version") == "1.1"
        and is_loopback_name(host_name(headers) or "")
        and not any(is_forwarding_header(name) for name in headers)
        and _is_by_login(scope)
    )


def _is_by_login(scope: Scope) -> bool:
    """Whether a login account opened the connection. Looked up once per connection if PEER_FACTS is set."""
    known: dict[str, bool] = scope.get(PEER_FACTS, {})
    if BY_LOGIN not in known:
        near, far = _endpoint(scope.get(PEER) or scope.get("client")), _endpoint(scope.get("server"))
        by_login = None if near is None or far is None else opened_by_login(near, far)
        if by_login is None:
            return False
        known[BY_LOGIN] = by_login
    return known[BY_LOGIN]


def _endpoint(pair: tuple[str, int | None] | None) -> Endpoint | None:
    address = parse_address(pair[0]) if pair else None
    return None if pair is None or address is None or pair[1] is None else (address, pair[1])


def apply_forwarding(scope: Scope, trusted: Sequence[Network]) -> None:
    """Set the client and the scheme of a request from the forwarding headers, if the peer is a trusted proxy.

    The client is the rightmost address in X-Forwarded-For that is not a trusted proxy. The client itself may have
    written anything left of it.
    """
    peer = scope.get("client")
    scope[PEER] = peer
    if not peer or not _is_in(parse_address(peer[0]), trusted):
        return
    headers = Headers(scope=scope)
    hops = [hop for line in headers.getlist("x-forwarded-for") for hop in line.split(",")]
    client = peer[0]
    for hop in reversed(hops[-_MAX_HOPS:]):
        address = _parse_hop(hop.strip())
        if address is None:
            break  # the hop before it is the last known address
        client = str(address)
        if not _is_in(address, trusted):
            break
    scope["client"] = (client, 0 if client != peer[0] else peer[1])
    schemes = headers.getlist("x-forwarded-proto")
    scheme = schemes[-1].rpartition(",")[2].strip().lower() if schemes else ""
    if scheme in ("http", "https"):
        scope["scheme"] = scheme


def client_networks(request: Request) -> tuple[str, ...]:
    """Return the networks that rate limits count by, the smallest first. The n-th should get n times the limit.

    A provider gives one customer up to a /48 of IPv6: one limit per /64 would be 65,536 limits for one attacker.
    """
    address = parse_address(request.client.host if request.client else "")
    if address is None:
        return ("unknown",)
    widths = (64, 56, 48) if isinstance(address, IPv6Address) else (32, 24)
    return tuple(str(ip_network((address, width), strict=False)) for width in widths)


def _parse_hop(hop: str) -> Address | None:
    """Parse one entry of X-Forwarded-For, which may have a port."""
    with_port = _HOP.fullmatch(hop)
    return parse_address(hop if with_port is None else with_port["v6"] or with_port["v4"])


def _is_in(address: Address | None, networks: Sequence[Network]) -> bool:
    return address is not None and any(address in network for network in networks)
