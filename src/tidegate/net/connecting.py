"""Connections to addresses that were checked: the address that is checked is the one that is connected to."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any

import httpcore2

from tidegate.net.addresses import Networks, why_blocked
from tidegate.net.failures import BlockedAddress, TooBig, Unreachable
from tidegate.net.resolving import Resolver

_PER_ADDRESS = 10.0  # seconds; then the next one of the host is tried
_MOST_ADDRESSES = 4
_HEADERS = 256_000  # bytes before the body, what was read of it at the same time included


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a name, checks every address, connects to one of them; *most* bytes may come with a body."""

    def __init__(self, resolver: Resolver, allowed: Networks, most: int) -> None:
        self._resolver, self._allowed, self._most = resolver, allowed, most
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failed: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in in_turns(await self._addresses(host, port))[:_MOST_ADDRESSES]:
            try:
                stream = await self._plain.connect_tcp(
                    address, port, timeout=_PER_ADDRESS, socket_options=socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
            else:
                return CountedStream(stream, self._most)
        raise failed or Unreachable(f"{host} has no address")

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        found = [host] if _is_address(host) else await self._look_up(host, port)
        for address in found:
            if why := why_blocked(address, self._allowed):
                raise BlockedAddress(host, address, why)
        return found

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        try:
            return await self._resolver(host, port)
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"the name {host} could not be resolved: {error}") from error


def in_turns(addresses: Sequence[str]) -> list[str]:
    """One of each family after the other, the best first: where IPv6 leads nowhere, IPv4 is not tried last."""
    first = [each for each in addresses if (":" in each) == (":" in addresses[0])]
    other = [each for each in addresses if each not in first]
    pairs = zip_longest(first, other)
    return [each for pair in pairs for each in pair if each is not None]


class CountedStream(httpcore2.AsyncNetworkStream):
    """A connection that gives up when the headers or the body of an answer, with its framing, are too long."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream, body: int) -> None:
        self._inner, self._body = inner, body
        self._left = _HEADERS

    def body_follows(self) -> None:
        """To be called when the headers are there: what follows may be longer than they."""
        self._left = self._body

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        got = await self._inner.read(max_bytes, timeout)
        self._left -= len(got)
        if self._left < 0:
            raise TooBig("the answer has more bytes on the wire than are read")
        return got

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._left = _HEADERS  # the next request of a connection that is used again
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return CountedStream(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._body)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
