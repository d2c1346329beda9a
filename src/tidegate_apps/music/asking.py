"""Who asks, and what they may see: everybody their own music; an admin that of others, too."""

from __future__ import annotations

from dataclasses import replace

from fastapi import Request

from tidegate.apps import Installed
from tidegate.secrets import BadSecret
from tidegate.web import Problem, Right, current_user, who_asks
from tidegate_apps.music.connections import Connections, Row
from tidegate_apps.music.contract import Gap, Operation
from tidegate_apps.music.kind import Kind
from tidegate_apps.music.looks import Line, Offer, line_of
from tidegate_apps.music.settings import Settings, of_kind, operator_values
from tidegate_apps.music.states import read

_MOST_NAME = 200
_GAPS_SHOWN, _MOST_GAPS = 7 * 86400.0, 3


def user_of(request: Request, wanted: str = "") -> str:
    """Whose music it is about: of whoever asks, or of *wanted* if an admin asks."""
    me = current_user(request)
    if not wanted or wanted == me:
        return me
    who = who_asks(request)
    if who is None or not who.may(Right.MANAGE):
        raise Problem("not_allowed", "Only an admin sees the music of others.")
    return wanted[:_MOST_NAME]


def may_reach_loopback(request: Request) -> bool:
    """Whether who asks may enter servers on this machine: admins only."""
    who = who_asks(request)
    return who is not None and who.may(Right.MANAGE)


def kind_of(there: Installed[Settings], name: str) -> Kind:
    found: Kind | None = there.jobs.kinds.get(name)
    if found is None:
        raise Problem("not_there", f"There is no provider {name[:40]!r}.", status=404)
    return found


def offer_of(there: Installed[Settings], kind: Kind) -> Offer:
    table = of_kind(there.settings, kind)
    return Offer(kind=kind, operator=operator_values(there.settings, kind), enabled=table.enabled)


def lines_of(there: Installed[Settings], user: str) -> list[Line]:
    """Every provider as it is for that user."""
    connections: Connections = there.jobs.connections
    rows = {row.provider: row for row in connections.of(user)}
    states = read(there.db.all("states_of", user_id=user))
    gaps = _gaps(there, user)
    anything = any(row.there for row in rows.values())
    found = []
    # First what brings plays, then what adds to them.
    for kind in sorted(there.jobs.kinds.values(), key=lambda each: Operation.PLAYS not in each.operations):
        row = rows.get(kind.name)
        line = line_of(offer_of(there, kind), row, states, _ends(connections, kind, row))
        if row is None and line.connected and not anything:
            line = line_of(offer_of(there, kind), None, [])  # it begins with the first connection of the user
        found.append(replace(line, gaps=tuple(gaps[kind.name])) if line.connected and kind.name in gaps else line)
    return found


def _gaps(there: Installed[Settings], user: str) -> dict[str, list[Gap]]:
    """The latest of each provider, for as long as people may want to know."""
    found: dict[str, list[Gap]] = {}
    for provider, since, until in there.db.all("gaps_of", user_id=user, after=there.queue.clock.now() - _GAPS_SHOWN):
        found.setdefault(provider, []).append(Gap(since=since, until=until))
    return {provider: gaps[:_MOST_GAPS] for provider, gaps in found.items()}


def _ends(connections: Connections, kind: Kind, row: Row | None) -> float | None:
    """When the access ends by itself, if it does."""
    if row is None or not row.there or kind.oauth is None:
        return None
    try:
        return kind.ends(connections.values(row))
    except BadSecret:
        return None
