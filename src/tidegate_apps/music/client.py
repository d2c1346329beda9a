"""Requests of all providers: one request within its limits, with a response that the rules have classified.

Redirects are followed within one origin only. An error shows the path, never the query, which may hold credentials.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import httpx2

from tidegate import Fault, Rate, classify, net, rules
from tidegate.faults import Reach, Reason
from tidegate_apps.music.parsing import BadRow, WrongShape
from tidegate_apps.music.provider import (
    Batch,
    Enrichment,
    EnrichmentRequest,
    ProviderClock,
    ProviderContext,
    RejectedRow,
)
from tidegate_apps.music.transport import ENTERED, LOOPBACK

_CONNECT = 5.0  # seconds
_MAX_RESPONSE_BYTES = 8 * 1024 * 1024  # of a response, decompressed
_REDIRECTS = 3
_REDIRECTED = frozenset({301, 302, 303, 307, 308})
_SAID = 200

Values = Mapping[str, str | int] | Sequence[tuple[str, str | int]]  # of a query


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response with the attribute names that `classify` reads. *url* is without credentials."""

    status_code: int
    headers: httpx2.Headers = field(repr=False)
    content: bytes = field(repr=False)
    method: str
    url: str


class ServiceError(Exception):
    """A response that is not a success. `classify` reads *response*, whatever its status."""

    def __init__(self, service: str, response: Reply, said: str) -> None:
        known = response.headers.get("x-request-id")
        number = f" (request {known[:64]})" if known else ""
        asked = f"{response.method} {urlsplit(response.url).path}{number}"
        super().__init__(f"{service} answered {response.status_code} to {asked}: {said[:_SAID]}")
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    """One request; *form* or *body* (JSON) make it a POST. *shown*: query parameters that an error may show."""

    url: str
    query: Values = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    body: object = field(default=None, repr=False)
    shown: tuple[str, ...] = ()
    read: float = 30.0  # seconds without data
    total: float = 60.0  # seconds in total, without the wait for the rate limiter


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderResponse:
    """A successful response. *json* is None if it is empty: a 204, or a 404 that means "none".

    *missing*: it was such a 404.
    """

    status: int
    headers: httpx2.Headers = field(repr=False)
    json: object = field(default=None, repr=False)

    @property
    def missing(self) -> bool:
        return self.status in (404, 410)


class ProviderClient:
    """The requests of one provider of one user; *key* is the rate limit key of its service.

    *entered*: a user has entered the URL, so the transport checks its addresses.
    """

    def __init__(
        self,
        service: str,
        rule_pack: rules.Pack,
        context: ProviderContext,
        *,
        rate: Rate | None = None,
        key: str = "",
        entered: bool = False,
    ) -> None:
        self.service, self._rule_pack, self._context = service, rule_pack, context
        self._rate, self._key = rate, f"{service} {key}"
        self._entered = entered
        self._headers = {"User-Agent": context.agent, "Accept": "application/json", "Accept-Encoding": "gzip"}

    async def ask(self, ask: ProviderRequest) -> ProviderResponse:
        """Return the response if the rules accept it. Raises ServiceError or an error of httpx2."""
        if self._rate is not None:
            await self._context.paces.turn(self._key, self._rate)
        async with asyncio.timeout(ask.total):
            response = await self._sent(self._request(ask), ask)
        fault = classify(response, self._rule_pack, now=self._context.clock.now())
        if fault is not None:
            if fault.reason is Reason.THROTTLED:
                self._context.paces.slower(self._key)
            raise ServiceError(self.service, response, fault.detail)
        good = response.status_code < 300 and response.status_code != 204
        document = _json(response.content) if good else None
        return ProviderResponse(status=response.status_code, headers=response.headers, json=document)

    def verdict(self, error: Exception) -> Fault | None:
        """Return the fault of *error*; None for a successful response."""
        return classify(error, self._rule_pack, now=self._context.clock.now())

    def of_one_item(self, error: Exception) -> Fault | None:
        """Return the fault if it only concerns the requested item, so that the others can continue."""
        fault = self.verdict(error)
        return fault if fault is not None and fault.reach is Reach.ITEM and fault.fatal else None

    def _request(self, ask: ProviderRequest) -> httpx2.Request:
        posts = ask.form is not None or ask.body is not None
        query = urlencode(list(ask.query.items()) if isinstance(ask.query, Mapping) else ask.query)
        request = httpx2.Request(
            "POST" if posts else "GET",
            f"{ask.url}?{query}" if query else ask.url,
            headers={**self._headers, **ask.headers},
            data=None if ask.form is None else dict(ask.form),
            json=ask.body,
            extensions=self._extensions(ask),
        )
        if not request.url.host:
            raise net.BadUrl("the address names no server")
        return request

    async def _sent(self, request: httpx2.Request, ask: ProviderRequest) -> Reply:
        reply = await self._exchanged(request, ask)
        for _ in range(_REDIRECTS):
            onward = _same_origin(request, reply)
            if onward is None:
                break
            headers = {**self._headers, **ask.headers}
            request = httpx2.Request("GET", onward, headers=headers, extensions=self._extensions(ask))
            reply = await self._exchanged(request, ask)
        return reply

    async def _exchanged(self, request: httpx2.Request, ask: ProviderRequest) -> Reply:
        url = _shown(request.url, ask.shown)
        try:
            # Without httpx2.AsyncClient, which stores cookies and logs every URL.
            response = await self._context.transport.handle_async_request(request)
            response.request = request
            try:
                body = await _body(response)
            finally:
                await response.aclose()
        except httpx2.RequestError as error:
            error.request = httpx2.Request(request.method, url)
            raise
        return Reply(
            status_code=response.status_code, headers=response.headers, content=body, method=request.method, url=url
        )

    def _extensions(self, ask: ProviderRequest) -> dict[str, object]:
        patience = httpx2.Timeout(ask.read, connect=_CONNECT, pool=ask.total).as_dict()
        return {"timeout": patience, ENTERED: self._entered, LOOPBACK: self._context.loopback}


