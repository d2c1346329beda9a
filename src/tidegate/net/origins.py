"""Connections by scheme, host and port: few to each at a time, idle ones kept for a while, the oldest dropped first."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpcore2
import httpx2

from tidegate.net.places import Place

_Key = tuple[str, str, int]


@dataclass(slots=True)
class Origin:
    """The connections to one scheme, host and port."""

    pool: httpcore2.AsyncConnectionPool
    turns: asyncio.Semaphore
    users: int = 0  # who has, or waits for, a turn
    idle_since: float = 0.0
    served: int = field(default=0)  # answers; after the first one a connection may be an old one


class Origins:
    """A pool for each origin: one for all would be searched from end to end at every request."""

    def __init__(
        self,
        backend: httpcore2.AsyncNetworkBackend,
        tls: ssl.SSLContext | None,
        *,
        per_host: int,
        keep: int,
        keep_for: float,
    ) -> None:
        self._backend, self._tls = backend, tls
        self._per_host, self._keep, self._keep_for = per_host, keep, keep_for
        self._busy: dict[_Key, Origin] = {}
        self._idle: OrderedDict[_Key, Origin] = OrderedDict()

    @asynccontextmanager
    async def turn(self, place: Place) -> AsyncIterator[Origin]:
        """The origin of *place*, while one of its connections is ours."""
        origin = self._take(place)
        try:
            async with origin.turns:
                yield origin
        finally:
            await self._give_back(place.origin, origin)

    async def aclose(self) -> None:
        """Ends all connections, also those in use."""
        origins = [*self._busy.values(), *self._idle.values()]
        self._busy.clear()
        self._idle.clear()
        for each in origins:
            await each.pool.aclose()

    def _take(self, place: Place) -> Origin:
        origin = self._busy.get(place.origin) or self._idle.pop(place.origin, None) or self._made(place)
        self._busy[place.origin] = origin
        origin.users += 1
        return origin

    async def _give_back(self, key: _Key, origin: Origin) -> None:
        origin.users -= 1
        if origin.users:
            return
        now = asyncio.get_running_loop().time()
        origin.idle_since = now
        if self._busy.pop(key, None) is not None:  # else the client was closed meanwhile
            self._idle[key] = origin
        while self._idle:
            oldest = next(iter(self._idle))
            if len(self._idle) <= self._keep and now - self._idle[oldest].idle_since < self._keep_for:
                return
            await self._idle.pop(oldest).pool.aclose()

    def _made(self, place: Place) -> Origin:
        if place.scheme == "https" and self._tls is None:
            self._tls = httpx2.create_ssl_context()
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls if place.scheme == "https" else None,
            max_connections=self._per_host,
            keepalive_expiry=self._keep_for,
            network_backend=self._backend,
        )
        return Origin(pool, asyncio.Semaphore(self._per_host))
