"""The start of an answer's body, for rules that must see it; the caller still gets all of it."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from tidegate.core.evidence import MAX_BODY, Evidence
from tidegate.core.pack import Pack

# Nobody hides an error message in these, and waiting for 4 kB of a live one could take for ever.
_NEVER_READ = ("text/event-stream", "audio/", "video/", "image/")


def needs_body(rule_pack: Pack | None, response: Any) -> bool:
    """Whether a rule must see the body before it is handed out, and it has not been read yet."""
    if rule_pack is None or not rule_pack.needs_body(int(response.status_code)) or is_loaded(response):
        return False
    return not str(response.headers.get("content-type", "")).strip().lower().startswith(_NEVER_READ)


def is_loaded(response: Any) -> bool:
    """Whether the whole body is in memory already, as a mock transport has it."""
    try:
        return isinstance(response.content, bytes)
    except Exception:
        return False


def peek(rest: Iterator[bytes], chunks: list[bytes]) -> None:
    """Moves chunks from *rest* until 4 kB are there."""
    while sum(map(len, chunks)) < MAX_BODY:
        chunk = next(rest, None)
        if chunk is None:
            return
        chunks.append(chunk)


async def apeek(rest: AsyncIterator[bytes], chunks: list[bytes]) -> None:
    while sum(map(len, chunks)) < MAX_BODY:
        chunk = await anext(rest, None)
        if chunk is None:
            return
        chunks.append(chunk)


def evidence(request: Any, response: Any, chunks: list[bytes]) -> Evidence:
    head = b"".join(chunks)[:MAX_BODY]
    if head:
        head = _decoded(head, str(response.headers.get("content-encoding", "")).strip().lower())
    return Evidence(response=response, status=int(response.status_code), body=head or None, url=str(request.url))


def _decoded(head: bytes, encoding: str) -> bytes:
    """The start of a compressed body in clear; as it is when the encoding is unknown."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return head
    try:
        return zlib.decompressobj(wbits=15 if encoding == "deflate" else 31).decompress(head, MAX_BODY)
    except zlib.error:
        return head
