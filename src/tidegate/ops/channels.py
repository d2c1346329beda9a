"""The channels as people see them: where each leads, what it is told, and how its last delivery went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.store import channel_rows
from tidegate.store.channel_rows import ChannelRow
from tidegate.store.telling_rows import Delivery
from tidegate.store.tx import Tx

# How a channel stands: the word, the tone and the icon of it.
STATES = {
    "off": ("Switched off", "bad", "stop"),
    "failing": ("Failing", "bad", "alert"),
    "ok": ("Working", "good", "check"),
    "new": ("Not tried yet", "calm", "circle"),
}
_LEVELS = {"info": "everything", "success": "everything", "warning": "warnings and errors", "error": "errors"}


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """One channel of the settings. No secret is part of it."""

    row: ChannelRow

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def token(self) -> str:
        """Of `STATES`."""
        row = self.row
        if row.disabled_at is not None:
            return "off"
        if row.last_ok is False or self._failed_its_test:
            return "failing"
        return "ok" if row.last_ok or row.tested_ok else "new"

    @property
    def _failed_its_test(self) -> bool:
        """Whether it did, and has delivered nothing since."""
        row = self.row
        return row.tested_ok is False and (row.last_at is None or row.last_at < (row.tested_at or 0.0))

    @property
    def fails(self) -> bool:
        """Whether it does not deliver."""
        return self.token in ("off", "failing")

    @property
    def word(self) -> str:
        return STATES[self.token][0]

    @property
    def tone(self) -> str:
        return STATES[self.token][1]

    @property
    def icon(self) -> str:
        return STATES[self.token][2]

    @property
    def reason(self) -> str:
        """Why it does not deliver; empty when it does."""
        row = self.row
        if not self.fails:
            return ""
        return row.disabled_why or (row.last_why if row.last_ok is False else row.tested_why) or ""

    @property
    def told(self) -> str:
        """What it is told, in words."""
        return "what others cannot deliver" if self.row.standby else _LEVELS[self.row.level]

    def as_json(self) -> dict[str, Any]:
        row = self.row
        return {
            "name": row.name, "kind": row.kind, "leads_to": row.shown, "level": row.level, "order": row.place,
            "standby": row.standby, "state": self.token, "word": self.word, "reason": self.reason,
            "last_at": row.last_at, "last_ok": row.last_ok, "tested_at": row.tested_at, "tested_ok": row.tested_ok,
            "disabled_at": row.disabled_at,
        }  # fmt: skip


def channels(tx: Tx) -> list[ChannelReport]:
    """Those of the settings, in their order."""
    return [ChannelReport(row) for row in channel_rows.every(tx) if row.there]


def failing(tx: Tx) -> list[ChannelReport]:
    """Those that do not deliver."""
    return [channel for channel in channels(tx) if channel.fails]


def what_became(delivery: Delivery) -> str:
    """One delivery in words: delivered, on its way, or why not."""
    instead = f", instead of {delivery.instead_of}" if delivery.instead_of else ""
    match delivery.state:
        case "delivered":
            return f"delivered{instead}"
        case "failed":
            return f"not delivered: {delivery.why or 'it gave up.'}"
    return f"on its way{instead}"
