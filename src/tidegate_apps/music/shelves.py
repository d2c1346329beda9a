"""The library page by page: from one place of an index on, so that the thousandth page costs what the first does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tidegate.apps import Db
from tidegate.errors import NotFound
from tidegate_apps.music.library import Badge
from tidegate_apps.music.names import key_of

T = TypeVar("T")
SHELVES = ("artists", "albums", "tracks")
_FIRST = (2**53, 2**53)
_MOMENT = re.compile(r"(\d{1,17}(?:\.\d{1,17})?)-(\d{1,16})", re.ASCII)  # of a play, exactly
_CURSOR = re.compile(r"(\d{1,16})-(\d{1,16})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    items: list[T]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """An artist, an album or a track, as it is shown."""

    id: int
    name: str
    mbid: str | None
    plays: int
    played_at: float | None
    picture: tuple[str, int] | None  # "artist" or "album", and whose
    artist: str | None = None
    album: str | None = None
    tags: tuple[str, ...] = ()
    seconds: float | None = None
    badge: Badge | None = None


@dataclass(frozen=True, slots=True)
class PlayLine:
    id: int
    at: float
    provider: str
    title: str
    artist: str
    album: str | None
    picture: tuple[str, int] | None


def entries(db: Db, shelf: str, user: str, *, like: str = "", cursor: str = "", n: int = 50) -> Paged[LibraryEntry]:
    """The most played first; with *like*, those whose names have that in them, by name, and no further page."""
    if shelf not in SHELVES:
        raise NotFound(f"there is no shelf {shelf[:40]!r}")
    if like.strip():
        rows = db.all(f"find_{shelf}", user_id=user, like=db.containing(key_of(like.strip())), n=n)
        return Paged([_entry(shelf, row) for row in rows], None)
    plays, before = _place(cursor)
    rows = db.all(f"page_{shelf}", user_id=user, plays=plays, before=before, n=n + 1)
    found = [_entry(shelf, row) for row in rows[:n]]
    return Paged(found, f"{found[-1].plays}-{found[-1].id}" if len(rows) > n else None)


def plays(db: Db, user: str, *, cursor: str = "", n: int = 50) -> Paged[PlayLine]:
    """The newest first."""
    place = _MOMENT.fullmatch(cursor)
    at, before = (float(place[1]), min(int(place[2]), 2**53)) if place else (float(2**53), 2**53)
    rows = db.all("page_plays", user_id=user, at=at, before=before, n=n + 1)
    found = [
        PlayLine(row[0], row[1], row[2], row[4], row[5], row[7], None if row[8] is None else ("album", row[9]))
        for row in rows[:n]
    ]
    following = f"{found[-1].at!r}-{found[-1].id}" if len(rows) > n else None
    return Paged(found, following)


def _place(cursor: str) -> tuple[int, int]:
    found = _CURSOR.fullmatch(cursor)
    return (min(int(found[1]), 2**53), min(int(found[2]), 2**53)) if found else _FIRST


def _entry(shelf: str, row: tuple[Any, ...]) -> LibraryEntry:
    id_, name, mbid, plays_, played_at, art = row[:6]
    more: dict[str, Any] = {}
    if shelf == "artists":
        more = {"tags": tuple(filter(None, row[6].split(", "))), "picture": ("artist", id_) if art else None}
    elif shelf == "albums":
        more = {"artist": row[6], "picture": ("album", id_) if art else None}
    else:
        more = {"artist": row[6], "album": row[8], "seconds": row[10], "picture": ("album", row[9]) if art else None}
    word, tone, icon, tooltip, href = row[-5:]
    badge = None if word is None else Badge(word=word, tone=tone, icon=icon, tooltip=tooltip, href=href)
    return LibraryEntry(id=id_, name=name, mbid=mbid, plays=plays_, played_at=played_at, badge=badge, **more)
