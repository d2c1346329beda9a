"""The library for other applications: artists, albums and tracks of users, and a badge for each.

    library = Library(there.queue)
    for artist in library.artists("ada"): ...
    return Done(id, writes=[library.badge("artist", artist.id, Badge(word="Queued", tone="calm", icon="clock"))])

It does not need a running music application: the tables are created at the first use.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

from tidegate import Queue
from tidegate.apps import Db
from tidegate.errors import NotFound
from tidegate.jobs import BoundStatement

EntityKind = Literal["artist", "album", "track"]
Tone = Literal["good", "busy", "calm", "warn", "bad"]
NAME, PACKAGE = "music", "tidegate_apps.music"


@dataclass(frozen=True, slots=True)
class Artist:
    """The fields are the columns."""

    id: int
    user: str
    name: str
    mbid: str | None


@dataclass(frozen=True, slots=True)
class Album:
    """*mbid* is that of the release group, or of the release if a provider only knows that."""

    id: int
    user: str
    title: str
    mbid: str | None
    artist_id: int
    artist: str
    artist_mbid: str | None


@dataclass(frozen=True, slots=True)
class Track:
    id: int
    user: str
    title: str
    album_id: int | None
    album: str | None
    artist: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A label for an entity. *icon* is one of the server's; *href* links to details."""

    word: str
    tone: Tone
    icon: str
    tooltip: str = ""
    href: str = ""

    def __post_init__(self) -> None:
        if not self.word:
            raise ValueError("word: it is empty; give one, or no badge at all")
        if self.tone not in get_args(Tone):
            raise ValueError(f"tone: {self.tone!r} is not allowed; give one of: {', '.join(get_args(Tone))}")
        if self.href and not (self.href.startswith("/") and not self.href.startswith("//")):
            raise ValueError(f"href: {self.href!r} is not allowed; give a path of this server, such as '/lidarr'")


class Library:
    """The music of all users. Ids increase: *after* is the last one that the caller has read."""

    def __init__(self, queue: Queue) -> None:
        self._db = tables(queue)

    def users(self) -> list[str]:
        return self._db.scalars(str, "users")

    def artists(self, user: str, *, after: int = 0, limit: int = 500) -> list[Artist]:
        return self._db.query_as(Artist, "artists_of", user_id=user, after=after, n=limit)

    def albums(self, user: str, *, after: int = 0, limit: int = 500) -> list[Album]:
        return self._db.query_as(Album, "albums_of", user_id=user, after=after, n=limit)

    def tracks(self, user: str, *, after: int = 0, limit: int = 500) -> list[Track]:
        return self._db.query_as(Track, "tracks_of", user_id=user, after=after, n=limit)

    def artist(self, id_: int) -> Artist | None:
        """Return an artist; None if it does not exist or was merged."""
        return self._db.first(Artist, "artist", id=id_)

    def album(self, id_: int) -> Album | None:
        return self._db.first(Album, "album", id=id_)

    def badge(self, kind: EntityKind, id_: int, badge: Badge | None) -> BoundStatement:
        """Return the write that sets a badge, or removes it (None): for `Done(writes=[...])` or `put`."""
        if kind not in get_args(EntityKind):
            raise ValueError(f"kind: {kind!r} is not allowed; give one of: {', '.join(get_args(EntityKind))}")
        if badge is None:
            return self._db.bind("remove_badge", kind=kind, entity_id=id_)
        return self._db.bind(
            "put_badge",
            kind=kind,
            entity_id=id_,
            word=badge.word,
            tone=badge.tone,
            icon=badge.icon,
            tooltip=badge.tooltip,
            href=badge.href,
        )

    def put(self, *badges: BoundStatement) -> None:
        """Write badges in one transaction."""
        self._db.write(lambda tx: [tx.run(badge) for badge in badges])


def tables(queue: Queue) -> Db:
    """Return the tables of music in this database, created if missing."""
    return queue.db(NAME, PACKAGE)


# -- name keys ---------------------------------------------------------------------------------------------------------
# They ignore differences in spelling between services.

MAX_NAME = 300  # characters that count
_GUEST = re.compile(r"[\s(\[]+(?:feat|featuring|ft)\b\.?(?:\s|(?=[^\w\s])).*$", re.IGNORECASE)
_MARKS = re.compile(r"[^\w\s]|_")
_ARTICLE = re.compile(r"^the\s+(?!the$)(?=\S)")
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=20_000)
def key_of(name: str) -> str:
    """Return the name without case, accents, punctuation, a leading "the" and what follows "feat."; never empty.

    Names of punctuation only ("!!!", "+/-") stay as they are.
    """
    whole = unicodedata.normalize("NFKC", name[:MAX_NAME]).casefold().strip()
    bare = _GUEST.sub("", whole)
    bare = "".join(char for char in unicodedata.normalize("NFKD", bare) if not unicodedata.combining(char))
    bare = _SPACE.sub(" ", _MARKS.sub(" ", bare.replace("&", " and ").replace("'", "").replace("’", ""))).strip()  # noqa: RUF001
    return _ARTICLE.sub("", bare) or _SPACE.sub(" ", whole)


