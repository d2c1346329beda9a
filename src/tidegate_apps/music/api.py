"""The API of music: connections and library of a user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from tidegate.apps import Installed
from tidegate.web import Permission, Problem, requires
from tidegate_apps.music import images, library, oauth, pages
from tidegate_apps.music.connections import Connections
from tidegate_apps.music.registry import WrongValue
from tidegate_apps.music.service import (
    ConnectionSummary,
    OperationSummary,
    kind_of,
    lines_of,
    may_reach_loopback,
    user_of,
)
from tidegate_apps.music.settings import MusicSettings

PRINTABLE = r"^[^\x00-\x1f\x7f]*$"  # PostgreSQL cannot compare text with a NUL character
User = Annotated[str, Query(max_length=200, pattern=PRINTABLE, description="Another user; for admins.")]


class OperationShown(BaseModel):
    """One operation of a connection. Times are UNIX time."""

    operation: str
    state: str
    reason: str
    code: str | None
    failures: int
    last_success_at: float | None
    last_tried_at: float | None
    next_try_at: float | None
    items: int = Field(description="Rows that the last success brought.")
    bad: int = Field(description="Rows of it that could not be read.")


class GapShown(BaseModel):
    """Plays between these moments may be missing: there were more than the provider hands over. UNIX time."""

    since: float
    until: float


class ConnectionShown(BaseModel):
    """One provider for one user."""

    provider: str
    title: str
    connected: bool
    state: str
    word: str
    reason: str
    last_success_at: float | None
    next_try_at: float | None
    operations: list[OperationShown]
    gaps: list[GapShown] = Field(description="Of the last week, the newest first.")


class ConnectionsShown(BaseModel):
    user: str
    items: list[ConnectionShown]


class NewConnection(BaseModel):
    """What the provider asks for, by name."""

    model_config = ConfigDict(extra="forbid")

    values: dict[str, SecretStr] = Field(max_length=20)


def connections_router(app: Installed[MusicSettings]) -> APIRouter:
    router = APIRouter(tags=["music"])
    connections: Connections = app.jobs.connections

    @router.get("/connections")
    @requires(Permission.SEE)
    def music_connections(request: Request, user: User = "") -> ConnectionsShown:
        """Every provider, with its state in words, the last success and the next try."""
        whose = user_of(request, user)
        return ConnectionsShown(user=whose, items=[shown(line) for line in lines_of(app, whose)])

    @router.put("/connections/{provider}")
    @requires(Permission.PUT_IN)
    def music_connect(request: Request, provider: str, body: Annotated[NewConnection, Body()]) -> ConnectionShown:
        """Connects, or connects anew: all that was held against the old credentials is forgotten."""
        kind, user = kind_of(app, provider), user_of(request)
        try:
            values = {name: value.get_secret_value() for name, value in body.values.items()}
            connections.enter(user, kind, values, loopback=may_reach_loopback(request), by=user)
        except WrongValue as error:
            raise Problem("not_valid", f"{error}.", status=422) from error
        return _one(app, user, kind.name)

    @router.delete("/connections/{provider}")
    @requires(Permission.PUT_IN)
    def music_disconnect(request: Request, provider: str) -> ConnectionShown:
        """Disconnects: the credentials are deleted, what they brought stays."""
        kind, user = kind_of(app, provider), user_of(request)
        connections.remove(user, kind.name, by=user)
        return _one(app, user, kind.name)

    @router.post("/connections/{provider}/sync", status_code=202)
    @requires(Permission.PUT_IN)
    def music_sync(request: Request, provider: str) -> ConnectionShown:
        """Syncs now, except where credentials were refused or the service asked for a wait."""
        kind, user = kind_of(app, provider), user_of(request)
        connections.request_sync(user, kind.name, by=user)
        return _one(app, user, kind.name)

    return router


def _one(app: Installed[MusicSettings], user: str, provider: str) -> ConnectionShown:
    return shown(next(line for line in lines_of(app, user) if line.kind.name == provider))


def shown(line: ConnectionSummary) -> ConnectionShown:
    return ConnectionShown(
        provider=line.kind.name,
        title=line.kind.title,
        connected=line.connected,
        state=line.look.name,
        word=line.look.word,
        reason=line.look.reason,
        last_success_at=line.success_at,
        next_try_at=line.next_at,
        operations=[_operation(work) for work in line.works],
        gaps=[GapShown(since=gap.since, until=gap.until) for gap in line.gaps],
    )


def _operation(work: OperationSummary) -> OperationShown:
    state = work.state
    return OperationShown(
        operation=work.name,
        state=work.look.name,
        reason=work.look.reason,
        code=state.code,
        failures=state.failures,
        last_success_at=state.success_at,
        last_tried_at=state.tried_at,
        next_try_at=state.next_at,
        items=state.items,
        bad=state.bad,
    )


# -- library: artists, albums, tracks and plays ------------------------------------------------------------------------

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


def entries_router(app: Installed[MusicSettings]) -> APIRouter:
    router = APIRouter(tags=["music"])

    def listed(shelf: str) -> Callable[..., EntriesShown]:
        @requires(Permission.SEE)
        def entries(
            request: Request, user: User = "", q: Find = "", cursor: Cursor = "", limit: Limit = 100
        ) -> EntriesShown:
            page = library.entries(app.db, shelf, user_of(request, user), like=q, cursor=cursor, n=limit)
            return EntriesShown(items=[_entry(item) for item in page.items], next_cursor=page.next_cursor)

        return entries

    for shelf in library.SHELVES:
        about = f"{shelf.capitalize()}, the most played first."
        router.add_api_route(f"/{shelf}", listed(shelf), methods=["GET"], name=f"music_{shelf}", description=about)

    @router.get("/plays")
    @requires(Permission.SEE)
    def music_plays(request: Request, user: User = "", cursor: Cursor = "", limit: Limit = 100) -> PlaysShown:
        """Plays, the newest first."""
        page = library.plays(app.db, user_of(request, user), cursor=cursor, n=limit)
        return PlaysShown(
            items=[PlayShown.model_validate(item, from_attributes=True) for item in page.items],
            next_cursor=page.next_cursor,
        )

    return router


def _entry(entry: library.LibraryEntry) -> EntryShown:
    badge = None if entry.badge is None else entry.badge.word
    return EntryShown(
        id=entry.id,
        name=entry.name,
        mbid=entry.mbid,
        artist=entry.artist,
        album=entry.album,
        plays=entry.plays,
        last_played_at=entry.played_at,
        badge=badge,
    )


# -- routes of the application -----------------------------------------------------------------------------------------


def routes(app: Installed[MusicSettings]) -> APIRouter:
    """Return all routes."""
    router = APIRouter()
    for router_of in (connections_router, entries_router):
        router.include_router(router_of(app), prefix="/api/v1/music")
    for router_of in (pages.forms_router, oauth.oauth_router, images.images_router):
        router.include_router(router_of(app), include_in_schema=False)
    return router
