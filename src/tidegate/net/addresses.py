"""Public and blocked IP addresses, and name resolution.

The table is our own because Python's `is_private` differs between releases.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import zip_longest

from tidegate.net.errors import BlockedAddress
from tidegate.threads import DaemonPool

_V4 = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "of this host itself"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared behind a provider"),
        ("127.0.0.0/8", "of this host itself"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for measurements"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

# Public IPv6 is 2000::/3 without these. Networks outside of it are listed for the message only.
_V6_PUBLIC = IPv6Network("2000::/3")
_V6 = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("2001::/32", "a Teredo tunnel"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3fff::/20", "for documentation"),
        ("::1/128", "of this host itself"),
        ("::/128", "of this host itself"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    )
)

# These embed an IPv4 address in their last 32 bits. That address decides.
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")


class Networks:
    """Networks that are allowed although they are not public: `Networks(["10.0.0.0/8", "fd00::/8"])`."""

    __slots__ = ("_v4", "_v6")

    def __init__(self, networks: Iterable[str] = ()) -> None:
        if isinstance(networks, str):
            raise TypeError(f"allow: {networks!r} is one text; give a list of networks")
        read = [_network(network) for network in networks]
        self._v4 = tuple(network for network in read if isinstance(network, IPv4Network))
        self._v6 = tuple(network for network in read if isinstance(network, IPv6Network))

    def __contains__(self, address: object) -> bool:
        if isinstance(address, IPv4Address):
            return any(address in network for network in self._v4)
        return isinstance(address, IPv6Address) and any(address in network for network in self._v6)

    def __repr__(self) -> str:
        return f"Networks([{', '.join(repr(str(each)) for each in (*self._v4, *self._v6))}])"


_NONE = Networks()


def why_blocked(address: str, allowed: Networks | None = None) -> str | None:
    """Returns the reason why *address* is blocked, or None if it is allowed. An invalid address is blocked."""
    allowed = allowed or _NONE
    try:
        ip = ip_address(address)
    except ValueError:
        return "no address"
    if isinstance(ip, IPv6Address):
        if ip.scope_id is not None:
            return "bound to a network card"
        if ip in allowed:
            return None
        if ip in _MAPPED or ip in _NAT64:
            ip = IPv4Address(int(ip) & 0xFFFF_FFFF)
    if isinstance(ip, IPv4Address):
        return None if ip in allowed else next((reason for network, reason in _V4 if ip in network), None)
    reason = next((reason for network, reason in _V6 if ip in network), None)
    return reason or (None if ip in _V6_PUBLIC else "reserved")


def _network(text: object) -> IPv4Network | IPv6Network:
    try:
        return ip_network(str(text))
    except ValueError as error:
        raise ValueError(
            f"allow: {text!r} is not a network ({error}); give one such as 10.0.0.0/8 or fd00::/8"
        ) from error


# -- name resolution ---------------------------------------------------------------------------------------------------

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text, the best first; OSError when there are none."""


@lru_cache(maxsize=1)
def _threads_of(pid: int) -> DaemonPool:  # noqa: ARG001 - the cache key: threads do not survive a fork
    # A lookup cannot be cancelled and may hang after its caller has given up. It has its own threads, so it does not
    # block other work. There are many, so that unresolvable names do not block the others.
    return DaemonPool(256, "tidegate-dns")


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Resolves a name with the operating system."""
    loop = asyncio.get_running_loop()
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    results = await loop.run_in_executor(_threads_of(os.getpid()), look_up)
    return list(dict.fromkeys(str(address[0]) for *_, address in results))


# -- addresses to connect to -------------------------------------------------------------------------------------------
# The checked address is the one that is connected to. A second lookup could return another one.

_MAX_ADDRESSES = 4

AddressCheck = Callable[[str], str | None]
"""The reason why an address is blocked; None if it is allowed."""


async def resolve_checked(host: str, port: int, resolver: Resolver, check: AddressCheck) -> list[str]:
    """Returns the addresses to try, in order. Raises BlockedAddress if any is blocked, and the errors of *resolver*."""
    addresses = [host] if _is_address(host) else await resolver(host, port)
    for address in addresses:
        if reason := check(address):
            raise BlockedAddress(host, address, reason)
    return in_turns(addresses)[:_MAX_ADDRESSES]


def in_turns(addresses: Sequence[str]) -> list[str]:
    """Interleaves IPv6 and IPv4, the preferred family first, so that broken IPv6 does not delay IPv4."""
    first = [address for address in addresses if (":" in address) == (":" in addresses[0])]
    other = [address for address in addresses if address not in first]
    pairs = zip_longest(first, other)
    return [address for pair in pairs for address in pair if address is not None]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
