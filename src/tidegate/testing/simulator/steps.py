"""What a simulator does with one request, as values: an answer, and all the ways in which it goes wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tidegate.core.checks import whole
from tidegate.core.duration import Duration, seconds
from tidegate.testing.scripted import Hang, Status, digits

if TYPE_CHECKING:
    from tidegate.testing.simulator.asked import RecordedRequest

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_OWN = {"content-length": "length=", "transfer-encoding": "framing="}
_MAX_NUMBER = 1 << 40
_GIVE = "give a Step, a Status, a Hang, ConnectionResetError, bytes, text, a dict, a list, or a function of the request"


class Framing(StrEnum):
    """How the client knows where the body ends."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"  # by the end of the connection, so that a body that broke off looks whole


@dataclass(frozen=True, slots=True)
class Step:
    """One answer, and how it misbehaves.

        Step(200, {"id": 7}, delay="2s")            # JSON, after two seconds
        Step(body=page, drip="1s", piece=10)        # ten bytes a second
        Step(body=page, cut=100)                    # the connection is closed after 100 bytes of the body
        Step(reset=True), Step(body=page, cut=100, reset=True)    # RST, instead of an answer or in the middle of it

    *body*: bytes, text, what JSON can say, or a function of the `RecordedRequest` request that returns one of them.
    *length* is
    what Content-Length says instead of the truth. *hang* is silence for that long, then the connection is closed: in
    place of the answer, or after *cut* bytes of the body. *raw* is sent as it is, in place of HTTP; then it is closed.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
    _: KW_ONLY
    retry_after: Duration | None = None
    delay: Duration = 0
    drip: Duration = 0
    piece: int = 64
    cut: int | None = None
    length: int | None = None
    framing: Framing | str = Framing.LENGTH
    gzip: bool = False
    reset: bool = False
    hang: Duration | None = None
    raw: bytes | None = None
    pairs: tuple[tuple[str, str], ...] = field(init=False, repr=False)  # the headers, checked

    def __post_init__(self) -> None:
        whole(self.status, field="status", minimum=200, maximum=599)  # after a 1xx, clients wait for another
        whole(self.piece, field="piece", maximum=_MAX_NUMBER)
        for name, value in (("cut", self.cut), ("length", self.length)):
            if value is not None:
                whole(value, field=name, minimum=0, maximum=_MAX_NUMBER)
        object.__setattr__(self, "delay", seconds(self.delay, field="delay"))
        object.__setattr__(self, "drip", seconds(self.drip, field="drip"))
        if self.hang is not None:
            object.__setattr__(self, "hang", seconds(self.hang, field="hang"))
        if self.framing not in set(Framing):
            raise ValueError(f"framing: {self.framing!r} is not known; give one of {', '.join(Framing)}")
        if self.length is not None and self.framing != Framing.LENGTH:
            raise ValueError(
                f"length: an answer with framing {self.framing!r} announces no length; leave one of them out"
            )
        if self.reset and self.hang is not None:
            raise ValueError("reset: a connection that is reset does not hang; leave one of them out")
        if self.raw is not None and not isinstance(self.raw, bytes):
            raise TypeError(f"raw: {self.raw!r:.80} is not bytes")
        given = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        pairs = tuple((valid_header(name), _valid_value(name, value)) for name, value in given)
        object.__setattr__(self, "headers", pairs)
        if self.retry_after is not None:
            pairs = (*pairs, ("Retry-After", digits(seconds(self.retry_after, field="retry_after"))))
        object.__setattr__(self, "pairs", pairs)

    @property
    def label(self) -> str:
        """In a word or two, for the journal: "503", "reset", "200, cut after 10 bytes"."""
        if self.raw is not None:
            return "no HTTP" if self.raw else "closed without an answer"
        end = "reset" if self.reset else "hang" if self.hang is not None else "closed"
        if self.cut is None:
            return str(self.status) if end == "closed" else end
        return f"{self.status}, {'cut' if end == 'closed' else end} after {self.cut} bytes"


Handler = Callable[["RecordedRequest"], object]
Scripted = Step | Handler


def steps_of(value: object) -> Scripted:
    """*value* as a step of a script; TypeError says what may be one."""
    return value if callable(value) and not isinstance(value, type) else step_of(value)


def step_of(value: object) -> Step:
    """*value* as an answer; TypeError says what may be one."""
    match value:
        case Step():
            return value
        case Status():
            return Step(value.status_code, value.body, value.headers)
        case Hang():
            return Step(hang=value.lasts)
        case bytes() | str() | dict() | list() | None:
            return Step(body=value)
        case ConnectionResetError():
            return Step(reset=True)
        case type() if issubclass(value, ConnectionResetError):
            return Step(reset=True)
        case int():
            raise TypeError(f"step: {value!r} is no answer; for a status give Status({value!r})")
        case type() if issubclass(value, OSError):
            raise TypeError(f'step: {value.__name__} cannot be sent; for refused connections give outage("5m down")')
        case OSError():
            raise TypeError(f'step: {value!r} cannot be sent; for refused connections give outage("5m down")')
    raise TypeError(f"step: {value!r:.80} is no step; {_GIVE}")


def content_of(body: object) -> tuple[bytes, str]:
    """The bytes of a body and what kind they are; TypeError when it can be none."""
    if body is None:
        return b"", ""
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), "application/octet-stream"
    if isinstance(body, str):
        return body.encode("utf-8", "surrogateescape"), "text/plain; charset=utf-8"
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), "application/json"


def reason_of(status: int) -> str:
    """The words after a status."""
    return HTTPStatus(status).phrase if status in _KNOWN else "Unknown"


_KNOWN = frozenset(HTTPStatus)


def valid_header(name: object) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"headers: {name!r:.80} is no name of a header")
    if instead := _OWN.get(name.lower()):
        raise ValueError(f"headers: {name} is made by the simulator; give {instead} to change it")
    return name


def _valid_value(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"headers: the value of {name} is {value!r:.80}; give text")
    if any(sign in value for sign in "\r\n\0"):
        raise ValueError(f"headers: the value of {name} has a line break in it")
    value.encode("latin-1")  # a UnicodeEncodeError is a ValueError, and says where
    return value
