"""The steps of a simulator as values: a response, and the ways in which it fails."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from email.utils import formatdate
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tidegate.durations import Duration, brief, seconds
from tidegate.simulation.outage import FailureMode, FailurePeriod, Outage
from tidegate.testing.scripted import Hang, Status, digits
from tidegate.validation import whole

if TYPE_CHECKING:
    from tidegate.testing.simulator.requests import RecordedRequest

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_OWN = {"content-length": "length=", "transfer-encoding": "framing="}
_MAX_NUMBER = 1 << 40
_GIVE = "give a Step, a Status, a Hang, ConnectionResetError, bytes, text, a dict, a list, or a function of the request"


class Framing(StrEnum):
    """How the client finds the end of the body."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"  # by the end of the connection, so that a truncated body looks complete


@dataclass(frozen=True, slots=True)
class Step:
    """One response, and how it misbehaves.

        Step(200, {"id": 7}, delay="2s")            # JSON, after two seconds
        Step(body=page, drip="1s", piece=10)        # ten bytes a second
        Step(body=page, cut=100)                    # the connection is closed after 100 bytes of the body
        Step(reset=True), Step(body=page, cut=100, reset=True)    # RST, instead of an answer or in the middle of it

    *body*: bytes, text, JSON data, or a function of the `RecordedRequest` that returns one of them. *length* replaces
    the true Content-Length. *hang* is silence for that long, then the connection is closed: instead of the response, or
    after *cut* bytes of the body. *raw* is sent as is instead of HTTP, then the connection is closed.
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
    pairs: tuple[tuple[str, str], ...] = field(init=False, repr=False)  # the validated headers

    def __post_init__(self) -> None:
        whole(self.status, field="status", minimum=200, maximum=599)  # after a 1xx clients wait for another response
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
            raise ValueError(f"length: a response with framing {self.framing!r} has no length; leave one of them out")
        if self.reset and self.hang is not None:
            raise ValueError("reset: a connection that is reset does not hang; leave one of them out")
        if self.raw is not None and not isinstance(self.raw, bytes):
            raise TypeError(f"raw: {self.raw!r:.80} is not bytes; give bytes")
        headers = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        pairs = tuple((valid_header(name), _valid_value(name, value)) for name, value in headers)
        object.__setattr__(self, "headers", pairs)
        if self.retry_after is not None:
            pairs = (*pairs, ("Retry-After", digits(seconds(self.retry_after, field="retry_after"))))
        object.__setattr__(self, "pairs", pairs)

    @property
    def label(self) -> str:
        """A short description for the journal: "503", "reset", "200, cut after 10 bytes"."""
        if self.raw is not None:
            return "no HTTP" if self.raw else "closed without an answer"
        end = "reset" if self.reset else "hang" if self.hang is not None else "closed"
        if self.cut is None:
            return str(self.status) if end == "closed" else end
        return f"{self.status}, {'cut' if end == 'closed' else end} after {self.cut} bytes"


Handler = Callable[["RecordedRequest"], object]
Scripted = Step | Handler


def steps_of(value: object) -> Scripted:
    """Converts *value* to a step of a script. Raises TypeError with the allowed types."""
    return value if callable(value) and not isinstance(value, type) else step_of(value)


def step_of(value: object) -> Step:
    """Converts *value* to a response. Raises TypeError with the allowed types."""
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
            raise TypeError(f"step: {value!r} is not a response; for a status give Status({value!r})")
        case type() if issubclass(value, OSError):
            raise TypeError(f'step: {value.__name__} cannot be sent; for refused connections give outage("5m down")')
        case OSError():
            raise TypeError(f'step: {value!r} cannot be sent; for refused connections give outage("5m down")')
    raise TypeError(f"step: {value!r:.80} is not a step; {_GIVE}")


def content_of(body: object) -> tuple[bytes, str]:
    """Returns the bytes of a body and their content type. Raises TypeError for another type."""
    if body is None:
        return b"", ""
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body), "application/octet-stream"
    if isinstance(body, str):
        return body.encode("utf-8", "surrogateescape"), "text/plain; charset=utf-8"
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), "application/json"


def reason_of(status: int) -> str:
    """Returns the reason phrase of a status."""
    return HTTPStatus(status).phrase if status in _KNOWN else "Unknown"


_KNOWN = frozenset(HTTPStatus)


def valid_header(name: object) -> str:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"headers: {name!r:.80} is not the name of a header; give one such as Retry-After")
    if instead := _OWN.get(name.lower()):
        raise ValueError(f"headers: {name} is made by the simulator; give {instead} to change it")
    return name


def _valid_value(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"headers: the value of {name} is {value!r:.80}; give text")
    if any(sign in value for sign in "\r\n\0"):
        raise ValueError(f"headers: the value of {name} has a line break in it; remove it")
    value.encode("latin-1")  # raises UnicodeEncodeError, a ValueError with the position
    return value


# -- sending: which bytes are sent when, and how the connection ends ---------------------------------------------------

# Larger responses are sent in pieces, so that a client that disconnects in the middle is detected.
PROMPT = 65_536


class ConnectionEnd(StrEnum):
    """How the connection ends."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Wait *delay*, send *pieces* with *pause* after each, end with *ending*. Times are seconds."""

    pieces: tuple[bytes, ...] = ()
    ending: ConnectionEnd = ConnectionEnd.KEEP
    delay: float = 0.0
    pause: float = 0.0
    hang: float = 0.0

    @property
    def prompt(self) -> bool:
        """Whether it can be sent at once."""
        quick = not self.delay and not self.pause and self.ending in (ConnectionEnd.KEEP, ConnectionEnd.CLOSE)
        return quick and sum(map(len, self.pieces)) <= PROMPT


