"""What a feed says, whatever its format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

AS_IT_IS, BASE64 = "", "base64"  # ways of a body into a child process
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode  # rows of plain values hold no circle


class ParseError(Exception):
    """What came is no feed that can be read; the message says why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
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


FIELDS = tuple(FeedEntry.__dataclass_fields__)  # of an entry as a row, in this order


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What one answer held."""

    title: str | None
    link: str | None
    ttl: float  # seconds that it wants to be left alone for; 0 when it does not say
    skip_hours: tuple[int, ...]  # of the day, in UTC
    skip_days: tuple[str, ...]  # "Monday"
    malformed: str | None  # what is wrong with it, although it could be read
    rows: str  # its entries as JSON, the oldest first: the database reads it, and nobody else has to

    @property
    def entries(self) -> tuple[FeedEntry, ...]:
        """Its entries, the newest first."""
        rows = reversed(json.loads(self.rows).values())
        return tuple(FeedEntry(**dict(zip(FIELDS, row, strict=True))) for row in rows)


def rows_of(entries: Iterable[list[Any]]) -> str:
    """The entries of a feed, given with the newest first, as `Feed.rows`: {"0": [key, guid, ...], "1": ...}.

    Each is there once. It is an object, because that is what both databases take apart with the same words.
    """
    once: dict[str, list[Any]] = {}
    for entry in entries:
        once.setdefault(entry[0], entry)
    return _ENCODE(dict(enumerate(reversed(once.values()))))
