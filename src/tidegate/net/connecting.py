"""Connections to addresses that were checked: the address that is checked is the one that is connected to."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from itertools import zip_longest

from tidegate.net.addresses import Networks, why_blocked
from tidegate.net.failures import BlockedAddress, Unreachable
from tidegate.net.line import SocketStream
from tidegate.net.resolving import Resolver

_PER_ADDRESS = 10.0  # seconds; then the next one of the host is tried
_MAX_ADDRESSES = 4


class Connector:
    """Resolves a name, checks every address, connects to one of them."""

    def __init__(self, resolver: Resolver, allowed: Networks) -> None:
        self._resolver, self._allowed = resolver, allowed

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> SocketStream:
        """A connection to *host*, whose name is the one that *tls* asks for; Unreachable when there is none."""
        connected = await self._reached(host, port)
        line = SocketStream(connected)
        named = None if tls is None else host.removesuffix(".")
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: line, sock=connected, ssl=tls, server_hostname=named)
        # The socket belongs to its transport, which closes it in the next turn of the loop. Closed beneath it, its
        # number would go to another connection while the transport still listens to it.
        except OSError as error:
            line.close()
            raise _unreachable(host, error) from error
        except asyncio.CancelledError:
            line.close()
            raise
        except BaseException:  # there was no transport yet
            connected.close()
            raise
        return line

    async def _reached(self, host: str, port: int) -> socket.socket:
        failed: OSError | None = None
        for address in in_turns(await self._addresses(host, port))[:_MAX_ADDRESSES]:
            try:
                async with asyncio.timeout(_PER_ADDRESS):
                    return await _opened(address, port)
            except OSError as error:  # a TimeoutError is one
                failed = error
        if failed is None:
            raise Unreachable(f"{host} has no address")
        raise _unreachable(host, failed) from failed

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


async def _opened(address: str, port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, (address, port))
    except BaseException:
        opened.close()
        raise
    return opened


def _unreachable(host: str, error: OSError) -> Unreachable:
    unsaid = "it did not answer in time" if isinstance(error, TimeoutError) else "it ended the connection"
    return Unreachable(f"{host} could not be reached: {str(error) or unsaid}")


def in_turns(addresses: Sequence[str]) -> list[str]:
    """One of each family after the other, the best first: where IPv6 leads nowhere, IPv4 is not tried last."""
    first = [address for address in addresses if (":" in address) == (":" in addresses[0])]
    other = [address for address in addresses if address not in first]
    pairs = zip_longest(first, other)
    return [each for pair in pairs for each in pair if each is not None]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
