"""From a step to what goes over the wire: which bytes, when, and how the connection ends. Pure."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from email.utils import formatdate
from enum import StrEnum

from tidegate.core.duration import seconds
from tidegate.testing.simulator.steps import Framing, Step, content_of, reason_of

# Larger answers are sent piece by piece, so that a client that leaves in the middle is seen.
PROMPT = 65_536


class ConnectionEnd(StrEnum):
    """What becomes of the connection."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Wait *delay*, send *pieces* with *pause* after each, end as *ending* says. Times are seconds."""

    pieces: tuple[bytes, ...] = ()
    ending: ConnectionEnd = ConnectionEnd.KEEP
    delay: float = 0.0
    pause: float = 0.0
    hang: float = 0.0

    @property
    def prompt(self) -> bool:
        """Whether it can be sent at once and be done with."""
        quick = not self.delay and not self.pause and self.ending in (ConnectionEnd.KEEP, ConnectionEnd.CLOSE)
        return quick and sum(map(len, self.pieces)) <= PROMPT


def sending_of(step: Step, *, method: str = "GET", keep: bool = True, now: float = 0.0) -> Sending:
    """How *step* is sent to a request; *keep*: the client may go on with this connection; *now* is UNIX time."""
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
    given = {name.lower() for name, _ in step.pairs}
    lines = [f"HTTP/1.1 {step.status} {reason_of(step.status)}"]
    lines += [f"{name}: {value}" for name, value in step.pairs]
    if "date" not in given:
        lines.append(f"Date: {formatdate(now, usegmt=True)}")
    if kind and "content-type" not in given:
        lines.append(f"Content-Type: {kind}")
    if step.gzip and "content-encoding" not in given:
        lines.append("Content-Encoding: gzip")
    if length is not None and step.framing == Framing.LENGTH:
        lines.append(f"Content-Length: {length if step.length is None else step.length}")
    elif length is not None and step.framing == Framing.CHUNKED:
        lines.append("Transfer-Encoding: chunked")
    if not keep and "connection" not in given:
        lines.append("Connection: close")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def _pieces(head: bytes, body: bytes, step: Step, *, whole: bool) -> tuple[bytes, ...]:
    """The head and the body in the pieces in which they are sent; not *whole*: without its proper end."""
    size = step.piece if step.drip else PROMPT
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    if step.framing == Framing.CHUNKED:
        parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        # A body that breaks off does so inside a chunk.
        parts += [b"0\r\n\r\n"] if whole else [b"100\r\n"]
    if step.drip or not parts:
        return (head, *parts)
    return (head + parts[0], *parts[1:])


def _says_close(step: Step) -> bool:
    return any(name.lower() == "connection" and value.lower() == "close" for name, value in step.pairs)
