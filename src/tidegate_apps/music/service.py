"""Status of connections for page, API and command line, and actions that wait for a sync."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fastapi import Request

from tidegate.apps import Installed
from tidegate.faults import Reason
from tidegate.secrets import BadSecret
from tidegate.web import Permission, Problem, current_principal, current_user
from tidegate_apps.music.connections import ConnectionRow, Connections
from tidegate_apps.music.health import OperationState
from tidegate_apps.music.provider import Gap, Operation, ProviderKind
from tidegate_apps.music.registry import asked_for, by_itself
from tidegate_apps.music.settings import MusicSettings, of_kind, operator_values

_WORDS: Mapping[str, tuple[str, str, str]] = {  # word, icon, tone; as for targets of the server
    "action": ("Needs you", "alert", "bad"),
    "limited": ("Rate-limited", "timer", "warn"),
    "degraded": ("Backing off", "quarter", "warn"),
    "paused": ("Paused", "pause", "warn"),
    "syncing": ("Syncing", "play", "busy"),
    "ok": ("Working", "check", "good"),
    "idle": ("Nothing to do", "check", "calm"),
    "new": ("Not tried yet", "circle", "calm"),
    "none": ("Not connected", "unplug", "calm"),
    "unset": ("Not set up", "settings", "calm"),
    "off": ("Switched off", "pause", "calm"),
}
CALM = frozenset({"ok", "syncing", "idle", "new"})  # no action needed
_OF_HELD = {"fatal": "action", "retry_after": "limited", "backoff": "degraded", "other": "paused"}
_URGENCY = {name: rank for rank, name in enumerate(_WORDS)}
OPERATIONS: Mapping[str, str] = {
    "plays": "Plays",
    "playlists": "Playlists",
    "ids": "Ids",
    "art": "Pictures",
    "tags": "Tags",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatusLabel:
    """A state for display. *reason* is a whole sentence, or empty."""

    name: str
    reason: str = ""

    @property
    def word(self) -> str:
        return _WORDS[self.name][0]

    @property
    def icon(self) -> str:
        return _WORDS[self.name][1]

    @property
    def tone(self) -> str:
        return _WORDS[self.name][2]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSummary:
    """One operation of a connection. *refused*: it needs new credentials, so a request to sync does not call it."""

    name: str
    word: str
    look: ConnectionStatusLabel
    state: OperationState
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSummary:
    """One provider, for one user."""

    kind: ProviderKind
    row: ConnectionRow | None
    look: ConnectionStatusLabel
    works: tuple[OperationSummary, ...] = ()
    shown: Mapping[str, str]  # entered values that are not secret, by label
    gaps: tuple[Gap, ...] = ()
    ends_at: float | None = None

    @property
    def connected(self) -> bool:
        return self.look.name not in ("none", "unset", "off")

    @property
    def alone(self) -> bool:
        """Return whether it needs nothing from the user."""
        return not asked_for(self.kind) and self.kind.oauth is None

    @property
    def success_at(self) -> float | None:
        """Return the time of the last success of any operation."""
        return max((work.state.success_at for work in self.works if work.state.success_at is not None), default=None)

    @property
    def next_at(self) -> float | None:
        """Return when the first operation is retried automatically."""
        return min((work.state.next_at for work in self.works if work.state.next_at is not None), default=None)

    @property
    def refused(self) -> bool:
        """Return whether an operation needs new credentials."""
        return any(work.refused for work in self.works)

    @property
    def can_be_asked(self) -> bool:
        """Return whether a request to sync leads to a call."""
        refused = bool(self.works) and all(work.refused for work in self.works)
        return self.row is not None and self.row.there and not refused

    @property
    def waits_for(self) -> str:
        """Return when operations continue that are not retried automatically, as text; empty if all are."""
        waiting = [work for work in self.works if work.look.name == "action" and work.state.next_at is None]
        if not waiting:
            return ""
        return "after you reconnect" if self.refused or not self.can_be_asked else "when you ask for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A provider as the operator configured it."""

    kind: ProviderKind
    operator: Mapping[str, str]
    enabled: bool


