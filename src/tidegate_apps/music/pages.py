"""The pages: connections, connecting, and the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response

from tidegate.apps import Installed
from tidegate.web import Right, number_of, page, who_asks
from tidegate_apps.music import shelves
from tidegate_apps.music.asking import kind_of, lines_of, offer_of, user_of
from tidegate_apps.music.entering import WrongValue, asked_for
from tidegate_apps.music.kind import Kind
from tidegate_apps.music.looks import line_of
from tidegate_apps.music.settings import Settings, of_kind, operator_values

_PAGE = 48
_SHELVES = ("artists", "albums", "tracks", "plays", "playlists")
_MOST_BAD = 20


def show_connections(request: Request, there: Installed[Settings]) -> Response:
    """Every provider as it is for one user."""
    user = user_of(request, request.query_params.get("user", ""))
    who = who_asks(request)
    users = [row[0] for row in there.db.all("users")] if who is not None and who.may(Right.MANAGE) else []
    lines = lines_of(there, user)
    bad = [
        (line.kind, there.db.all("bad_of", user_id=user, provider=line.kind.name, n=_MOST_BAD))
        for line in lines
        if any(work.state.bad for work in line.works)
    ]
    return page(
        request, "music/connections.html", lines=lines, user=user, mine=user == user_of(request), users=users, bad=bad,
        totals=_totals(there, user), syncs=there.settings.sync,
        facts=_facts(there) if who is not None and who.may(Right.SEE_SETTINGS) else [],
    )  # fmt: skip


def _facts(there: Installed[Settings]) -> list[tuple[str, str]]:
    """How it is set up, without a value that is secret."""
    settings, kinds = there.settings, list(there.jobs.kinds.values())
    found = []
    for kind in kinds:
        table, given = of_kind(settings, kind), operator_values(settings, kind)
        lacks = [each.label for each in kind.fields if each.operator and each.required and each.name not in given]
        said = f"every {table.every}" if table.enabled else "switched off"
        found.append((kind.title, f"{said}; not set: {', '.join(lacks)}" if lacks and table.enabled else said))
    return [
        *found,
        ("Waits after failures", f"{settings.backoff_base}, each time twice as long, at most {settings.backoff_cap}"),
        ("After a restart", "failures and waits are known" if settings.keep_health else "everything is tried at once"),
        ("Pictures", "fetched through this server" if settings.pictures else "not fetched"),
        ("Contact for the services", settings.contact or "not set: nobody knows whom to write to"),
    ]


def show_connect(request: Request, there: Installed[Settings]) -> Response:
    """What a provider asks for."""
    return connect_page(request, there, kind_of(there, request.path_params["provider"]))


def connect_page(
    request: Request,
    there: Installed[Settings],
    kind: Kind,
    given: Mapping[str, str] | None = None,
    wrong: WrongValue | None = None,
) -> Response:
    """The form, with what is known; *given* was entered a moment ago and is *wrong*, and no secret is shown again."""
    row = there.jobs.connections.get(user_of(request), kind.name)
    before = {} if row is None or not row.there else row.shown_values()
    fields = asked_for(kind)
    shown = {each.name: (given or {}).get(each.name, before.get(each.name, each.default)) for each in fields}
    return page(
        request, "music/connect.html", status=200 if wrong is None else 422, kind=kind, fields=fields, shown=shown,
        line=line_of(offer_of(there, kind), row, []), entered=bool(before), wrong=wrong,
        labels={each.name: each.label for each in fields},
    )  # fmt: skip


def show_library(request: Request, there: Installed[Settings]) -> Response:
    """One shelf of the library."""
    asked = request.query_params
    user = user_of(request, asked.get("user", ""))
    shelf = asked.get("shelf", "") if asked.get("shelf", "") in _SHELVES else _SHELVES[0]
    like, cursor = asked.get("q", "")[:200].strip(), asked.get("after", "")[:60]
    values: dict[str, Any] = {"entries": [], "plays": [], "playlists": [], "next_cursor": None}
    if shelf == "plays":
        found = shelves.plays(there.db, user, cursor=cursor, n=_PAGE)
        values.update(plays=found.items, next_cursor=found.next_cursor)
    elif shelf == "playlists":
        rows = there.db.all("playlists_of", user_id=user, after=number_of(cursor) or 0, n=_PAGE + 1)
        values.update(playlists=rows[:_PAGE], next_cursor=rows[_PAGE - 1][0] if len(rows) > _PAGE else None)
    else:
        some = shelves.entries(there.db, shelf, user, like=like, cursor=cursor, n=_PAGE)
        values.update(entries=some.items, next_cursor=some.next_cursor)
    titles = {kind.name: kind.title for kind in there.jobs.kinds.values()}
    return page(
        request, "music/library.html", **values, shelf=shelf, like=like, most=_PAGE, paged=bool(cursor),
        user=user, mine=user == user_of(request), totals=_totals(there, user), titles=titles,
    )  # fmt: skip


def _totals(there: Installed[Settings], user: str) -> dict[str, int]:
    return dict(zip(_SHELVES, there.db.all("totals", user_id=user)[0], strict=True))
