"""The way out, the same for all providers: one request within its bounds, and an answer that the rules have read.

Redirects are followed within one origin only. An error names the path, never the query, which may have credentials.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx2

from tidegate import Fault, Rate, Reach, Reason, classify, net, rules
from tidegate_apps.music.contract import Surroundings
from tidegate_apps.music.reading import WrongShape

_CONNECT = 5.0  # seconds
_MOST = 8 * 1024 * 1024  # bytes of an answer, unpacked
_REDIRECTS = 3
_SAID = 200
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})

Values = Mapping[str, str | int] | Sequence[tuple[str, str | int]]  # of a query


class ServiceError(Exception):
    """An answer that is no success. `classify` reads it off *response*, whatever its status."""

    def __init__(self, service: str, response: httpx2.Response, said: str) -> None:
        request = response.request
        known = response.headers.get("x-request-id")
        number = f" (request {known[:64]})" if known else ""
        super().__init__(
            f"{service} answered {response.status_code} to {request.method} {request.url.path}{number}: {said[:_SAID]}"
        )
        self.response = response


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request; *form* or *body* (JSON) make it a POST. *shown*: names of the query that an error may show."""

    url: str
    query: Values = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    body: object = field(default=None, repr=False)
    shown: tuple[str, ...] = ()
    read: float = 30.0  # seconds of silence
    total: float = 60.0  # seconds in all, without the wait for its turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A good answer. *json* is None when there is nothing in it, as with a 204, or a 404 that means that there is none.

    *missing*: it was such a 404.
    """

    status: int
    headers: httpx2.Headers = field(repr=False)
    json: object = field(default=None, repr=False)

    @property
    def missing(self) -> bool:
        return self.status in (404, 410)


class Calls:
    """The requests of one provider of one user; *key* is what its service counts them by."""

    def __init__(
        self, service: str, pack: rules.Pack, there: Surroundings, *, rate: Rate | None = None, key: str = ""
    ) -> None:
        self.service, self._pack, self._there = service, pack, there
        self._rate, self._key = rate, f"{service} {key}"
        self._headers = {"User-Agent": there.agent, "Accept": "application/json", "Accept-Encoding": "gzip"}

    async def ask(self, ask: Ask) -> Answer:
        """The answer, if the rules take it for a good one; else ServiceError, or what the client raises."""
        if self._rate is not None:
            await self._there.paces.turn(self._key, self._rate)
        async with asyncio.timeout(ask.total):
            response = await self._sent(self._request(ask), ask)
        fault = classify(response, self._pack, now=self._there.clock.now())
        if fault is not None:
            if fault.reason is Reason.THROTTLED:
                self._there.paces.slower(self._key)
            raise ServiceError(self.service, response, fault.detail)
        good = response.is_success and response.status_code != 204
        found = _json(response.content) if good else None
        return Answer(status=response.status_code, headers=response.headers, json=found)

    def verdict(self, error: Exception) -> Fault | None:
        """What *error* means; None for a good answer."""
        return classify(error, self._pack, now=self._there.clock.now())

    def of_one_item(self, error: Exception) -> Fault | None:
        """The fault, if it is of the one thing that was asked for, so that the others may go on."""
        fault = self.verdict(error)
        return fault if fault is not None and fault.reach is Reach.ITEM and fault.fatal else None

    def _request(self, ask: Ask) -> httpx2.Request:
        posts = ask.form is not None or ask.body is not None
        return httpx2.Request(
            "POST" if posts else "GET",
            ask.url,
            params=list(ask.query.items()) if isinstance(ask.query, Mapping) else list(ask.query),
            headers={**self._headers, **ask.headers},
            data=None if ask.form is None else dict(ask.form),
            json=ask.body,
            extensions=_patience(ask),
        )

    async def _sent(self, request: httpx2.Request, ask: Ask) -> httpx2.Response:
        response = await self._exchanged(request, ask)
        for _ in range(_REDIRECTS):
            onward = _same_origin(request, response)
            if onward is None:
                break
            headers = {**self._headers, **ask.headers}
            request = httpx2.Request("GET", onward, headers=headers, extensions=_patience(ask))
            response = await self._exchanged(request, ask)
        return response

    async def _exchanged(self, request: httpx2.Request, ask: Ask) -> httpx2.Response:
        shown = httpx2.Request(request.method, _shown(request.url, ask.shown))
        try:
            # Not by a client of the library: that one keeps cookies, and writes every address into its log.
            response = await self._there.transport.handle_async_request(request)
            response.request = request
            try:
                body = await _body(response)
            finally:
                await response.aclose()
        except httpx2.RequestError as error:
            error.request = shown
            raise
        # What packed the body is undone; the rest of the headers is what the rules need.
        headers = [
            each for each in response.headers.multi_items() if each[0] not in ("content-encoding", "content-length")
        ]
        return httpx2.Response(response.status_code, headers=headers, content=body, request=shown)


def _patience(ask: Ask) -> dict[str, dict[str, float | None]]:
    return {"timeout": httpx2.Timeout(ask.read, connect=_CONNECT, pool=ask.total).as_dict()}


def _json(content: bytes) -> object:
    try:
        found: object = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise WrongShape("text in UTF-8") from error
    except RecursionError as error:
        raise WrongShape("reasonable depth") from error
    return found


async def _body(response: httpx2.Response) -> bytes:
    parts = bytearray()
    async for piece in response.aiter_bytes():
        parts += piece
        if len(parts) > _MOST:
            raise net.TooBig(f"the answer is longer than {_MOST} bytes", url=response.request.url.path)
    return bytes(parts)


def _shown(url: httpx2.URL, names: tuple[str, ...]) -> httpx2.URL:
    kept = httpx2.QueryParams({name: url.params[name] for name in names if name in url.params})
    return url.copy_with(username=None, password=None, query=str(kept).encode() or None)


def _same_origin(request: httpx2.Request, response: httpx2.Response) -> httpx2.URL | None:
    """Where a redirect of a GET leads, if that is the same server."""
    if not response.has_redirect_location or request.method != "GET":
        return None
    try:
        onward = request.url.join(response.headers["location"])
    except httpx2.InvalidURL:
        return None
    same = (onward.scheme, onward.host, onward.port) == (request.url.scheme, request.url.host, request.url.port)
    return onward if same else None