def status_label(state: OperationState) -> ConnectionStatusLabel:
    if state.held is not None:
        if state.held == "other":
            return ConnectionStatusLabel(
                name="paused", reason="Somebody has paused it; its page among the targets says who."
            )
        said = " ".join(filter(None, (state.message, state.advice if state.held == "fatal" else "")))
        return ConnectionStatusLabel(name=_OF_HELD[state.held], reason=said)
    if state.began_at is not None:
        return ConnectionStatusLabel(name="syncing")
    if state.failures:
        return ConnectionStatusLabel(name="degraded", reason=state.message or "")
    if state.success_at is not None:
        return ConnectionStatusLabel(name="ok")
    if state.tried_at is not None:
        return ConnectionStatusLabel(name="idle", reason="There is nothing in your library to ask it for.")
    return ConnectionStatusLabel(name="new")


def _refused(kind: ProviderKind, state: OperationState, all_of_it: Sequence[OperationState]) -> bool:
    """Return whether it needs new credentials. Other faults are retried on request: they may be over."""
    if state.held != "fatal":
        return False
    # An operation held without a fault is held by that of another.
    codes = [state.code] if state.code else [other.code for other in all_of_it if other.held == "fatal" and other.code]
    reasons = [kind.rules.code_book[code].reason for code in codes if code in kind.rules.code_book]
    return all(reason is Reason.AUTH for reason in reasons)


def line_of(
    offer: Offer, row: ConnectionRow | None, states: Sequence[OperationState], ends_at: float | None = None
) -> ConnectionSummary:
    kind = offer.kind
    named = {field.name: field.label for field in kind.fields}
    shown = {} if row is None else {named[name]: value for name, value in row.shown_values().items() if name in named}
    there = row is not None and row.there
    lacking = [
        field.label for field in kind.fields if field.operator and field.required and not offer.operator.get(field.name)
    ]
    look: ConnectionStatusLabel | None = None
    if not offer.enabled:
        look = ConnectionStatusLabel(name="off", reason="The settings of this server switch it off.")
    elif lacking:
        look = ConnectionStatusLabel(name="unset", reason=f"The settings of this server lack: {', '.join(lacking)}.")
    elif not there and (row is not None or not by_itself(kind, offer.operator)):
        look = ConnectionStatusLabel(name="none")
    if look is not None:
        return ConnectionSummary(kind=kind, row=row, look=look, shown=shown)
    mine = [state for state in states if state.provider == kind.name]
    by_name = {state.operation: state for state in mine}
    works = tuple(
        OperationSummary(
            name=name,
            word=OPERATIONS.get(name, name.capitalize()),
            look=status_label(by_name[name]),
            state=by_name[name],
            refused=_refused(kind, by_name[name], mine),
        )
        for name in map(str, kind.operations)
        if name in by_name
    )
    worst = min(
        (work.look for work in works), key=lambda each: _URGENCY[each.name], default=ConnectionStatusLabel(name="new")
    )
    return ConnectionSummary(kind=kind, row=row, look=worst, works=works, shown=shown, ends_at=ends_at)


# -- access: users see their own music, admins also that of others -----------------------------------------------------

_MAX_NAME = 200
_GAPS_SHOWN, _MAX_GAPS = 7 * 86400.0, 3


def user_of(request: Request, wanted: str = "") -> str:
    """Return the user whose music is requested: the caller, or *wanted* for an admin."""
    me = current_user(request)
    if not wanted or wanted == me:
        return me
    who = current_principal(request)
    if who is None or not who.has_permission(Permission.MANAGE):
        raise Problem("not_allowed", "Only an admin sees the music of others.")
    return wanted[:_MAX_NAME]


def may_reach_loopback(request: Request) -> bool:
    """Return whether the caller may enter servers on this machine: admins only."""
    who = current_principal(request)
    return who is not None and who.has_permission(Permission.MANAGE)


def kind_of(app: Installed[MusicSettings], name: str) -> ProviderKind:
    kind: ProviderKind | None = app.jobs.kinds.get(name)
    if kind is None:
        raise Problem("not_there", f"There is no provider {name[:40]!r}.", status=404)
    return kind


