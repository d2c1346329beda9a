"""The connection pool: limited per origin, reused, and limited in all."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2

from tidegate.net.addresses import AddressCheck, Resolver, resolve_checked
from tidegate.net.errors import Unreachable
from tidegate.net.http1 import Http1Connection, SocketStream
from tidegate.net.urls import ParsedUrl

# -- connecting --------------------------------------------------------------------------------------------------------

_PER_ADDRESS = 10.0  # seconds until the next address of the host is tried


class Connector:
    """Resolves a name, checks every address and connects to one of them."""

    def __init__(self, resolver: Resolver, check: AddressCheck) -> None:
        self._resolver, self._check = resolver, check

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> SocketStream:
        """Connects to *host*, which *tls* verifies. Raises Unreachable on failure."""
        connected = await self._reached(host, port)
        line = SocketStream(connected)
        named = None if tls is None else host.removesuffix(".")
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: line, sock=connected, ssl=tls, server_hostname=named)
        # The transport owns the socket and closes it in the next iteration of the loop. Closing it here would free its
        # file descriptor for another connection while the transport still watches it.
        except OSError as error:
            line.close()
            raise _unreachable(host, error) from error
        except asyncio.CancelledError:
            line.close()
            raise
        except BaseException:  # there is no transport yet
            connected.close()
            raise
        return line

    async def _reached(self, host: str, port: int) -> socket.socket:
        failed: OSError | None = None
        for address in await self._addresses(host, port):
            try:
                async with asyncio.timeout(_PER_ADDRESS):
                    return await _opened(address, port)
            except OSError as error:  # a TimeoutError is one
                failed = error
        if failed is None:
            raise Unreachable(f"{host} has no address")
        raise _unreachable(host, failed) from failed

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            return await resolve_checked(host, port, self._resolver, self._check)
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


_Key = tuple[str, str, int]


@dataclass(slots=True)
class OriginPool:
    """The connections to one scheme, host and port."""

    turns: asyncio.Semaphore
    users: int = 0  # fetches that have or wait for a connection
    idle_since: float = 0.0
    free: list[Http1Connection] = field(default_factory=list)
    used: set[Http1Connection] = field(default_factory=set)

    def close(self) -> None:
        for connection in (*self.free, *self.used):
            connection.close()
        self.free.clear()


class ConnectionPool:
    """The connections to all origins."""

    def __init__(
        self, connector: Connector, tls: ssl.SSLContext | None, *, per_host: int, keep: int, keep_for: float
    ) -> None:
        self._connector, self._tls = connector, tls
        self._per_host, self._keep, self._keep_for = per_host, keep, keep_for
        self._busy: dict[_Key, OriginPool] = {}
        self._idle: OrderedDict[_Key, OriginPool] = OrderedDict()
        self._kept = 0  # connections of idle origins

    @asynccontextmanager
    async def acquire(self, parsed: ParsedUrl) -> AsyncIterator[OriginPool]:
        """Yields the origin of *parsed* with one of its connection slots reserved."""
        origin = self._reserve(parsed.origin)
        try:
            async with origin.turns:
                yield origin
        finally:
            self._release(parsed.origin, origin)

    async def connection(self, origin: OriginPool, parsed: ParsedUrl, *, new: bool = False) -> Http1Connection:
        """Returns an idle or a *new* connection of *origin*. Return it with `ended`."""
        now = asyncio.get_running_loop().time()
        while origin.free and not new:
            connection = origin.free.pop()
            if connection.usable and now - connection.idle_since < self._keep_for:
                origin.used.add(connection)
                return connection
            connection.close()
        made = Http1Connection(await self._connector.connect(parsed.host, parsed.port, self._tls_of(parsed)))
        origin.used.add(made)
        return made

    def ended(self, origin: OriginPool, connection: Http1Connection) -> None:
        """Keeps a connection whose response was read to its end. Closes any other."""
        origin.used.discard(connection)
        if connection.next_cycle():
            connection.idle_since = asyncio.get_running_loop().time()
            origin.free.append(connection)
        else:
            connection.close()

    async def aclose(self) -> None:
        """Closes all connections, including those in use."""
        origins = [*self._busy.values(), *self._idle.values()]
        self._busy.clear()
        self._idle.clear()
        self._kept = 0
        for origin in origins:
            origin.close()
        await asyncio.sleep(0)  # lets the loop close their sockets

    def _reserve(self, key: _Key) -> OriginPool:
        origin = self._busy.get(key) or self._pop_idle(key) or OriginPool(asyncio.Semaphore(self._per_host))
        self._busy[key] = origin
        origin.users += 1
        return origin

    def _release(self, key: _Key, origin: OriginPool) -> None:
        origin.users -= 1
        if origin.users:
            return
        now = asyncio.get_running_loop().time()
        origin.idle_since = now
        if self._busy.pop(key, None) is None:  # the client was closed
            origin.close()
        elif origin.free:
            self._idle[key] = origin
            self._kept += len(origin.free)
        while self._idle:
            oldest = next(iter(self._idle))
            if self._kept <= self._keep and now - self._idle[oldest].idle_since < self._keep_for:
                return
            if (ended := self._pop_idle(oldest)) is not None:
                ended.close()

    def _pop_idle(self, key: _Key) -> OriginPool | None:
        origin = self._idle.pop(key, None)
        if origin is not None:
            self._kept -= len(origin.free)
        return origin

    def _tls_of(self, parsed: ParsedUrl) -> ssl.SSLContext | None:
        if parsed.scheme != "https":
            return None
        if self._tls is None:
            self._tls = httpx2.create_ssl_context()
        self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls
