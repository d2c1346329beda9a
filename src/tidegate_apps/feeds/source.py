"""What is polled, as a value. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

AUTO = "auto"  # who did it, when nobody did
MAX_URL = 2000  # bytes; the index of addresses of PostgreSQL does not take many more

# In a query, a name that says that its value is a secret, and the value.
_SECRET = re.compile(r"((?:^|(?<=[&;]))[^=&;]*(?:token|key|secret|pass|pwd|auth|sig)[^=&;]*=)[^&;]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """One source. The fields are the columns."""

    id: int
    name: str
    feed_url: str | None
    interval: float
    enabled_n: int
    feed_disabled_at: float | None
    feed_disable_reason: str | None
    disabled_by: str | None
    active_from: float | None  # 0: active; the end of a rest; None: only a person begins it again
    created_at: float

    @property
    def enabled(self) -> bool:
        return bool(self.enabled_n)

    @property
    def rests_until(self) -> float | None:
        return self.active_from or None if self.feed_disabled_at is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """A source that is to be added."""

    feed_url: str | None
    name: str = ""
    interval: float | None = None
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be another of a source. What is left out stays; None takes its address away."""

    feed_url: str | None = ""
    name: str = ""
    interval: float | None = None
    enabled: bool | None = None

    def of(self, was: Source) -> SourceRequest:
        """The values of the source after it."""
        return SourceRequest(
            feed_url=was.feed_url if self.feed_url == "" else self.feed_url, name=self.name or was.name,
            interval=self.interval or was.interval, enabled=was.enabled if self.enabled is None else self.enabled,
        )  # fmt: skip


def check_url(url: str) -> str:
    """The address of a feed; ValueError when it can be none."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError("feed_url: it is no address; give one such as https://example.org/feed.xml") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise ValueError("feed_url: it is no address; give one such as https://example.org/feed.xml")
    if len(url.encode()) > MAX_URL:
        raise ValueError(f"feed_url: give at most {MAX_URL} characters")
    return url


def public(url: str) -> str:
    """The address as people may see it: without a password, and without what the query has instead of one."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    query = _SECRET.sub(r"\1…", parts.query)
    if not (at and colon) and query == parts.query:
        return url
    return parts._replace(netloc=f"{name}:…@{host}" if at and colon else parts.netloc, query=query).geturl()