def offer_of(app: Installed[MusicSettings], kind: ProviderKind) -> Offer:
    table = of_kind(app.settings, kind)
    return Offer(kind=kind, operator=operator_values(app.settings, kind), enabled=table.enabled)


def lines_of(app: Installed[MusicSettings], user: str) -> list[ConnectionSummary]:
    """Return every provider for that user."""
    connections: Connections = app.jobs.connections
    rows = {row.provider: row for row in connections.of(user)}
    states = app.db.query_as(OperationState, "states_of", user_id=user)
    gaps = _gaps(app, user)
    anything = any(row.there for row in rows.values())
    lines = []
    # Providers of plays come first, then those that enrich.
    for kind in sorted(app.jobs.kinds.values(), key=lambda each: Operation.PLAYS not in each.operations):
        row = rows.get(kind.name)
        line = line_of(offer_of(app, kind), row, states, _ends(connections, kind, row))
        if row is None and line.connected and not anything:
            line = line_of(offer_of(app, kind), None, [])  # it starts with the first connection of the user
        lines.append(replace(line, gaps=tuple(gaps[kind.name])) if line.connected and kind.name in gaps else line)
    return lines


def _gaps(app: Installed[MusicSettings], user: str) -> dict[str, list[Gap]]:
    """Return the latest gap of each provider, while it is recent."""
    by_provider: dict[str, list[Gap]] = {}
    for provider, since, until in app.db.all("gaps_of", user_id=user, after=app.queue.clock.now() - _GAPS_SHOWN):
        by_provider.setdefault(provider, []).append(Gap(since=since, until=until))
    return {provider: gaps[:_MAX_GAPS] for provider, gaps in by_provider.items()}


def _ends(connections: Connections, kind: ProviderKind, row: ConnectionRow | None) -> float | None:
    """Return when the access expires, if it does."""
    if row is None or not row.there or kind.oauth is None:
        return None
    try:
        return kind.ends(connections.values(row))
    except BadSecret:
        return None


# -- waiting for a requested sync, to show its outcome -----------------------------------------------------------------

AT_A_PAGE = 3.0  # seconds
_POLL_INTERVAL = 0.1
_STAYS = ("retry_after", "other")  # holds that a request does not end, in addition to rejected credentials


def was_served(work: OperationSummary, asked: float, since: float) -> bool:
    """Return whether it was called, or is held regardless of requests, with the credentials of *since*."""
    tried = work.state.tried_at or 0.0
    return tried >= asked or ((work.refused or work.state.held in _STAYS) and tried >= since)


def has_called(works: Sequence[OperationSummary], asked: float) -> bool:
    """Return whether any operation was called since the request."""
    return any((work.state.tried_at or 0.0) >= asked for work in works)


def is_over(works: Sequence[OperationSummary], asked: float, since: float) -> bool:
    """Return whether all operations were served. Those held by the failure of another count as served."""
    tried = has_called(works, asked)
    return bool(works) and all(
        was_served(work, asked, since) or (tried and work.state.held is not None) for work in works
    )


def wait_for_sync(
    app: Installed[MusicSettings], user: str, kind: ProviderKind, asked: float, limit: float
) -> ConnectionSummary | None:
    """Return the status of a provider after it was called or blocked since *asked*; None after *limit* seconds."""
    end = time.monotonic() + limit
    while True:
        line = next(summary for summary in lines_of(app, user) if summary.kind.name == kind.name)
        if is_over(line.works, asked, 0.0 if line.row is None else line.row.connected_at):
            return line
        if time.monotonic() >= end:
            return None
        time.sleep(_POLL_INTERVAL)


def outcome(kind: ProviderKind, done: str, line: ConnectionSummary | None) -> tuple[str, str]:
    """Return the text and tone for a page. *done*: what the user did, as in "is connected"."""
    if line is None:
        return f"{kind.title} {done}; its first answer is still to come.", "good"
    if line.look.name in CALM:
        return f"{kind.title} {done}, and works.", "good"
    return f"{kind.title} {done}, but all is not well: {line.look.reason or line.look.word}", "warn"
