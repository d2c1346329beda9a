"""The HTTP client for user-supplied URLs: GET with limits on size, time and redirects."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Self

import httpx2

from tidegate import __version__
from tidegate.durations import Duration, seconds
from tidegate.net.addresses import Networks, Resolver, system_resolver, why_blocked
from tidegate.net.decoding import ACCEPTED, KNOWN, Body
from tidegate.net.errors import BadRedirect, Broken, FetchError, TooBig, TooManyRedirects
from tidegate.net.http1 import FetchState, Http1Connection, checked_headers, location_in, read_response, send_request
from tidegate.net.pool import ConnectionPool, Connector
from tidegate.net.urls import next_place, parse_url
from tidegate.validation import number, whole

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OF_ONE_ORIGIN = frozenset({"authorization", "cookie", "proxy-authorization"})
_FRAMING_BYTES = 1_000_000  # bytes of headers and chunk sizes in addition to the body
_MAX_ERROR_BODY, _ERROR_BODY_SECONDS = 65_536, 5.0  # bytes and seconds for the body of an error response


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """A response of any status.

    *headers* ignore case. Their values are decoded as latin-1, so that an ETag can be sent back unchanged. *url* is the
    final URL. *history* has the redirects, each with its status and the redirecting URL. The body of a response with a
    status of 300 or above is truncated at 64 kB, and may be incomplete.
    """

    status: int
    headers: httpx2.Headers
    body: bytes
    url: str
    history: tuple[tuple[int, str], ...] = ()

    @property
    def moved_to(self) -> str | None:
        """The new URL if every redirect was permanent (301, 308), else None."""
        permanent = self.history and all(status in (301, 308) for status, _ in self.history)
        return self.url if permanent else None


class Client:
    """Fetches user-supplied URLs.

        client = net.Client(user_agent="Example/1.0 (+https://example.com)", allow=["10.0.0.0/8"], ports=None)
        response = await client.get(url)

    *allow*: networks that are allowed although they are not public. *ports*: None allows all. *total*: the timeout of a
    whole fetch, including redirects and a slow body. *body*: the maximum decoded size in bytes. *per_host*: concurrent
    connections per host and port. *keep*: idle connections in all. *resolver* is called for each new connection.
    *tls*: your own `ssl.SSLContext`. No cookies, no proxies, HTTP/1.1. A client belongs to one event loop.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        allow: Iterable[str] = (),
        ports: Collection[int] | None = (80, 443),
        total: Duration = "30s",
        body: int = 5_000_000,
        redirects: int = 5,
        ratio: float = 200,
        per_host: int = 1,
        keep: int = 100,
        keep_for: Duration = "10s",
        resolver: Resolver = system_resolver,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._headers = checked_headers({"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": ACCEPTED})
        self._ports = None if ports is None else frozenset(whole(p, field="ports", maximum=65535) for p in ports)
        self._total = seconds(total, field="total", minimum=0.001)
        self._body = whole(body, field="body")
        self._redirects = whole(redirects, field="redirects", minimum=0, maximum=100)
        self._ratio = number(ratio, field="ratio", minimum=1, maximum=1_000_000)
        self._max_wire_bytes = 2 * self._body + _FRAMING_BYTES
        self._origins = ConnectionPool(
            Connector(resolver, partial(why_blocked, allowed=Networks(allow))),
            tls,
            per_host=whole(per_host, field="per_host"),
            keep=whole(keep, field="keep", minimum=0),
            keep_for=seconds(keep_for, field="keep_for"),
        )

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, total: Duration | None = None
    ) -> FetchResponse:
        """Returns the response after all redirects. Raises FetchError if there is none.

        *headers* are sent in addition to the default ones. `Authorization` and `Cookie` are only sent to the first host
        and port. *total* overrides the timeout of this fetch.
        """
        lasts = self._total if total is None else seconds(total, field="total")
        place = parse_url(url, self._ports)
        way = FetchState(place, self._headers | checked_headers(headers or {}))
        if place.authorization is not None:
            way.headers.setdefault("authorization", (b"Authorization", place.authorization))
        try:
            async with asyncio.timeout(lasts):
                while True:
                    response = await self._fetch_once(way)
                    if response.status not in _REDIRECTS or "Location" not in response.headers:
                        return response
                    self._follow(way, response)
        except TimeoutError as error:
            raise way.too_late(lasts) from error
        except FetchError as error:
            error.url = error.url or way.place.url
            raise

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._origins.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _follow(self, state: FetchState, response: FetchResponse) -> None:
        current = state.place
        state.history.append((response.status, current.url))
        if len(state.history) > self._redirects:
            raise TooManyRedirects(f"{current.host} redirects once more after {self._redirects} redirects")
        target = next_place(current, location_in(response.headers), self._ports)
        if current.scheme == "https" and target.scheme == "http":
            raise BadRedirect(f"{current.host} redirects from https to http, which is not followed")
        if any(target.url == url for _, url in state.history):
            raise TooManyRedirects(f"{current.host} redirects in a circle")
        if target.origin != current.origin:
            state.headers = {name: pair for name, pair in state.headers.items() if name not in _OF_ONE_ORIGIN}
        state.place = target

    async def _fetch_once(self, state: FetchState) -> FetchResponse:
        place = state.place
        state.waits = True
        async with self._origins.acquire(place) as origin:
            state.waits = False
            connection = await self._origins.connection(origin, place)
            try:
                try:
                    response = await send_request(connection, state, self._max_wire_bytes)
                except Broken:
                    if not connection.served:
                        raise
                    # The server may have closed a reused connection. Retry once on a new one.
                    self._origins.ended(origin, connection)
                    connection = await self._origins.connection(origin, place, new=True)
                    response = await send_request(connection, state, self._max_wire_bytes)
                headers = httpx2.Headers(response.headers.raw_items(), encoding="latin-1")
                body = await self._read_body(connection, response.status_code, headers)
            finally:
                self._origins.ended(origin, connection)
        history = tuple(state.history)
        return FetchResponse(status=response.status_code, headers=headers, body=body, url=place.url, history=history)

    async def _read_body(self, connection: Http1Connection, status: int, headers: httpx2.Headers) -> bytes:
        if status >= 300:
            return await self._read_error_body(connection, headers)
        announced = headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced) > self._body:
            raise TooBig(f"the body is announced with {announced} bytes; at most {self._body} are read")
        body = Body(headers.get("Content-Encoding", ""), self._body, self._ratio)
        await read_response(connection, body)
        return body.done()

    async def _read_error_body(self, connection: Http1Connection, headers: httpx2.Headers) -> bytes:
        """Reads what arrives quickly of an error body. It may be long or truncated: the status is enough."""
        encoding = headers.get("Content-Encoding", "")
        body = Body(encoding if encoding in KNOWN else "", min(self._body, _MAX_ERROR_BODY), self._ratio)
        with suppress(FetchError, TimeoutError):
            async with asyncio.timeout(_ERROR_BODY_SECONDS):
                await read_response(connection, body)
        return body.so_far()


def user_agent(about: str = "", contact: str = "") -> str:
    """Builds the User-Agent: 'Tidegate/1.0', then the program and a contact address.

    user_agent("feed poller", "https://example.org/bot")  # Tidegate/1.0 (feed poller; +https://example.org/bot)
    """
    words = [about, f"+{contact}" if "://" in contact else contact]
    comment = "; ".join(word for word in words if word)
    return f"Tidegate/{__version__} ({comment})" if comment else f"Tidegate/{__version__}"