def clean(text: str, limit: int = MAX_NAME) -> str:
    """Return text that every database accepts: no NUL, no lone surrogate, limited length."""
    return text.replace("\0", "").encode("utf-8", "replace").decode().strip()[:limit]


# -- pages of the library, by index position, so that every page costs the same ----------------------------------------

T = TypeVar("T")
SHELVES = ("artists", "albums", "tracks")
_FIRST = (2**53, 2**53)
_MOMENT = re.compile(r"(\d{1,17}(?:\.\d{1,17})?)-(\d{1,16})", re.ASCII)  # exact time of a play
_CURSOR = re.compile(r"(\d{1,16})-(\d{1,16})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    items: list[T]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """An artist, an album or a track for display."""

    id: int
    name: str
    mbid: str | None
    plays: int
    played_at: float | None
    picture: tuple[str, int] | None  # "artist" or "album", and its id
    artist: str | None = None
    album: str | None = None
    tags: tuple[str, ...] = ()
    seconds: float | None = None
    badge: Badge | None = None


class EntryRow(NamedTuple):
    """An artist, an album or a track, its badge and its album."""

    id: int
    name: str
    mbid: str | None
    plays: int
    played_at: float | None
    art: str | None
    tags: str
    word: str | None
    tone: Tone
    icon: str
    tooltip: str
    href: str
    artist: str | None
    album: str | None
    album_id: int
    seconds: float | None


class PlayLine(NamedTuple):
    """A play for display."""

    id: int
    at: float
    provider: str
    track_id: int
    title: str
    artist: str
    album: str | None
    art: str | None
    album_id: int

    @property
    def picture(self) -> tuple[str, int] | None:
        return None if self.art is None else ("album", self.album_id)


def entries(db: Db, shelf: str, user: str, *, like: str = "", cursor: str = "", n: int = 50) -> Paged[LibraryEntry]:
    """Return entries, the most played first. With *like*, matching names in order of name, one page only."""
    if shelf not in SHELVES:
        raise NotFound(f"there is no shelf {shelf[:40]!r}")
    if like.strip():
        rows = db.query_as(EntryRow, f"find_{shelf}", user_id=user, like=db.containing(key_of(like.strip())), n=n)
        return Paged([_entry(shelf, row) for row in rows], None)
    plays, before = _place(cursor)
    rows = db.query_as(EntryRow, f"page_{shelf}", user_id=user, plays=plays, before=before, n=n + 1)
    items = [_entry(shelf, row) for row in rows[:n]]
    return Paged(items, f"{items[-1].plays}-{items[-1].id}" if len(rows) > n else None)


def plays(db: Db, user: str, *, cursor: str = "", n: int = 50) -> Paged[PlayLine]:
    """Return plays, newest first."""
    place = _MOMENT.fullmatch(cursor)
    at, before = (float(place[1]), min(int(place[2]), 2**53)) if place else (float(2**53), 2**53)
    rows = db.query_as(PlayLine, "plays_of", user_id=user, at=at, before=before, n=n + 1)
    return Paged(rows[:n], f"{rows[n - 1].at!r}-{rows[n - 1].id}" if len(rows) > n else None)


def _place(cursor: str) -> tuple[int, int]:
    match = _CURSOR.fullmatch(cursor)
    return (min(int(match[1]), 2**53), min(int(match[2]), 2**53)) if match else _FIRST


def _entry(shelf: str, row: EntryRow) -> LibraryEntry:
    picture = ("artist", row.id) if shelf == "artists" else ("album", row.album_id)
    badge = (
        None
        if row.word is None
        else Badge(word=row.word, tone=row.tone, icon=row.icon, tooltip=row.tooltip, href=row.href)
    )
    return LibraryEntry(
        id=row.id,
        name=row.name,
        mbid=row.mbid,
        plays=row.plays,
        played_at=row.played_at,
        picture=picture if row.art else None,
        artist=row.artist,
        album=row.album,
        tags=tuple(filter(None, row.tags.split(", "))),
        seconds=row.seconds,
        badge=badge,
    )
