"""The pages: connections, connect form, and library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request, Response

from tidegate.apps import Installed
from tidegate.errors import NotFound
from tidegate.web import Permission, current_principal, form, number_of, page, redirect_with_flash, requires
from tidegate_apps.music import library
from tidegate_apps.music.connections import Connections
from tidegate_apps.music.provider import ProviderKind
from tidegate_apps.music.registry import WrongValue, asked_for
from tidegate_apps.music.service import (
    AT_A_PAGE,
    has_called,
    kind_of,
    line_of,
    lines_of,
    may_reach_loopback,
    offer_of,
    outcome,
    user_of,
    wait_for_sync,
)
from tidegate_apps.music.settings import MusicSettings, of_kind, operator_values

_PAGE_SIZE = 48
_SHELVES = ("artists", "albums", "tracks", "plays", "playlists")
_MAX_BAD = 20


class PlaylistRow(NamedTuple):
    id: int
    provider: str
    name: str
    about: str
    seen_at: float
    gone_at: float | None
    tracks: int


def show_connections(request: Request, app: Installed[MusicSettings]) -> Response:
    """Render every provider for one user."""
    user = user_of(request, request.query_params.get("user", ""))
    who = current_principal(request)
    users = app.db.scalars(str, "users") if who is not None and who.has_permission(Permission.MANAGE) else []
    lines = lines_of(app, user)
    bad = [
        (line.kind, app.db.all("bad_of", user_id=user, provider=line.kind.name, n=_MAX_BAD))
        for line in lines
        if any(work.state.bad for work in line.works)
    ]
    return page(
        request,
        "music/connections.html",
        lines=lines,
        user=user,
        mine=user == user_of(request),
        users=users,
        bad=bad,
        totals=_totals(app, user),
        syncs=app.settings.sync,
        facts=_facts(app) if who is not None and who.has_permission(Permission.SEE_SETTINGS) else [],
    )


def _facts(app: Installed[MusicSettings]) -> list[tuple[str, str]]:
    """Return the configuration without secrets."""
    settings, kinds = app.settings, list(app.jobs.kinds.values())
    facts = []
    for kind in kinds:
        table, entered = of_kind(settings, kind), operator_values(settings, kind)
        lacks = [
            field.label for field in kind.fields if field.operator and field.required and field.name not in entered
        ]
        said = f"every {table.every}" if table.enabled else "switched off"
        facts.append((kind.title, f"{said}; not set: {', '.join(lacks)}" if lacks and table.enabled else said))
    return [
        *facts,
        ("Waits after failures", f"{settings.backoff_base}, each time twice as long, at most {settings.backoff_cap}"),
        ("After a restart", "failures and waits are known" if settings.keep_health else "everything is tried at once"),
        ("Pictures", "fetched through this server" if settings.pictures else "not fetched"),
        ("Contact for the services", settings.contact or "not set: nobody knows whom to write to"),
    ]


def show_connect(request: Request, app: Installed[MusicSettings]) -> Response:
    """Render the form of a provider."""
    return connect_page(request, app, kind_of(app, request.path_params["provider"]))


def connect_page(
    request: Request,
    app: Installed[MusicSettings],
    kind: ProviderKind,
    given: Mapping[str, str] | None = None,
    wrong: WrongValue | None = None,
) -> Response:
    """Render the form with known values; *given* was just entered and is *wrong*. Secrets are not shown."""
    row = app.jobs.connections.get(user_of(request), kind.name)
    before = {} if row is None or not row.there else row.shown_values()
    fields = asked_for(kind)
    shown = {field.name: (given or {}).get(field.name, before.get(field.name, field.default)) for field in fields}
    return page(
        request,
        "music/connect.html",
        status=200 if wrong is None else 422,
        kind=kind,
        fields=fields,
        shown=shown,
        line=line_of(offer_of(app, kind), row, []),
        entered=bool(before),
        wrong=wrong,
        labels={field.name: field.label for field in fields},
    )


def show_library(request: Request, app: Installed[MusicSettings]) -> Response:
    """Render one section of the library."""
    asked = request.query_params
    user = user_of(request, asked.get("user", ""))
    shelf = asked.get("shelf", "") if asked.get("shelf", "") in _SHELVES else _SHELVES[0]
    like, cursor = asked.get("q", "")[:200].strip(), asked.get("after", "")[:60]
    entries, plays, playlists = list[library.LibraryEntry](), list[library.PlayLine](), list[PlaylistRow]()
    following: str | int | None
    if shelf == "plays":
        recent = library.plays(app.db, user, cursor=cursor, n=_PAGE_SIZE)
        plays, following = recent.items, recent.next_cursor
    elif shelf == "playlists":
        rows = app.db.query_as(
            PlaylistRow, "playlists_of", user_id=user, after=number_of(cursor) or 0, n=_PAGE_SIZE + 1
        )
        following = rows[_PAGE_SIZE - 1].id if len(rows) > _PAGE_SIZE else None
        playlists = rows[:_PAGE_SIZE]
    else:
        some = library.entries(app.db, shelf, user, like=like, cursor=cursor, n=_PAGE_SIZE)
        entries, following = some.items, some.next_cursor
    titles = {kind.name: kind.title for kind in app.jobs.kinds.values()}
    return page(
        request,
        "music/library.html",
        entries=entries,
        plays=plays,
        playlists=playlists,
        next_cursor=following,
        shelf=shelf,
        like=like,
        most=_PAGE_SIZE,
        paged=bool(cursor),
        user=user,
        mine=user == user_of(request),
        totals=_totals(app, user),
        titles=titles,
    )


def _totals(app: Installed[MusicSettings], user: str) -> dict[str, int]:
    return dict(zip(_SHELVES, app.db.all("totals", user_id=user)[0], strict=True))


# -- forms, which work without JavaScript ------------------------------------------------------------------------------

Sent = Annotated[dict[str, str], Depends(form)]
PAGE = "/music"
CALLED = "was called"


def forms_router(app: Installed[MusicSettings]) -> APIRouter:
    router = APIRouter()
    connections: Connections = app.jobs.connections

    @router.post("/music/connect/{provider}")
    @requires(Permission.PUT_IN)
    def connect(request: Request, provider: str, sent: Sent) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        entered = {name: value for name, value in sent.items() if name != "back"}
        asked = app.queue.clock.now()
        try:
            connections.enter(user, kind, entered, blanks_stay=True, loopback=may_reach_loopback(request), by=user)
        except WrongValue as error:
            return connect_page(request, app, kind, entered, wrong=error)
        return told(request, app, kind, "is connected", asked)

    @router.post("/music/disconnect/{provider}")
    @requires(Permission.PUT_IN)
    def disconnect(request: Request, provider: str) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        connections.remove(user, kind.name, by=user)
        return redirect_with_flash(
            request, PAGE, f"{kind.title} is disconnected. What it brought stays in the library."
        )

    @router.post("/music/sync/{provider}")
    @requires(Permission.PUT_IN)
    def sync(request: Request, provider: str) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        asked = app.queue.clock.now()
        try:
            connections.request_sync(user, kind.name, by=user)
        except NotFound:
            return redirect_with_flash(request, PAGE, f"{kind.title} is not connected.", tone="warn")
        return told(request, app, kind, CALLED, asked)

    return router


def told(request: Request, app: Installed[MusicSettings], kind: ProviderKind, done: str, asked: float) -> Response:
    """Redirect to the page, with the outcome of the call if it is known soon."""
    line = wait_for_sync(app, user_of(request), kind, asked, AT_A_PAGE) if app.settings.sync else None
    if done == CALLED and line is not None and not has_called(line.works, asked):
        return redirect_with_flash(
            request, PAGE, f"{kind.title} was not called: {line.look.reason or line.look.word}", tone="warn"
        )
    text, tone = outcome(kind, done, line)
    return redirect_with_flash(request, PAGE, text, tone=tone)
