"""Who asks, and what they may see: everybody their own music; an admin that of others, too."""

from __future__ import annotations

from dataclasses import replace

from fastapi import Request

from tidegate.apps import Installed
from tidegate.secrets import BadSecret
from tidegate.web import Permission, Problem, current_principal, current_user
from tidegate_apps.music.connections import ConnectionRow, Connections
from tidegate_apps.music.contract import Gap, Operation
from tidegate_apps.music.kind import ProviderKind
from tidegate_apps.music.looks import ConnectionSummary, Offer, line_of
from tidegate_apps.music.settings import MusicSettings, of_kind, operator_values
from tidegate_apps.music.states import read

_MAX_NAME = 200
_GAPS_SHOWN, _MAX_GAPS = 7 * 86400.0, 3


def user_of(request: Request, wanted: str = "") -> str:
    """Whose music it is about: of whoever asks, or of *wanted* if an admin asks."""
    me = current_user(request)
    if not wanted or wanted == me:
        return me
    who = current_principal(request)
    if who is None or not who.has_permission(Permission.MANAGE):
        raise Problem("not_allowed", "Only an admin sees the music of others.")
    return wanted[:_MAX_NAME]


def may_reach_loopback(request: Request) -> bool:
    """Whether who asks may enter servers on this machine: admins only."""
    who = current_principal(request)
    return who is not None and who.has_permission(Permission.MANAGE)


def kind_of(app: Installed[MusicSettings], name: str) -> ProviderKind:
    found: ProviderKind | None = app.jobs.kinds.get(name)
    if found is None:
        raise Problem("not_there", f"There is no provider {name[:40]!r}.", status=404)
    return found


def offer_of(app: Installed[MusicSettings], kind: ProviderKind) -> Offer:
    table = of_kind(app.settings, kind)
    return Offer(kind=kind, operator=operator_values(app.settings, kind), enabled=table.enabled)


def lines_of(app: Installed[MusicSettings], user: str) -> list[ConnectionSummary]:
    """Every provider as it is for that user."""
    connections: Connections = app.jobs.connections
    rows = {row.provider: row for row in connections.of(user)}
    states = read(app.db.all("states_of", user_id=user))
    gaps = _gaps(app, user)
    anything = any(row.there for row in rows.values())
    found = []
    # First what brings plays, then what adds to them.
    for kind in sorted(app.jobs.kinds.values(), key=lambda each: Operation.PLAYS not in each.operations):
        row = rows.get(kind.name)
        line = line_of(offer_of(app, kind), row, states, _ends(connections, kind, row))
        if row is None and line.connected and not anything:
            line = line_of(offer_of(app, kind), None, [])  # it begins with the first connection of the user
        found.append(replace(line, gaps=tuple(gaps[kind.name])) if line.connected and kind.name in gaps else line)
    return found


def _gaps(app: Installed[MusicSettings], user: str) -> dict[str, list[Gap]]:
    """The latest of each provider, for as long as people may want to know."""
    found: dict[str, list[Gap]] = {}
    for provider, since, until in app.db.all("gaps_of", user_id=user, after=app.queue.clock.now() - _GAPS_SHOWN):
        found.setdefault(provider, []).append(Gap(since=since, until=until))
    return {provider: gaps[:_MAX_GAPS] for provider, gaps in found.items()}


def _ends(connections: Connections, kind: ProviderKind, row: ConnectionRow | None) -> float | None:
    """When the access ends by itself, if it does."""
    if row is None or not row.there or kind.oauth is None:
        return None
    try:
        return kind.ends(connections.values(row))
    except BadSecret:
        return None
