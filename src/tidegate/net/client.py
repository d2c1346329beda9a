"""One GET after the other, each within its bounds."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import httpx2

from tidegate import __version__
from tidegate.durations import Duration, seconds
from tidegate.net.addresses import Networks, Resolver, system_resolver
from tidegate.net.decoding import ACCEPTED, KNOWN, Body
from tidegate.net.errors import BadRedirect, Broken, FetchError, TooBig, TooManyRedirects
from tidegate.net.http1 import FetchState, Http1Connection, checked_headers, location_in, read_response, send_request
from tidegate.net.pool import ConnectionPool, Connector
from tidegate.net.urls import next_place, parse_url
from tidegate.validation import number, whole

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OF_ONE_ORIGIN = frozenset({"authorization", "cookie", "proxy-authorization"})
_FRAMING = 1_000_000  # bytes of headers and chunk sizes that may come beside a body
_BESIDE, _BESIDE_TIME = 65_536, 5.0  # bytes and seconds for a body that nobody needs


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """An answer, whatever its status.

    *headers* ignore case. Their values are the bytes that came, read as latin-1: an ETag goes back as it was received.
    *url* is where the answer came from; *history* has the redirects on the way there, each with its status and the URL
    that sent us on. The body of an answer of 300 and above is cut at 64 kB, and may be incomplete.
    """

    status: int
    headers: httpx2.Headers
    body: bytes
    url: str
    history: tuple[tuple[int, str], ...] = ()

    @property
    def moved_to(self) -> str | None:
        """The new URL, if every redirect on the way was permanent (301, 308); None without one."""
        permanent = self.history and all(status in (301, 308) for status, _ in self.history)
        return self.url if permanent else None


class Client:
    """Fetches what strangers name.

        client = net.Client(user_agent="Example/1.0 (+https://example.com)", allow=["10.0.0.0/8"], ports=None)
        answer = await client.get(url)

    *allow*: networks that may be reached although they are not public. *ports*: None allows all. *total* is for all of
    a fetch, redirects and a dripping body included; *body* bounds it unpacked, in bytes. *per_host*: connections at a
    time to one host and port; *keep*: idle ones in all. *resolver* is asked at each new connection. *tls* is an
    `ssl.SSLContext` of your own. No cookies, no proxies, HTTP/1.1. A client belongs to one loop.
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
        self._on_the_wire = 2 * self._body + _FRAMING
        self._origins = ConnectionPool(
            Connector(resolver, Networks(allow)),
            tls,
            per_host=whole(per_host, field="per_host"),
            keep=whole(keep, field="keep", minimum=0),
            keep_for=seconds(keep_for, field="keep_for"),
        )

    async def get(
        self, url: str, *, headers: Mapping[str, str] | None = None, total: Duration | None = None
    ) -> FetchResponse:
        """The answer at the end of all redirects; a FetchError when there is none.

        *headers* are sent as they are, beside our own; `Authorization` and `Cookie` only to the first host and port.
        *total* is for this fetch alone.
        """
        lasts = self._total if total is None else seconds(total, field="total")
        place = parse_url(url, self._ports)
        way = FetchState(place, self._headers | checked_headers(headers or {}))
        if place.authorization is not None:
            way.headers.setdefault("authorization", (b"Authorization", place.authorization))
        try:
            async with asyncio.timeout(lasts):
                while True:
                    answer = await self._hop(way)
                    if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                        return answer
                    self._follow(way, answer)
        except TimeoutError as error:
            raise way.too_late(lasts) from error
        except FetchError as error:
            error.url = error.url or way.place.url
            raise

    async def aclose(self) -> None:
        """Ends all connections."""
        await self._origins.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _follow(self, state: FetchState, answer: FetchResponse) -> None:
        here = state.place
        state.history.append((answer.status, here.url))
        if len(state.history) > self._redirects:
            raise TooManyRedirects(f"{here.host} redirects once more after {self._redirects} redirects")
        there = next_place(here, location_in(answer.headers), self._ports)
        if here.scheme == "https" and there.scheme == "http":
            raise BadRedirect(f"{here.host} redirects from https to http, which is not followed")
        if any(there.url == url for _, url in state.history):
            raise TooManyRedirects(f"{here.host} redirects in a circle")
        if there.origin != here.origin:
            state.headers = {name: pair for name, pair in state.headers.items() if name not in _OF_ONE_ORIGIN}
        state.place = there

    async def _hop(self, state: FetchState) -> FetchResponse:
        place = state.place
        state.waits = True
        async with self._origins.acquire(place) as origin:
            state.waits = False
            connection = await self._origins.connection(origin, place)
            try:
                try:
                    answer = await send_request(connection, state, self._on_the_wire)
                except Broken:
                    if not connection.served:
                        raise
                    # One that was kept may have ended meanwhile: then once more.
                    self._origins.ended(origin, connection)
                    connection = await self._origins.connection(origin, place, new=True)
                    answer = await send_request(connection, state, self._on_the_wire)
                headers = httpx2.Headers(answer.headers.raw_items(), encoding="latin-1")
                body = await self._body_of(connection, answer.status_code, headers)
            finally:
                self._origins.ended(origin, connection)
        history = tuple(state.history)
        return FetchResponse(status=answer.status_code, headers=headers, body=body, url=place.url, history=history)

    async def _body_of(self, connection: Http1Connection, status: int, headers: httpx2.Headers) -> bytes:
        if status >= 300:
            return await self._beside_the_point(connection, headers)
        announced = headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced) > self._body:
            raise TooBig(f"the body is announced with {announced} bytes; at most {self._body} are read")
        body = Body(headers.get("Content-Encoding", ""), self._body, self._ratio)
        await read_response(connection, body)
        return body.done()

    async def _beside_the_point(self, connection: Http1Connection, headers: httpx2.Headers) -> bytes:
        """What comes quickly of a body whose status says enough: that it is long, or ends early, changes nothing."""
        encoding = headers.get("Content-Encoding", "")
        body = Body(encoding if encoding in KNOWN else "", min(self._body, _BESIDE), self._ratio)
        with suppress(FetchError, TimeoutError):
            async with asyncio.timeout(_BESIDE_TIME):
                await read_response(connection, body)
        return body.so_far()


# Who we are, as the services that we call read it.


def user_agent(about: str = "", contact: str = "") -> str:
    """The value of User-Agent: 'Tidegate/1.0', and behind it what calls, and where somebody can complain.

    user_agent("feed poller", "https://example.org/bot")  # Tidegate/1.0 (feed poller; +https://example.org/bot)
    """
    words = [about, f"+{contact}" if "://" in contact else contact]
    said = "; ".join(word for word in words if word)
    return f"Tidegate/{__version__} ({said})" if said else f"Tidegate/{__version__}"
