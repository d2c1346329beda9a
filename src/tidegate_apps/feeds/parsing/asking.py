"""Hands a body to a child process, and builds values from its answer."""

from __future__ import annotations

import base64
from typing import Any

from tidegate.children import ChildError, Children, Limits, run
from tidegate_apps.feeds.parsing.values import Entry, Feed, ParseError

LIMITS = Limits(memory_mb=512, cpu="5s", time="60s", answer_mb=128)

_CHILD = "tidegate_apps.feeds.parsing.inside:read"  # named, not imported: this process needs none of its libraries
_BEYOND = {
    "child_time": "the feed takes too long to read",
    "child_memory": "the feed needs too much memory to read",
    "child_died": "the feed breaks its reader",
}


async def parse(body: bytes, content_type: str, url: str, *, among: Children | None = None) -> Feed:
    """The feed in *body*; ParseError when there is none.

    *content_type* is the header as it came, *url* where it came from: what relative links are relative to.
    """
    asked = [base64.b64encode(body).decode("ascii"), content_type[:200], url]
    try:
        answer = await run(_CHILD, asked, LIMITS, among=among)
    except ChildError as error:
        if error.code in _BEYOND:
            raise ParseError(_BEYOND[error.code]) from error
        raise
    if "error" in answer:
        raise ParseError(answer["error"])
    return _feed(answer)


def _feed(answer: dict[str, Any]) -> Feed:
    """Field by field, because this runs beside everything else, and is most of what a poll costs here."""
    entries = tuple(
        Entry(
            key=key,
            guid=guid,
            link=link,
            title=title,
            author=author,
            summary_html=html,
            published=published,
            updated=updated,
            digest=digest,
        )
        for key, guid, link, title, author, html, published, updated, digest in answer["entries"]
    )
    return Feed(
        title=answer["title"],
        link=answer["link"],
        ttl=answer["ttl"],
        skip_hours=tuple(answer["skip_hours"]),
        skip_days=tuple(answer["skip_days"]),
        malformed=answer["malformed"],
        entries=entries,
    )
