"""How a connection is, in words: one place for page, API and command line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.faults import Reason
from tidegate_apps.music.connections import Row
from tidegate_apps.music.contract import Gap
from tidegate_apps.music.entering import asked_for, by_itself
from tidegate_apps.music.kind import Kind
from tidegate_apps.music.states import State

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
class Look:
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
class Work:
    """One operation of a connection. *refused*: it waits for other credentials, and is not called whoever asks."""

    name: str
    word: str
    look: Look
    state: State
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One provider, for one user."""

    kind: Kind
    row: Row | None
    look: Look
    works: tuple[Work, ...] = ()
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
        return max((each.state.success_at for each in self.works if each.state.success_at is not None), default=None)

    @property
    def next_at(self) -> float | None:
        """When the first of it is tried again by itself."""
        return min((each.state.next_at for each in self.works if each.state.next_at is not None), default=None)

    @property
    def refused(self) -> bool:
        """Something of it waits until it is reconnected."""
        return any(each.refused for each in self.works)

    @property
    def can_be_asked(self) -> bool:
        """Whether somebody who asks for a call gets one."""
        refused = bool(self.works) and all(each.refused for each in self.works)
        return self.row is not None and self.row.there and not refused

    @property
    def waits_for(self) -> str:
        """When something of it is tried that is not tried by itself, in words; empty when all of it is."""
        waiting = [each for each in self.works if each.look.name == "action" and each.state.next_at is None]
        if not waiting:
            return ""
        return "after you reconnect" if self.refused or not self.can_be_asked else "when you ask for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A provider as the operator has set it up."""

    kind: Kind
    operator: Mapping[str, str]
    enabled: bool


def look_of(state: State) -> Look:
    if state.held is not None:
        if state.held == "other":
            return Look(name="paused", reason="Somebody has paused it; its page among the targets says who.")
        said = " ".join(filter(None, (state.message, state.advice if state.held == "fatal" else "")))
        return Look(name=_OF_HELD[state.held], reason=said)
    if state.began_at is not None:
        return Look(name="syncing")
    if state.failures:
        return Look(name="degraded", reason=state.message or "")
    if state.success_at is not None:
        return Look(name="ok")
    if state.tried_at is not None:
        return Look(name="idle", reason="There is nothing in your library to ask it for.")
    return Look(name="new")


def _refused(kind: Kind, state: State, all_of_it: Sequence[State]) -> bool:
    """Whether it waits for other credentials. Any other fault is tried when somebody asks: it may be over."""
    if state.held != "fatal":
        return False
    # One that was held without a fault of its own is held by that of another.
    codes = [state.code] if state.code else [each.code for each in all_of_it if each.held == "fatal" and each.code]
    found = [kind.rules.book[code].reason for code in codes if code in kind.rules.book]
    return all(reason is Reason.AUTH for reason in found)


def line_of(offer: Offer, row: Row | None, states: Sequence[State], ends_at: float | None = None) -> Line:
    kind = offer.kind
    named = {each.name: each.label for each in kind.fields}
    shown = {} if row is None else {named[name]: value for name, value in row.shown_values().items() if name in named}
    there = row is not None and row.there
    lacking = [
        each.label for each in kind.fields if each.operator and each.required and not offer.operator.get(each.name)
    ]
    look: Look | None = None
    if not offer.enabled:
        look = Look(name="off", reason="The settings of this server switch it off.")
    elif lacking:
        look = Look(name="unset", reason=f"The settings of this server lack: {', '.join(lacking)}.")
    elif not there and (row is not None or not by_itself(kind, offer.operator)):
        look = Look(name="none")
    if look is not None:
        return Line(kind=kind, row=row, look=look, shown=shown)
    mine = [each for each in states if each.provider == kind.name]
    by_name = {each.operation: each for each in mine}
    works = tuple(
        Work(
            name=name, word=OPERATIONS.get(name, name.capitalize()), look=look_of(by_name[name]), state=by_name[name],
            refused=_refused(kind, by_name[name], mine),
        )
        for name in map(str, kind.operations)
        if name in by_name
    )  # fmt: skip
    worst = min((each.look for each in works), key=lambda each: _URGENCY[each.name], default=Look(name="new"))
    return Line(kind=kind, row=row, look=worst, works=works, shown=shown, ends_at=ends_at)
