"""Fetches user-supplied URLs safely: every address is checked, and size, time and redirects are limited.

    from tidegate import net

    async with net.Client(user_agent="Example/1.0 (+https://example.com/bot)") as client:
        response = await client.get("https://example.com/feed.xml", headers={"If-None-Match": etag})
        response.status, response.headers["ETag"], response.body, response.url, response.history

Every failure is a `FetchError`. A response of any status is not a failure. Requires `tidegate[http]`.
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
