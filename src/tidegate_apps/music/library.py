"""The library as other applications see it: who has which artists, albums and tracks, and a word beside each of them.

    library = Library(there.queue)
    for artist in library.artists("ada"): ...
    return Done(id, writes=[library.badge("artist", artist.id, Badge(word="Queued", tone="calm", icon="clock"))])

It works whether or not the application music runs beside: the tables are made when they are first needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tidegate import Queue
from tidegate.apps import Db
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
    """*mbid* is of its release group, or of the release where a provider knows only that."""

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
    """One word beside an entity. *icon* is one of the server's; *href* leads to where more is known."""

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
    """What is known of the music of all users. Ids grow: *after* is the last one that was seen."""

    def __init__(self, queue: Queue) -> None:
        self._db = tables(queue)

    def users(self) -> list[str]:
        return [row[0] for row in self._db.all("users")]

    def artists(self, user: str, *, after: int = 0, limit: int = 500) -> list[Artist]:
        return [Artist(*row) for row in self._db.all("artists_of", user_id=user, after=after, n=limit)]

    def albums(self, user: str, *, after: int = 0, limit: int = 500) -> list[Album]:
        return [Album(*row) for row in self._db.all("albums_of", user_id=user, after=after, n=limit)]

    def tracks(self, user: str, *, after: int = 0, limit: int = 500) -> list[Track]:
        return [Track(*row) for row in self._db.all("tracks_of", user_id=user, after=after, n=limit)]

    def artist(self, id_: int) -> Artist | None:
        """None when there is none, or when it was merged into another one."""
        row = self._db.one("artist", id=id_)
        return None if row is None else Artist(*row)

    def album(self, id_: int) -> Album | None:
        row = self._db.one("album", id=id_)
        return None if row is None else Album(*row)

    def badge(self, kind: EntityKind, id_: int, badge: Badge | None) -> BoundStatement:
        """The write that puts a badge there, or takes it away (None): for `Done(writes=[...])` or `put`."""
        if kind not in get_args(EntityKind):
            raise ValueError(f"kind: {kind!r} is not allowed; give one of: {', '.join(get_args(EntityKind))}")
        if badge is None:
            return self._db.bind("remove_badge", kind=kind, entity_id=id_)
        return self._db.bind(
            "put_badge", kind=kind, entity_id=id_, word=badge.word, tone=badge.tone, icon=badge.icon,
            tooltip=badge.tooltip, href=badge.href,
        )  # fmt: skip

    def put(self, *badges: BoundStatement) -> None:
        """Writes badges, in one transaction."""
        self._db.write(lambda tx: [tx.run(badge) for badge in badges])


def tables(queue: Queue) -> Db:
    """The tables of music in this database, whoever asks first."""
    return queue.db(NAME, PACKAGE)
