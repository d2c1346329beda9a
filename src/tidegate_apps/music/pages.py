"""The pages: connections, connecting, and the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from tidegate.apps import Installed
from tidegate.web import Permission, current_principal, number_of, page
from tidegate_apps.music import shelves
from tidegate_apps.music.asking import kind_of, lines_of, offer_of, user_of
from tidegate_apps.music.entering import WrongValue, asked_for
from tidegate_apps.music.kind import ProviderKind
from tidegate_apps.music.looks import line_of
from tidegate_apps.music.settings import MusicSettings, of_kind, operator_values

_PAGE_SIZE = 48
_SHELVES = ("artists", "albums", "tracks", "plays", "playlists")
_MAX_BAD = 20


def show_connections(request: Request, app: Installed[MusicSettings]) -> Response:
    """Every provider as it is for one user."""
    user = user_of(request, request.query_params.get("user", ""))
    who = current_principal(request)
    users = [row[0] for row in app.db.all("users")] if who is not None and who.has_permission(Permission.MANAGE) else []
    lines = lines_of(app, user)
    bad = [
        (line.kind, app.db.all("bad_of", user_id=user, provider=line.kind.name, n=_MAX_BAD))
        for line in lines
        if any(work.state.bad for work in line.works)
    ]
    return page(
        request, "music/connections.html", lines=lines, user=user, mine=user == user_of(request), users=users, bad=bad,
        totals=_totals(app, user), syncs=app.settings.sync,
        facts=_facts(app) if who is not None and who.has_permission(Permission.SEE_SETTINGS) else [],
    )  # fmt: skip


def _facts(app: Installed[MusicSettings]) -> list[tuple[str, str]]:
    """How it is set up, without a value that is secret."""
    settings, kinds = app.settings, list(app.jobs.kinds.values())
    found = []
    for kind in kinds:
        table, given = of_kind(settings, kind), operator_values(settings, kind)
        lacks = [field.label for field in kind.fields if field.operator and field.required and field.name not in given]
        said = f"every {table.every}" if table.enabled else "switched off"
        found.append((kind.title, f"{said}; not set: {', '.join(lacks)}" if lacks and table.enabled else said))
    return [
        *found,
        ("Waits after failures", f"{settings.backoff_base}, each time twice as long, at most {settings.backoff_cap}"),
        ("After a restart", "failures and waits are known" if settings.keep_health else "everything is tried at once"),
        ("Pictures", "fetched through this server" if settings.pictures else "not fetched"),
        ("Contact for the services", settings.contact or "not set: nobody knows whom to write to"),
    ]


def show_connect(request: Request, app: Installed[MusicSettings]) -> Response:
    """What a provider asks for."""
    return connect_page(request, app, kind_of(app, request.path_params["provider"]))


def connect_page(
    request: Request,
    app: Installed[MusicSettings],
    kind: ProviderKind,
    given: Mapping[str, str] | None = None,
    wrong: WrongValue | None = None,
) -> Response:
    """The form, with what is known; *given* was entered a moment ago and is *wrong*, and no secret is shown again."""
    row = app.jobs.connections.get(user_of(request), kind.name)
    before = {} if row is None or not row.there else row.shown_values()
    fields = asked_for(kind)
    shown = {field.name: (given or {}).get(field.name, before.get(field.name, field.default)) for field in fields}
    return page(
        request, "music/connect.html", status=200 if wrong is None else 422, kind=kind, fields=fields, shown=shown,
        line=line_of(offer_of(app, kind), row, []), entered=bool(before), wrong=wrong,
        labels={field.name: field.label for field in fields},
    )  # fmt: skip


def show_library(request: Request, app: Installed[MusicSettings]) -> Response:
    """One shelf of the library."""
    asked = request.query_params
    user = user_of(request, asked.get("user", ""))
    shelf = asked.get("shelf", "") if asked.get("shelf", "") in _SHELVES else _SHELVES[0]
    like, cursor = asked.get("q", "")[:200].strip(), asked.get("after", "")[:60]
    values: dict[str, Any] = {"entries": [], "plays": [], "playlists": [], "next_cursor": None}
    if shelf == "plays":
        found = shelves.plays(app.db, user, cursor=cursor, n=_PAGE_SIZE)
        values.update(plays=found.items, next_cursor=found.next_cursor)
    elif shelf == "playlists":
        rows = app.db.all("playlists_of", user_id=user, after=number_of(cursor) or 0, n=_PAGE_SIZE + 1)
        values.update(
            playlists=rows[:_PAGE_SIZE], next_cursor=rows[_PAGE_SIZE - 1][0] if len(rows) > _PAGE_SIZE else None
        )
    else:
        some = shelves.entries(app.db, shelf, user, like=like, cursor=cursor, n=_PAGE_SIZE)
        values.update(entries=some.items, next_cursor=some.next_cursor)
    titles = {kind.name: kind.title for kind in app.jobs.kinds.values()}
    return page(
        request, "music/library.html", **values, shelf=shelf, like=like, most=_PAGE_SIZE, paged=bool(cursor),
        user=user, mine=user == user_of(request), totals=_totals(app, user), titles=titles,
    )  # fmt: skip


def _totals(app: Installed[MusicSettings], user: str) -> dict[str, int]:
    return dict(zip(_SHELVES, app.db.all("totals", user_id=user)[0], strict=True))
