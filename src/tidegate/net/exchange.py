"""A request and its answer, and how far a fetch has come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import httpcore2
import httpx2

from tidegate.core.duration import brief
from tidegate.net.connecting import CountedStream
from tidegate.net.decoding import Body
from tidegate.net.failures import Broken, Busy, FetchError, TooBig, TooSlow, Unreachable
from tidegate.net.origins import Origin
from tidegate.net.places import Place

_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "te", "upgrade"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BROKEN = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)
_HEADERS_TOO_LONG = 431
_MOST_SMALL, _SMALL = 20_000, 64  # pieces of a body, and bytes: each piece costs us far more than it costs them

E = TypeVar("E", bound=BaseException)
Sent = dict[str, tuple[bytes, bytes]]  # headers by their name in small letters


@dataclass(slots=True)
class Way:
    """How far a fetch has come."""

    place: Place
    headers: Sent
    history: list[tuple[int, str]] = field(default_factory=list)
    waits: bool = False  # for one of our own connections

    def request(self) -> httpcore2.Request:
        place = self.place
        return httpcore2.Request(
            b"GET",
            httpcore2.URL(scheme=place.scheme.encode(), host=place.host.encode(), port=place.port, target=place.target),
            headers=[(b"Host", place.authority), *self.headers.values()],
        )

    def too_late(self, total: float) -> FetchError:
        if self.waits:
            text = f"all our connections to {self.place.host} were taken for {brief(total)}"
            return Busy(text, url=self.place.url)
        return TooSlow(f"{self.place.host} had not answered in full after {brief(total)}", url=self.place.url)


async def sent(origin: Origin, way: Way) -> httpcore2.Response:
    """The answer, its body still to come. A connection that was kept may have ended meanwhile: then once more."""
    try:
        return await _sent_once(origin, way)
    except Broken:
        if not origin.served:
            raise
        origin.served = 0
    return await _sent_once(origin, way)


async def _sent_once(origin: Origin, way: Way) -> httpcore2.Response:
    host = way.place.host
    try:
        response = await origin.pool.handle_async_request(way.request())
    except FetchError as error:
        _with_its_cause(error)
        raise
    except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
        text = f"{host} could not be reached: {str(error) or 'it did not answer in time'}"
        raise Unreachable(text) from _with_its_cause(error)
    except _BROKEN as error:
        if getattr(_with_its_cause(error).__cause__, "error_status_hint", 0) == _HEADERS_TOO_LONG:
            raise TooBig(f"the headers of {host} are too long") from error
        raise Broken(f"the connection to {host} broke: {error}") from error
    if isinstance(stream := response.extensions["network_stream"], CountedStream):
        stream.body_follows()
    return response


def _with_its_cause(error: E) -> E:
    """*error* with what led to it: the pool of httpcore raises everything once more `from None`."""
    if error.__cause__ is None:
        error.__cause__ = error.__context__
    return error


async def read(response: httpcore2.Response, body: Body) -> None:
    """Takes in the whole body; Broken when it ends early."""
    pieces = came = 0
    try:
        async for piece in response.aiter_stream():
            body.feed(piece)
            pieces += 1
            came += len(piece)
            if pieces > _MOST_SMALL and came < _SMALL * pieces:
                raise TooBig(f"the body comes in {pieces} pieces of less than {_SMALL} bytes")
    except _BROKEN as error:
        raise Broken(f"the answer broke off: {error}") from error


def location_in(headers: httpx2.Headers) -> str:
    """Where a redirect leads, as text: most who send more than ASCII send UTF-8."""
    raw = headers["Location"].encode("latin-1")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def checked_headers(headers: Mapping[str, str]) -> Sent:
    """*headers* as they are sent, by their name in small letters; ValueError when one cannot be."""
    checked = {}
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"headers: {name!r:.80} is not a header that can be given")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"headers: the value of {name} has a sign that a header cannot hold")
        checked[name.lower()] = (name.encode("ascii"), value.encode("latin-1"))
    return checked
