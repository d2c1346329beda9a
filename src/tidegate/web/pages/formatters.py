"""Text for pages: times, numbers, state labels and event lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any
from urllib.parse import quote

from tidegate.guard.breaker_policy import TripReason
from tidegate.labels import JOBS, TARGETS, StateLabel, opened_because
from tidegate.targets.table import TargetEvent

# -- times and numbers -------------------------------------------------------------------------------------------------
#
# Pure functions: the current time is an argument.

_UNITS = ((86400.0, "day"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_FAR = 30 * 86400.0
_WEEK = 6 * 86400.0


def span(seconds: float, *, nearest: bool = False) -> str:
    """Format a duration in its largest unit, rounded down: 40 -> '40 s', 750 -> '12 min', 9e4 -> '1 day'.

    *nearest* rounds to the nearest unit instead.
    """
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    for size, unit in _UNITS:
        if seconds >= size:
            n = math.floor(seconds / size + 0.5 * nearest)
            return f"{n} {unit}{'s' if unit == 'day' and n != 1 else ''}"
    return "1 s"


def took(seconds: float) -> str:
    """Format a measured duration: '85 ms', '2.4 s', '3 min'."""
    if 1 <= seconds < 10:
        return f"{seconds:.1f} s"
    return span(seconds)


def relative(at: float, now: float) -> str:
    """Format a time relative to now: '12 min ago', 'in 4 min', 'just now'. A date if it is more than a month away.

    Future times round to the nearest unit, past times round down.
    """
    away = at - now
    if abs(away) >= _FAR:
        return f"{_local(at):%Y-%m-%d}"
    if abs(away) < 1:
        return "just now"
    return f"in {span(math.ceil(away), nearest=True)}" if away > 0 else f"{span(-away)} ago"


def clock(at: float, now: float, zone: tzinfo | None = None) -> str:
    """Format the time of day, with the day unless it is today: '14:30', 'Thu 09:00', '2026-11-20 14:30'."""
    then, today = _local(at, zone), _local(now, zone)
    if then.date() == today.date():
        return f"{then:%H:%M}"
    return f"{then:%a %H:%M}" if abs(at - now) < _WEEK else f"{then:%Y-%m-%d %H:%M}"


def to_the_second(at: float, now: float, zone: tzinfo | None = None) -> str:
    """Format '14:02:11', with the date unless it is today."""
    then = _local(at, zone)
    return f"{then:%H:%M:%S}" if then.date() == _local(now, zone).date() else f"{then:%Y-%m-%d %H:%M:%S}"


def absolute(at: float, zone: tzinfo | None = None) -> str:
    """Format to the second, with the zone: '2026-11-15 14:02:11 UTC'."""
    return f"{_local(at, zone):%Y-%m-%d %H:%M:%S %Z}"


def machine(at: float) -> str:
    """Format for the `datetime` attribute of a `time` element."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def zone_name(now: float) -> str:
    return _local(now).tzname() or "UTC"


def number(n: float) -> str:
    """Format with thousands separators: 12345 -> '12,345'."""
    return f"{n:,}"


def many(n: int, thing: str, things: str = "") -> str:
    """Format a count with its noun: '1 job', '12 jobs'."""
    return f"{number(n)} {thing if n == 1 else things or thing + 's'}"


def _local(at: float, zone: tzinfo | None = None) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(zone)


# -- states ------------------------------------------------------------------------------------------------------------
#
# The labels of `admin.labels`, and those of workers, tabs and breakers.

OTHERS: Mapping[str, StateLabel] = {
    # workers
    "there": StateLabel("At work", "play", "good", {"": "it takes jobs, and says every few seconds that it is there."}),
    "late": StateLabel("Late", "clock", "warn", {"": "it has missed a heartbeat, and may come back."}),
    "gone": StateLabel("Lost", "unplug", "bad", {"": "it was not heard of for 35 s; what it held is taken over."}),
    "stopping": StateLabel("Stopping", "stop", "calm", {"": "it takes nothing new, and ends what it has."}),
    "outdated": StateLabel(
        "Outdated", "alert", "bad", {"": "older than the database: it takes no jobs. Update and restart it."}
    ),
    "no_worker": StateLabel("No worker", "unplug", "bad", {"": "nobody works on this queue."}),
    # stages of a job, for tabs and filters
    "ready": StateLabel("Ready", "list", "calm", {"": "may go as soon as a worker takes it."}),
    "waiting": StateLabel("Waiting for a time", "clock", "calm", {"": "is due later."}),
    # breaker states
    "closed": StateLabel("Closed", "check", "good", {"": "calls go through."}),
    "half-open": StateLabel("Half-open", "half", "warn", {"": "a few calls try it."}),
}
NEEDS: Mapping[str, tuple[str, str]] = {  # kind of action item -> tone, icon
    "fatal": ("bad", "key"),
    "unclassified": ("bad", "help"),
    "failed": ("bad", "cross"),
    "stuck": ("warn", "hourglass"),
    "no_worker": ("bad", "unplug"),
    "paused": ("calm", "pause"),
    "channel": ("bad", "notices"),
}
_UNKNOWN = StateLabel("Unknown", "help", "calm", {"": "nothing is known of it."})


def of(token: str) -> StateLabel:
    """Return the label of a state, "unknown" for an unknown one."""
    return TARGETS.get(token) or JOBS.get(token) or OTHERS.get(token) or _UNKNOWN


