"""An event in one line for people: what it is about, what happened, who did it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tidegate.machine.opened import TripReason
from tidegate.ops.words import opened_because
from tidegate.store.gate_rows import TargetEvent
from tidegate.web.pages import times

_NOBODY = ("worker", "probe", "")  # what happens by itself has no actor for people
# Whoever noticed these did not do them.
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
        return f"{text} until {times.clock(float(end), at)}" if isinstance(end, (int, float)) else text

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
        lambda fields, at: f"has forgotten {times.many(int(fields.get('jobs', 0)), 'job')}",
    ),
    "job_forgotten": ("calm", "close", lambda fields, at: f"has forgotten job {fields.get('job', '')}"),
}


def describe_event(event: TargetEvent) -> EventLine:
    """The line of an event; one of an unknown kind is told by its name."""
    by = "" if event.actor in _NOBODY or event.kind in _NOTICED else event.actor
    if event.kind == "breaker_state_changed":
        tone, icon, text = _BREAKER.get(str(event.fields.get("to")), ("calm", "info", "has a breaker that changed"))
        end = event.fields.get("until")
        if by and isinstance(end, (int, float)):
            text = f"is held by its breaker until {times.clock(float(end), event.at)}"
        else:
            by = ""  # a worker or a program, whose calls moved it
            why = TripReason.load(event.fields.get("opened"))
            text = text if why is None else f"{text}: {opened_because(why, why.run)}"
    else:
        tone, icon, say = _KINDS.get(event.kind, ("calm", "info", _plain(event.kind.replace("_", " "))))
        text = say(event.fields, event.at)
    where = f"/{'targets' if event.subject == 'target' else 'queue'}/{quote(event.name, safe='')}"
    shown = f"(key {event.lane}) {text}" if event.lane else text
    return EventLine(tone, icon, shown, event.name, where, by)


_JOB: dict[str, tuple[str, str, str]] = {
    "queued": ("calm", "list", "was put in"),
    "refused": ("bad", "cross", "was refused at intake"),
    "processing": ("busy", "play", "is under way"),
    "done": ("good", "done", "is done"),
    "again": ("warn", "again", "failed and will be tried again"),
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


# Tone and icon of every line, for a test to look at.
ROWS = [row[:2] for table in (_BREAKER, _KINDS, _JOB) for row in table.values()]


def of_job(kind: str) -> EventLine:
    tone, icon, text = _JOB.get(kind, ("calm", "info", kind.replace("_", " ")))
    return EventLine(tone, icon, text)
