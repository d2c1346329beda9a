"""Connections by origin: a few at a time to each, kept for the next fetch, and not too many of them."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2

from tidegate.net.connecting import Connector
from tidegate.net.places import ParsedUrl
from tidegate.net.talking import Http1Connection

_Key = tuple[str, str, int]


@dataclass(slots=True)
class OriginPool:
    """The connections to one scheme, host and port."""

    turns: asyncio.Semaphore
    users: int = 0  # who has, or waits for, a turn
    idle_since: float = 0.0
    free: list[Http1Connection] = field(default_factory=list)
    used: set[Http1Connection] = field(default_factory=set)

    def close(self) -> None:
        for each in (*self.free, *self.used):
            each.close()
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
        """The origin of *place*, while one of its connections is ours."""
        origin = self._take(parsed.origin)
        try:
            async with origin.turns:
                yield origin
        finally:
            self._give_back(parsed.origin, origin)

    async def connection(self, origin: OriginPool, parsed: ParsedUrl, *, new: bool = False) -> Http1Connection:
        """One of *origin*'s connections, kept or *new*; it is to be given to `ended`."""
        now = asyncio.get_running_loop().time()
        while origin.free and not new:
            kept = origin.free.pop()
            if kept.usable and now - kept.idle_since < self._keep_for:
                origin.used.add(kept)
                return kept
            kept.close()
        made = Http1Connection(await self._connector.connect(parsed.host, parsed.port, self._tls_of(parsed)))
        origin.used.add(made)
        return made

    def ended(self, origin: OriginPool, connection: Http1Connection) -> None:
        """Keeps a connection whose answer was read to its end, and closes any other."""
        origin.used.discard(connection)
        if connection.next_cycle():
            connection.idle_since = asyncio.get_running_loop().time()
            origin.free.append(connection)
        else:
            connection.close()

    async def aclose(self) -> None:
        """Ends all connections, also those in use."""
        origins = [*self._busy.values(), *self._idle.values()]
        self._busy.clear()
        self._idle.clear()
        self._kept = 0
        for origin in origins:
            origin.close()
        await asyncio.sleep(0)  # the loop closes their sockets now

    def _take(self, key: _Key) -> OriginPool:
        origin = self._busy.get(key) or self._roused(key) or OriginPool(asyncio.Semaphore(self._per_host))
        self._busy[key] = origin
        origin.users += 1
        return origin

    def _give_back(self, key: _Key, origin: OriginPool) -> None:
        origin.users -= 1
        if origin.users:
            return
        now = asyncio.get_running_loop().time()
        origin.idle_since = now
        if self._busy.pop(key, None) is None:  # the client was closed meanwhile
            origin.close()
        elif origin.free:
            self._idle[key] = origin
            self._kept += len(origin.free)
        while self._idle:
            oldest = next(iter(self._idle))
            if self._kept <= self._keep and now - self._idle[oldest].idle_since < self._keep_for:
                return
            if (ended := self._roused(oldest)) is not None:
                ended.close()

    def _roused(self, key: _Key) -> OriginPool | None:
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
