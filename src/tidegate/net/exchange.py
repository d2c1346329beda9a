"""A request and its answer, and how far a fetch has come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import h11
import httpx2

from tidegate.core.duration import brief
from tidegate.net.decoding import Body
from tidegate.net.failures import Broken, Busy, FetchError, TooBig, TooSlow
from tidegate.net.places import ParsedUrl
from tidegate.net.talking import Http1Connection

_OURS = frozenset({"host", "connection", "content-length", "transfer-encoding", "te", "upgrade"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BROKEN = (OSError, h11.ProtocolError)
_HEADERS_TOO_LONG = 431
_WAITED_TOO_LONG = 408
_MAX_SMALL, _SMALL = 20_000, 64  # pieces of a body, and bytes: each piece costs us far more than it costs them

Sent = dict[str, tuple[bytes, bytes]]  # headers by their name in small letters


@dataclass(slots=True)
class FetchState:
    """How far a fetch has come."""

    place: ParsedUrl
    headers: Sent
    history: list[tuple[int, str]] = field(default_factory=list)
    waits: bool = False  # for one of our own connections

    def too_late(self, total: float) -> FetchError:
        if self.waits:
            text = f"all our connections to {self.place.host} were taken for {brief(total)}"
            return Busy(text, url=self.place.url)
        return TooSlow(f"{self.place.host} had not answered in full after {brief(total)}", url=self.place.url)


async def send_request(connection: Http1Connection, state: FetchState, body: int) -> h11.Response:
    """The head of the answer, its body of at most so many bytes still to come; Broken when there is none."""
    place = state.place
    try:
        answer = await connection.ask(place.target, [(b"Host", place.authority), *state.headers.values()], body)
    except _BROKEN as error:
        if getattr(error, "error_status_hint", 0) == _HEADERS_TOO_LONG:
            raise TooBig(f"the headers of {place.host} are too long") from error
        raise Broken(f"the connection to {place.host} broke: {_said(error)}") from error
    if answer.status_code == _WAITED_TOO_LONG and connection.served:
        # It is about the time before this request, which it met on its way.
        raise Broken(f"the connection to {place.host} broke: it was kept for longer than {place.host} likes")
    return answer


async def read_response(connection: Http1Connection, body: Body) -> None:
    """Takes in the whole body; Broken when it ends early."""
    pieces = came = 0
    try:
        while (piece := await connection.piece()) is not None:
            body.feed(piece)
            pieces += 1
            came += len(piece)
            if pieces > _MAX_SMALL and came < _SMALL * pieces:
                raise TooBig(f"the body comes in {pieces} pieces of less than {_SMALL} bytes")
    except _BROKEN as error:
        raise Broken(f"the answer broke off: {_said(error)}") from error


def _said(error: Exception) -> str:
    """What broke, without what came instead: that may be long, and is for nobody's eyes."""
    return str(error).partition(": bytearray(")[0][:200]


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
