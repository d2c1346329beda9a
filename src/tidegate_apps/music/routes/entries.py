"""`/music/artists`, `/albums`, `/tracks`, `/plays`: what is in the library of a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from tidegate.apps import Installed
from tidegate.web import Permission, requires
from tidegate_apps.music import shelves
from tidegate_apps.music.asking import user_of
from tidegate_apps.music.routes.connections import PRINTABLE, User
from tidegate_apps.music.settings import MusicSettings

Limit = Annotated[int, Query(ge=1, le=500)]
Find = Annotated[str, Query(max_length=200, pattern=PRINTABLE, description="A part of the name.")]
Cursor = Annotated[str, Query(max_length=60, description="`next_cursor` of the page before.")]


class EntryShown(BaseModel):
    """An artist, an album or a track."""

    id: int
    name: str
    mbid: str | None
    artist: str | None
    album: str | None
    plays: int
    last_played_at: float | None
    badge: str | None


class EntriesShown(BaseModel):
    items: list[EntryShown]
    next_cursor: str | None


class PlayShown(BaseModel):
    id: int
    at: float
    provider: str
    title: str
    artist: str
    album: str | None


class PlaysShown(BaseModel):
    items: list[PlayShown]
    next_cursor: str | None


def router(app: Installed[MusicSettings]) -> APIRouter:
    found = APIRouter(tags=["music"])

    def listed(shelf: str) -> Callable[..., EntriesShown]:
        @requires(Permission.SEE)
        def entries(
            request: Request, user: User = "", q: Find = "", cursor: Cursor = "", limit: Limit = 100
        ) -> EntriesShown:
            page = shelves.entries(app.db, shelf, user_of(request, user), like=q, cursor=cursor, n=limit)
            return EntriesShown(items=[_entry(item) for item in page.items], next_cursor=page.next_cursor)

        return entries

    for shelf in shelves.SHELVES:
        about = f"{shelf.capitalize()}, the most played first."
        found.add_api_route(f"/{shelf}", listed(shelf), methods=["GET"], name=f"music_{shelf}", description=about)

    @found.get("/plays")
    @requires(Permission.SEE)
    def music_plays(request: Request, user: User = "", cursor: Cursor = "", limit: Limit = 100) -> PlaysShown:
        """Plays, the newest first."""
        page = shelves.plays(app.db, user_of(request, user), cursor=cursor, n=limit)
        return PlaysShown(items=[_play(item) for item in page.items], next_cursor=page.next_cursor)

    return found


def _entry(entry: shelves.LibraryEntry) -> EntryShown:
    badge = None if entry.badge is None else entry.badge.word
    return EntryShown(
        id=entry.id, name=entry.name, mbid=entry.mbid, artist=entry.artist, album=entry.album, plays=entry.plays,
        last_played_at=entry.played_at, badge=badge,
    )  # fmt: skip


def _play(row: Any) -> PlayShown:
    return PlayShown(id=row.id, at=row.at, provider=row.provider, title=row.title, artist=row.artist, album=row.album)