def fits_a_header(text: str) -> bool:
    """Return whether *text* is valid in a header."""
    return text.isascii() and text.isprintable()


def _json(content: bytes) -> object:
    try:
        document: object = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise WrongShape("text in UTF-8") from error
    except RecursionError as error:
        raise WrongShape("reasonable depth") from error
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a number with too many digits
        raise WrongShape("reasonable numbers") from error
    return document


async def _body(response: httpx2.Response) -> bytes:
    parts = bytearray()
    async for piece in response.aiter_bytes():
        parts += piece
        if len(parts) > _MAX_RESPONSE_BYTES:
            raise net.TooBig(f"the answer is longer than {_MAX_RESPONSE_BYTES} bytes", url=response.request.url.path)
    return bytes(parts)


def _shown(url: httpx2.URL, names: tuple[str, ...]) -> str:
    """Return the URL without user and password, and with only these query parameters."""
    query = urlencode([(name, url.params[name]) for name in names if name in url.params]) if names else ""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}{'?' if query else ''}{query}"


def _same_origin(request: httpx2.Request, reply: Reply) -> httpx2.URL | None:
    """Return the target of a GET redirect if it stays on the same server."""
    if reply.status_code not in _REDIRECTED or request.method != "GET" or "location" not in reply.headers:
        return None
    try:
        onward = request.url.join(reply.headers["location"])
    except httpx2.InvalidURL:
        return None
    same = (onward.scheme, onward.host, onward.port) == (request.url.scheme, request.url.host, request.url.port)
    return onward if same else None


# -- rate limits, one per service and shared by all users --------------------------------------------------------------

_MAX_SLOWER = 16.0
_RECOVERY_SECONDS = 60.0  # seconds after which the rate doubles, up to the declared rate
_SAME_EPISODE = 10.0  # seconds in which further 429s are about requests that were already in flight


@dataclass(slots=True)
class _Limiter:
    paid_until: float
    slower: float = 1.0
    changed: float = 0.0


class Limiters:
    """The rate limiters of a process, on one event loop. First come, first served. An unused slot is lost."""

    def __init__(self, clock: ProviderClock) -> None:
        self._clock = clock
        self._limiters: dict[str, _Limiter] = {}

    async def turn(self, key: str, rate: Rate) -> None:
        """Wait for the next slot of *key*. The interval counts from the start of each request."""
        now = self._clock.monotonic()
        limiter = self._limiters.setdefault(key, _Limiter(now))
        self._forgive(limiter, now)
        paced = rate if limiter.slower == 1 else Rate(rate.count / limiter.slower, rate.per)
        wait = paced.wait(limiter.paid_until, now)
        limiter.paid_until = paced.pay(limiter.paid_until, now)
        if wait > 0:
            await self._clock.asleep(wait)

    def slower(self, key: str) -> None:
        """Halve the rate of *key*. It recovers over time."""
        now = self._clock.monotonic()
        limiter = self._limiters.setdefault(key, _Limiter(now))
        self._forgive(limiter, now)
        if limiter.slower > 1 and now - limiter.changed < _SAME_EPISODE:
            return
        limiter.slower, limiter.changed = min(limiter.slower * 2, _MAX_SLOWER), now

    def _forgive(self, limiter: _Limiter, now: float) -> None:
        while limiter.slower > 1 and now - limiter.changed >= _RECOVERY_SECONDS:
            limiter.slower, limiter.changed = limiter.slower / 2, limiter.changed + _RECOVERY_SECONDS


# -- enrichment of single entries --------------------------------------------------------------------------------------
# The failure of one does not stop the others.


async def one_by_one(
    client: ProviderClient,
    requests: Sequence[EnrichmentRequest],
    look: Callable[[EnrichmentRequest], Awaitable[Enrichment]],
) -> AsyncIterator[Batch[Enrichment]]:
    """Yield a batch for each request: the result of *look*, or the reason why the service or BadRow rejects it."""
    for request in requests:
        try:
            result = await look(request)
        except BadRow as error:
            yield Batch(bad=(refused(request, str(error)),))
        except Exception as error:
            fault = client.of_one_item(error)
            if fault is None:
                raise
            yield Batch(bad=(refused(request, fault.message),))
        else:
            yield Batch(items=(result,))


def refused(request: EnrichmentRequest, why: str) -> RejectedRow:
    return RejectedRow(row=request.name[:80], why=why, id=request.id)
