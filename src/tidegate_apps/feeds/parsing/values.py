"""What a feed says, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass


class ParseError(Exception):
    """What came is no feed that can be read; the message says why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry. *key* is the same for the same entry, *digest* changes with what it says."""

    key: str  # its guid, else its link, else a hash of its title and date
    guid: str | None
    link: str | None  # absolute, http or https
    title: str  # plain text
    author: str | None
    summary_html: str  # safe to show: no script, no style, no image, links of http and https alone
    published: float | None  # seconds since 1970
    updated: float | None
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What one answer held."""

    title: str | None
    link: str | None
    ttl: float  # seconds that it wants to be left alone for; 0 when it does not say
    skip_hours: tuple[int, ...]  # of the day, in UTC
    skip_days: tuple[str, ...]  # "Monday"
    malformed: str | None  # what is wrong with it, although it could be read
    entries: tuple[Entry, ...]
