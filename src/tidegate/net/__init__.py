"""Fetches what strangers name: every address is checked, and size, time and redirects are bounded.

    from tidegate import net

    async with net.Client(user_agent="Example/1.0 (+https://example.com/bot)") as client:
        answer = await client.get("https://example.com/feed.xml", headers={"If-None-Match": etag})
        answer.status, answer.headers["ETag"], answer.body, answer.url, answer.history

Every failure is a `FetchError`; an answer is an answer, whatever its status. It needs `tidegate[http]`.
"""

from __future__ import annotations

from tidegate.net.addresses import Networks, Resolver, system_resolver, why_blocked
from tidegate.net.client import Client, FetchResponse, user_agent
from tidegate.net.errors import (
    BadRedirect,
    BadUrl,
    BlockedAddress,
    Broken,
    Busy,
    CutShort,
    FetchError,
    Refused,
    TooBig,
    TooManyRedirects,
    TooSlow,
    Unreachable,
)

__all__ = [
    "BadRedirect",
    "BadUrl",
    "BlockedAddress",
    "Broken",
    "Busy",
    "Client",
    "CutShort",
    "FetchError",
    "FetchResponse",
    "Networks",
    "Refused",
    "Resolver",
    "TooBig",
    "TooManyRedirects",
    "TooSlow",
    "Unreachable",
    "system_resolver",
    "user_agent",
    "why_blocked",
]
