"""Sources as values, and how they are read from their table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from tidegate.apps import Db, DbTx
from tidegate.errors import NotFound

AUTO = "auto"  # the actor of automatic changes
MAX_URL = 2000  # bytes; PostgreSQL's index on URLs does not allow many more

# A query parameter whose name says that its value is a secret, and the value.
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
    active_from: float | None  # 0: active; a time: suspended until then; None: until an operator enables it
    created_at: float

    @property
    def enabled(self) -> bool:
        return bool(self.enabled_n)

    @property
    def rests_until(self) -> float | None:
        return self.active_from or None if self.feed_disabled_at is not None else None


class PollRow(NamedTuple):
    """A poll of the history."""

    at: float
    outcome: str
    status: int
    ms: int
    fresh: int  # new entries
    detail: str | None


class ItemRow(NamedTuple):
    """An entry that is stored."""

    id: int
    guid: str | None
    link: str | None
    title: str
    author: str | None
    summary: str | None
    published_at: float | None
    seen_at: float
    changed_at: float


class FeedAbout(NamedTuple):
    """What pages and responses show of a feed in addition to its state."""

    title: str | None = None
    malformed: str | None = None
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """A source to add."""

    feed_url: str | None
    name: str = ""
    interval: float | None = None
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Changes to a source. Fields that are left out stay. None removes the URL."""

    feed_url: str | None = ""
    name: str = ""
    interval: float | None = None
    enabled: bool | None = None

    def of(self, was: Source) -> SourceRequest:
        """Return the values of the source after the change."""
        return SourceRequest(
            feed_url=was.feed_url if self.feed_url == "" else self.feed_url,
            name=self.name or was.name,
            interval=self.interval or was.interval,
            enabled=was.enabled if self.enabled is None else self.enabled,
        )


def check_url(url: str) -> str:
    """Return the URL of a feed. Raises ValueError if it is not valid."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ValueError(
            "feed_url: it is not a valid address; give one such as https://example.org/feed.xml"
        ) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise ValueError("feed_url: it is not a valid address; give one such as https://example.org/feed.xml")
    if len(url.encode()) > MAX_URL:
        raise ValueError(f"feed_url: it is too long; give at most {MAX_URL} characters")
    return url


def public(url: str) -> str:
    """Return the URL without a password and without secrets in its query."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    query = _SECRET.sub(r"\1…", parts.query)
    if not (at and colon) and query == parts.query:
        return url
    return parts._replace(netloc=f"{name}:…@{host}" if at and colon else parts.netloc, query=query).geturl()


# -- queries -----------------------------------------------------------------------------------------------------------


def found_in(tx: DbTx, id_: int, *, lock: bool = False) -> Source:
    """Return the source. Raises NotFound."""
    source = tx.first(Source, "lock_source" if lock else "source", id=id_)
    if source is None:
        raise NotFound(f"there is no source {id_}")
    return source


def matching(
    like: str, after: int, n: int, read: Callable[[str, int, int], list[Source]], *, whole: bool = False
) -> list[Source]:
    """Return the sources with *like* in their name or URL. *read* gets a pattern, and the id and number of a page.

    Without *whole*, secrets in URLs are not searched: a search could reveal a password letter by letter.
    """
    like = like.lower()
    sources: list[Source] = []
    while len(sources) < n:
        page = read(Db.containing(like), after, n)
        sources += [
            source
            for source in page
            if whole or like in source.name.lower() or like in public(source.feed_url or "").lower()
        ]
        if len(page) < n:
            break
        after = page[-1].id
    return sources[:n]


def active_from(url: str | None, *, enabled: bool) -> float | None:
    """Return when a source that is not suspended may be polled: always (0) or never (None)."""
    return 0.0 if enabled and url else None


def standing(found: Source) -> dict[str, str | None]:
    """Return the state of the source, for the audit log."""
    if found.feed_disabled_at is None:
        return {"state": "enabled"}
    return {"state": "disabled", "why": found.feed_disable_reason, "by": found.disabled_by}
