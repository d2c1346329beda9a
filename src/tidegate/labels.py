"""Labels of states for page, API and CLI: icon, word and reason, so that colour is never the only sign."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.guard.breaker_policy import OpenedBy, TripReason


@dataclass(frozen=True, slots=True)
class StateLabel:
    """The label of one state. *lines* are templates of the reason by situation; '' is the usual one."""

    word: str
    icon: str
    tone: str  # "good", "busy", "warn", "bad", "calm"
    lines: Mapping[str, str]

    def line(self, situation: str = "", /, **values: Any) -> str:
        """The reason in one line, with a full stop."""
        text = self.lines[situation].format(**values)
        return text[:1].upper() + text[1:]


# In order of urgency: if several apply to a target, the first is shown.
TARGETS: Mapping[str, StateLabel] = {
    "action": StateLabel("Needs you", "alert", "bad", {
        "": "{who} refused: {said} A person must act, and then clear it.",
        "asked": "{who} refused: {said} It is asked again {when}; a person can clear it before.",
        "program": "it refuses our access; somebody must connect it again.",
    }),
    "paused": StateLabel("Paused", "pause", "calm", {
        "": "paused by {by}; it goes on {when}, or when it is resumed.",
        "program": "a program has paused it.",
    }),
    "open": StateLabel("Paused by breaker", "breaker", "bad", {
        "": "{failed}; no call for {age}, a few try it {when}.",
        "forced": "opened by {by}; it stays so until it is closed.",
        "forced_until": "opened by {by}; a few calls try it {when}.",
        "probed": "{failed}; no call for {age}, it is asked every {every} whether it is well again.",
        "endless": "{failed}; no call for {age}, a person must close it.",
        "program": "{failed}; no call is made for now.",
        "program_until": "{failed}{code}; no call is made, a few try it {when}.",
    }),
    "probing": StateLabel("Testing recovery", "half", "warn", {
        "": "{good} of {most} trial calls were good.",
        "due": "{failed}; its time is over, the next call tries it.",
        "program": "a few calls try it.",
    }),
    "disabled": StateLabel("Resting", "moon", "warn", {
        "": "{who} failed too often{code}; tried again {when}.",
        "ordered": "{who} disabled by {by}; tried again {when}.",
        "endless": "{who} disabled by {by}; a person must enable it.",
        "program": "it rests.",
        "program_until": "it rests{code}; tried again {when}.",
    }),
    "limited": StateLabel("Rate-limited", "timer", "warn", {
        "": "{who} asked to wait; tried again {when}.",
        "program": "it asked to wait.",
        "program_until": "it asked to wait; tried again {when}.",
    }),
    "degraded": StateLabel("Backing off", "quarter", "warn", {
        "": "{who} failed {times}{code}; tried again {when}.",
        "program": "calls fail; they are tried again.",
        "program_until": "calls fail{code}; tried again {when}.",
    }),
    "silent": StateLabel("No news", "wave", "calm", {"": "the program that reports it was last heard of {age} ago."}),
    "full": StateLabel("Full", "hourglass", "busy", {"": "{taken} of {cap} places are taken; jobs wait for room."}),
    "ok": StateLabel("Working", "check", "good", {
        "": "nothing holds its calls.",
        "counted": "{bad} of the last {requests} calls failed.",
        "counted_well": "none of the last {requests} calls failed.",
        "once_well": "the last call did not fail.",
        "once_failed": "the last call failed.",
        "again": "well again for {age}.",
        "program": "it is called, and nothing holds it.",
    }),
    "new": StateLabel("Not tried yet", "circle", "calm", {"": "no call yet."}),
}  # fmt: skip

JOBS: Mapping[str, StateLabel] = {
    "blocked": StateLabel("Blocked", "link", "calm", {"": "waits for another job to be done."}),
    "scheduled": StateLabel("Scheduled", "clock", "calm", {"": "due {when}."}),
    "retrying": StateLabel("Retrying", "again", "warn", {
        "": "attempt {attempt} of {most} ended{code}; the next one {when}.",
    }),
    "queued": StateLabel("Queued", "list", "calm", {
        "": "in line for {age}.", "target": "in line for {target} for {age}.",
        "shut": "held by the breaker of {target}.", "paused": "held while {target} is paused.",
        "full": "waits for room: {target} is full.",
    }),
    "running": StateLabel("Running", "play", "busy", {"": "attempt {attempt} of {most}."}),
    "done": StateLabel("Done", "check", "good", {"": "done {age} ago, at attempt {attempt}."}),
    "failed": StateLabel("Failed", "cross", "bad", {
        "": "gave up {age} ago{code}, at attempt {attempt} of {most}.",
        "refused": "refused {age} ago{code}; it was never tried.",
    }),
    "expired": StateLabel("Expired", "hourglass", "bad", {"": "waited too long to be of use; ended {age} ago."}),
    "cancelled": StateLabel("Cancelled", "stop", "calm", {"": "cancelled {age} ago."}),
}  # fmt: skip

# Why a breaker opened, as a clause. If an operator opened it, their name is shown instead.
_OPENED: Mapping[str, str] = {
    OpenedBy.RATIO: "{failures} of {requests} calls failed",
    OpenedBy.RULE: "its own rule opened it, at {failures} of {requests} failed calls",
    OpenedBy.HALF_OPEN: "a trial call failed, as calls did before",
    OpenedBy.PROBE: "a call failed, and then its health probe too",
}

NEED_YOU = frozenset({"action"})
RECOVERING = frozenset({"probing"})
PAUSED = frozenset({"paused"})
HELD_UP = frozenset({"open", "disabled", "limited", "degraded", "silent"})
FULL = frozenset({"full"})
WELL = frozenset({"ok", "new"})
URGENCY: Mapping[str, int] = {token: rank for rank, token in enumerate(TARGETS)}


_UNITS = ((86400, "day"), (3600, "h"), (60, "min"), (1, "s"))


def format_duration(seconds: float, *, nearest: bool = False) -> str:
    """A duration in one unit: 40 s, 12 min, 3 h, 2 days. Rounds down, or to the *nearest* unit."""
    whole = max(1, round(seconds))
    size, unit = next(entry for entry in _UNITS if whole >= entry[0])
    return _of_unit(math.floor(whole / size + 0.5 * nearest), unit)


def spell_duration(seconds: float) -> str:
    """A duration in up to two units, for countdowns: 1 min 30 s, 2 h 5 min."""
    rest, parts = max(1, math.ceil(seconds)), list[str]()
    for size, unit in _UNITS:
        n, rest = divmod(rest, size)
        parts += [_of_unit(n, unit)] if n else []
    return " ".join(parts[:2])


def _of_unit(n: int, unit: str) -> str:
    return f"{n} {unit}{'s' if unit == 'day' and n != 1 else ''}"


def ahead(moment: float | None, now: float) -> str:
    """The time until *moment*: "in 12 min" or "now"."""
    return "now" if moment is None or moment <= now else f"in {format_duration(moment - now, nearest=True)}"


def in_brackets(code: str | None) -> str:
    return f" ({code})" if code else ""


def many(n: int, what: str) -> str:
    """1 job, 2 jobs, 10,000 jobs."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def opened_because(why: TripReason | None, run: int) -> str:
    """Why a breaker opened. *run*: its consecutive failures, used if the rule was not recorded."""
    if why is None or why.rule not in _OPENED:
        return failed_so_often(run)
    return _OPENED[why.rule].format(failures=why.failures, requests=why.requests)


def failed_so_often(run: int) -> str:
    if run == 1:
        return "it failed"
    return f"it failed {many(run, 'time')} in a row" if run else "too many calls failed"
