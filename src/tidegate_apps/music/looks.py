"""How a connection is, in words: one place for page, API and command line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.faults import Reason
from tidegate_apps.music.connections import ConnectionRow
from tidegate_apps.music.contract import Gap
from tidegate_apps.music.entering import asked_for, by_itself
from tidegate_apps.music.kind import ProviderKind
from tidegate_apps.music.states import OperationState

_WORDS: Mapping[str, tuple[str, str, str]] = {  # word, icon, tone; as targets of the server have them
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
CALM = frozenset({"ok", "syncing", "idle", "new"})  # nobody need look at it
_OF_HELD = {"fatal": "action", "retry_after": "limited", "backoff": "degraded", "other": "paused"}
_URGENCY = {name: rank for rank, name in enumerate(_WORDS)}
OPERATIONS: Mapping[str, str] = {
    "plays": "Plays", "playlists": "Playlists", "ids": "Ids", "art": "Pictures", "tags": "Tags",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatusLabel:
    """A state as people see it. *reason* is a whole sentence, or empty."""

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
    """One operation of a connection. *refused*: it waits for other credentials, and is not called whoever asks."""

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
    shown: Mapping[str, str]  # what was entered and is no secret, by label
    gaps: tuple[Gap, ...] = ()
    ends_at: float | None = None

    @property
    def connected(self) -> bool:
        return self.look.name not in ("none", "unset", "off")

    @property
    def alone(self) -> bool:
        """It needs nothing of the user."""
        return not asked_for(self.kind) and self.kind.oauth is None

    @property
    def success_at(self) -> float | None:
        """When something of it last went well."""
        return max((work.state.success_at for work in self.works if work.state.success_at is not None), default=None)

    @property
    def next_at(self) -> float | None:
        """When the first of it is tried again by itself."""
        return min((work.state.next_at for work in self.works if work.state.next_at is not None), default=None)

    @property
    def refused(self) -> bool:
        """Something of it waits until it is reconnected."""
        return any(work.refused for work in self.works)

    @property
    def can_be_asked(self) -> bool:
        """Whether somebody who asks for a call gets one."""
        refused = bool(self.works) and all(work.refused for work in self.works)
        return self.row is not None and self.row.there and not refused

    @property
    def waits_for(self) -> str:
        """When something of it is tried that is not tried by itself, in words; empty when all of it is."""
        waiting = [work for work in self.works if work.look.name == "action" and work.state.next_at is None]
        if not waiting:
            return ""
        return "after you reconnect" if self.refused or not self.can_be_asked else "when you ask for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A provider as the operator has set it up."""

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
    """Whether it waits for other credentials. Any other fault is tried when somebody asks: it may be over."""
    if state.held != "fatal":
        return False
    # One that was held without a fault of its own is held by that of another.
    codes = [state.code] if state.code else [each.code for each in all_of_it if each.held == "fatal" and each.code]
    found = [kind.rules.code_book[code].reason for code in codes if code in kind.rules.code_book]
    return all(reason is Reason.AUTH for reason in found)


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
    by_name = {each.operation: each for each in mine}
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