def sending_of(step: Step, *, method: str = "GET", keep: bool = True, now: float = 0.0) -> Sending:
    """Plans how to send *step*. *keep*: the client may reuse the connection. *now* is UNIX time."""
    delay, hang = seconds(step.delay), seconds(step.hang or 0)
    if step.raw is not None:
        return Sending(pieces=(step.raw,), ending=ConnectionEnd.CLOSE, delay=delay)
    broken = ConnectionEnd.RESET if step.reset else ConnectionEnd.CLOSE if step.hang is None else ConnectionEnd.HANG
    if step.cut is None and broken is not ConnectionEnd.CLOSE:
        return Sending(ending=broken, delay=delay, hang=hang)
    body, kind = content_of(step.body)
    if step.gzip:
        body = gzip.compress(body, mtime=0)
    bare = step.status in (204, 304)
    keep = keep and step.framing != Framing.CLOSE and not _says_close(step)
    head = _head(step, kind, None if bare else len(body), keep=keep, now=now)
    pause = seconds(step.drip)
    shown = b"" if bare or method == "HEAD" else body
    if step.cut is None:
        return Sending(
            pieces=_pieces(head, shown, step, whole=True),
            ending=ConnectionEnd.KEEP if keep else ConnectionEnd.CLOSE,
            delay=delay,
            pause=pause,
        )
    return Sending(
        pieces=_pieces(head, shown[: step.cut], step, whole=False), ending=broken, delay=delay, pause=pause, hang=hang
    )


def _head(step: Step, kind: str, length: int | None, *, keep: bool, now: float) -> bytes:
    names = {name.lower() for name, _ in step.pairs}
    lines = [f"HTTP/1.1 {step.status} {reason_of(step.status)}"]
    lines += [f"{name}: {value}" for name, value in step.pairs]
    if "date" not in names:
        lines.append(f"Date: {formatdate(now, usegmt=True)}")
    if kind and "content-type" not in names:
        lines.append(f"Content-Type: {kind}")
    if step.gzip and "content-encoding" not in names:
        lines.append("Content-Encoding: gzip")
    if length is not None and step.framing == Framing.LENGTH:
        lines.append(f"Content-Length: {length if step.length is None else step.length}")
    elif length is not None and step.framing == Framing.CHUNKED:
        lines.append("Transfer-Encoding: chunked")
    if not keep and "connection" not in names:
        lines.append("Connection: close")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def _pieces(head: bytes, body: bytes, step: Step, *, whole: bool) -> tuple[bytes, ...]:
    """Splits head and body into the pieces to send. Not *whole*: without the proper end."""
    size = step.piece if step.drip else PROMPT
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    if step.framing == Framing.CHUNKED:
        parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        # A truncated body ends inside a chunk.
        parts += [b"0\r\n\r\n"] if whole else [b"100\r\n"]
    if step.drip or not parts:
        return (head, *parts)
    return (head + parts[0], *parts[1:])


def _says_close(step: Step) -> bool:
    return any(name.lower() == "connection" and value.lower() == "close" for name, value in step.pairs)


# -- outage ------------------------------------------------------------------------------------------------------------

_GIVE_OUTAGE = "give a text such as '5m down', '1h 30% errors', '2h hang' or '2h 429 retry-after 5m', or 'none'"


class OutageState:
    """An outage that began at *since*, in monotonic time."""

    def __init__(self, outage: Outage, since: float) -> None:
        self._outage = outage
        self._since = since

    def down(self, now: float) -> bool:
        """Whether the listener is closed."""
        return any(
            _shuts(trouble) and trouble.start <= now - self._since < trouble.end for trouble in self._outage.troubles
        )

    def change(self, now: float) -> float | None:
        """Returns when `down` changes next, or None."""
        edges = [edge for trouble in self._outage.troubles if _shuts(trouble) for edge in (trouble.start, trouble.end)]
        return min((self._since + edge for edge in edges if self._since + edge > now), default=None)

    def step(self, now: float, roll: float) -> Step | None:
        """Returns what a request gets instead of the script. *roll* in [0, 1) decides if only a share of them fails."""
        trouble = self._outage.trouble(now - self._since, roll)
        match trouble:
            case None:
                return None
            case FailurePeriod(ill=FailureMode.STATUS):
                return Step(trouble.status, retry_after=trouble.retry_after)
            case FailurePeriod(ill=FailureMode.HANG):
                return Step(hang=self._since + trouble.end - now)
        # A listener cannot refuse a share of the connections. Accepted ones are reset.
        return Step(reset=True)

    def as_json(self, now: float) -> dict[str, Any] | None:
        left = (self._outage.end or 0.0) - (now - self._since)
        return None if left <= 0 else {"text": self._outage.label, "ends_in": brief(left)}


def outage_of(what: Outage | str | None) -> Outage:
    """Converts *what* to an outage that begins at once. Raises ValueError or TypeError with the allowed forms."""
    if what is None:
        return Outage()
    if isinstance(what, Outage):
        return what
    if not isinstance(what, str):
        raise TypeError(f"outage: {what!r:.80} is not an outage; {_GIVE_OUTAGE}")
    return Outage.parse(what, lead=0)


def _shuts(trouble: FailurePeriod) -> bool:
    return trouble.ill is FailureMode.DOWN and trouble.share >= 1