def of_need(kind: str) -> StateLabel:
    tone, icon = NEEDS.get(kind, ("warn", "alert"))
    return StateLabel("", icon, tone, {})


_AUTOMATIC_ACTORS = ("worker", "probe", "")  # actors that are not shown: automatic events have no user
# The actor of these events only detected them.
_NOTICED = frozenset({"target_fatal", "target_recovered", "own_link_lost", "own_link_back", "call_failed"})


@dataclass(frozen=True, slots=True)
class EventLine:
    tone: str
    icon: str
    text: str
    subject: str = ""
    path: str = ""
    by: str = ""


_BREAKER = {
    "open": ("warn", "breaker", "is paused by its breaker"),
    "half-open": ("busy", "half", "is being tested: a few jobs try it"),
    "closed": ("good", "check", "works again: its breaker is closed"),
}

Row = tuple[str, str, Callable[[Mapping[str, Any], float], str]]


def _plain(text: str) -> Callable[[Mapping[str, Any], float], str]:
    return lambda fields, at: text


def _until(text: str) -> Callable[[Mapping[str, Any], float], str]:
    def said(fields: Mapping[str, Any], at: float) -> str:
        end = fields.get("until")
        return f"{text} until {clock(float(end), at)}" if isinstance(end, (int, float)) else text

    return said


def _failed(text: str) -> Callable[[Mapping[str, Any], float], str]:
    def said(fields: Mapping[str, Any], _: float) -> str:
        message = str(fields.get("message") or "").rstrip(".")
        return f"{text}: {message}" if message else text

    return said


_KINDS: dict[str, Row] = {
    "target_fatal": ("bad", "alert", _failed("needs you")),
    "target_recovered": ("good", "check", _plain("works again")),
    "target_disabled": ("warn", "moon", _until("rests")),
    "target_enabled": ("good", "check", _plain("was enabled")),
    "target_paused": ("calm", "pause", _until("was paused")),
    "target_resumed": ("good", "play", _plain("goes on")),
    "target_cleared": ("good", "again", _plain("was cleared: what was held against it is forgotten")),
    "queue_paused": ("calm", "pause", _until("was paused")),
    "queue_resumed": ("good", "play", _plain("goes on")),
    "target_tested": ("busy", "half", lambda fields, at: f"is tested: job {fields.get('job', '')} tries it"),
    "breaker_reset": ("good", "again", _plain("had its breaker reset")),
    "own_link_lost": ("warn", "unplug", _plain("fails as many others do: our own network may be down")),
    "own_link_back": ("good", "check", _plain("answers: our own network is back")),
    "call_failed": ("warn", "cross", _failed("failed")),
    "jobs_forgotten": (
        "calm",
        "close",
        lambda fields, at: f"has forgotten {many(int(fields.get('jobs', 0)), 'job')}",
    ),
    "job_forgotten": ("calm", "close", lambda fields, at: f"has forgotten job {fields.get('job', '')}"),
}


def describe_event(event: TargetEvent) -> EventLine:
    """Return the line of an event. An unknown kind shows its name."""
    by = "" if event.actor in _AUTOMATIC_ACTORS or event.kind in _NOTICED else event.actor
    if event.kind == "breaker_state_changed":
        tone, icon, text = _BREAKER.get(str(event.fields.get("to")), ("calm", "info", "has a breaker that changed"))
        end = event.fields.get("until")
        if by and isinstance(end, (int, float)):
            text = f"is held by its breaker until {clock(float(end), event.at)}"
        else:
            by = ""  # a worker or program whose calls caused it
            reason = TripReason.load(event.fields.get("opened"))
            text = text if reason is None else f"{text}: {opened_because(reason, reason.run)}"
    else:
        tone, icon, describe = _KINDS.get(event.kind, ("calm", "info", _plain(event.kind.replace("_", " "))))
        text = describe(event.fields, event.at)
    where = f"/{'targets' if event.subject == 'target' else 'queue'}/{quote(event.name, safe='')}"
    shown = f"(key {event.lane}) {text}" if event.lane else text
    return EventLine(tone, icon, shown, event.name, where, by)


_JOB: dict[str, tuple[str, str, str]] = {
    "queued": ("calm", "list", "was put in"),
    "refused": ("bad", "cross", "was refused at intake"),
    "processing": ("busy", "play", "is under way"),
    "done": ("good", "done", "is done"),
    "again": ("warn", "again", "failed and will be tried again"),
    "trial": ("warn", "again", "failed as a trial call, which does not count, and will be tried again"),
    "failed": ("bad", "cross", "failed for good"),
    "cancelled": ("calm", "stop", "was cancelled"),
    "cancel_asked": ("calm", "stop", "was asked to stop"),
    "given_back": ("calm", "again", "was given back before anything was sent"),
    "lost": ("warn", "unplug", "lost its worker"),
    "brought_forward": ("busy", "play", "was brought forward, to test its target"),
    "restored": ("calm", "again", "was queued again: the database was put back"),
    "stale_result": ("calm", "info", "had a late result that does not count"),
    "retried": ("busy", "again", "was queued again"),
    "barred": ("calm", "stop", "cannot be retried any more: what it would need is gone"),
    "expired": ("bad", "clock", "waited too long"),
}


# Tone and icon of every line, for a test.
ROWS = [row[:2] for table in (_BREAKER, _KINDS, _JOB) for row in table.values()]


def of_job(kind: str) -> EventLine:
    tone, icon, text = _JOB.get(kind, ("calm", "info", kind.replace("_", " ")))
    return EventLine(tone, icon, text)
