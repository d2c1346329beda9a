"""How entries and wakes read to people: one word with an icon, and a line that says why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tidegate_apps.lidarr.states import SubmissionEntry
from tidegate_apps.lidarr.wake import CycleReport

_REASONS = {
    "permanent": "It was given up at once: it would fail again.",
    "artist": "A retry tries the artist again, too.",
}
_WORDS = {
    "ready": ("queued", "Queued", "In line for the next wake."),
    "running": ("running", "Being sent", ""),
    "blocked": ("blocked", "Waits for its artist", "It is sent once Lidarr has accepted the artist."),
    "done": ("done", "Submitted", ""),
    "cancelled": ("cancelled", "Cancelled", "A person has cancelled it; it is not sent unless that is undone."),
}


@dataclass(frozen=True, slots=True)
class EntryStatusLabel:
    """*token* is one of the server's states of jobs."""

    token: str
    word: str
    reason: str


def status_label(entry: SubmissionEntry, now: float, held: str = "", cause: str = "") -> EntryStatusLabel:
    """*held* says what keeps all of them at the moment, *cause* why the artist of this one was not accepted."""
    if entry.stage == "ready" and held:
        return EntryStatusLabel(*_WORDS["ready"][:2], held)
    if entry.stage == "waiting" and entry.retry_at is not None:
        count = f"({entry.attempts}/{entry.most_attempts})"
        left = entry.retry_at - now
        word = f"Retrying in {format_duration(left)} {count}" if left > 0 else f"Retrying at the next wake {count}"
        return EntryStatusLabel("retrying", word, entry.last_error or "")
    if entry.stage == "waiting":
        return EntryStatusLabel(
            "scheduled", "Held", "The metadata service behind Lidarr is down; it is tried again by itself."
        )
    if entry.stage == "failed":
        why = _REASONS.get(entry.terminal_reason or "", f"It was tried {entry.attempts} times.")
        error = f"{(entry.last_error or '').removesuffix('.')}: {cause}" if cause else entry.last_error or ""
        return EntryStatusLabel("failed", "Gave up", f"{error} {why}".strip())
    return EntryStatusLabel(*_WORDS[entry.stage])


def format_duration(seconds: float) -> str:
    """How long, for people: 40 s, 4 min, 2 h."""
    whole = max(1, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    return f"{math.ceil(whole / 60)} min" if whole < 5400 else f"{round(whole / 3600)} h"


def look_words(look: tuple[Any, ...]) -> str:
    """What the last look through the library did."""
    _, looked, found, queued, message = look
    said = f"{looked} looked for, {found} found there, {queued} put into the queue."
    return f"{said} {message}".strip() if looked or not message else message


def looking_words(state: str) -> str:
    """What stands before the time since when the library is looked through, or when that goes on."""
    return {"running": "Under way, begun", "waiting": "It goes on by itself"}[state]


def held_words(last: CycleReport | None, *, full: bool) -> str:
    """What keeps entries that are ready; nothing when they merely wait for the next wake."""
    if last is not None and last.outcome == "held":
        return f"Held: {last.message}"
    return "Lidarr is full; it goes once there is room." if full else ""


def woken_words(woken: CycleReport) -> str:
    """What a wake did, in a sentence or two."""
    if woken.outcome == "nothing":
        return woken.message
    parts = [f"{woken.submitted} of {woken.eligible} were sent"]
    if woken.failed:
        parts.append(f"{woken.failed} failed")
    return f"{', '.join(parts)}. {woken.message}".strip()
