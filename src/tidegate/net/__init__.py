"""Fetches user-supplied URLs safely: every address is checked, and size, time and redirects are limited.

    from tidegate import net

    async with net.Client(user_agent="Example/1.0 (+https://example.com/bot)") as client:
        response = await client.get("https://example.com/feed.xml", headers={"If-None-Match": etag})
        response.status, response.headers["ETag"], response.body, response.url, response.history

Every failure is a `FetchError`. A response of any status is not a failure. Requires `tidegate[http]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.net.addresses import AddressCheck, Networks, Resolver, system_resolver, why_blocked
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

if TYPE_CHECKING:
    from tidegate.net.transport import CallStopped, DeadlineTransport, async_transport
else:
    from tidegate._lazy import lazy_names

    # They load httpcore2, which `Client` does not need.
    __getattr__, __dir__ = lazy_names(
        globals(), {"tidegate.net.transport": ("CallStopped", "DeadlineTransport", "async_transport")}
    )

__all__ = [
    "AddressCheck",
    "BadRedirect",
    "BadUrl",
    "BlockedAddress",
    "Broken",
    "Busy",
    "CallStopped",
    "Client",
    "CutShort",
    "DeadlineTransport",
    "FetchError",
    "FetchResponse",
    "Networks",
    "Refused",
    "Resolver",
    "TooBig",
    "TooManyRedirects",
    "TooSlow",
    "Unreachable",
    "async_transport",
    "system_resolver",
    "user_agent",
    "why_blocked",
]
