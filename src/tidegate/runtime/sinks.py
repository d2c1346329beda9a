"""Where events go after the fact: the log and the metrics. Never in the way of a call."""

from __future__ import annotations

import logging
from typing import Any

from tidegate.core.events import Event, EventKind
from tidegate.core.fault import Level
from tidegate.runtime.bus import DEFAULT, Bus

_log = logging.getLogger("tidegate")

_LEVELS = {
    EventKind.TARGET_FATAL: Level.ERROR,
    EventKind.TARGET_DISABLED: Level.WARN,
    EventKind.OWN_LINK_LOST: Level.ERROR,
}


def log_event(event: Event) -> None:
    """One line per event: its name and its fields, at the level of its fault."""
    if event.kind is EventKind.BREAKER_STATE_CHANGED:
        return  # the breaker logs its own transitions, also where no sink is attached
    level = level_of(event)
    if not _log.isEnabledFor(level):
        return
    fields = fields_of(event)
    _log.log(level, "%s", line(str(event.kind), fields), extra={"event": str(event.kind), "fields": fields})


def level_of(event: Event) -> int:
    if event.kind is EventKind.CALL_FAILED and event.fault is not None:
        return event.fault.level.number
    return _LEVELS.get(event.kind, Level.INFO).number


def fields_of(event: Event) -> dict[str, Any]:
    """What the log says of an event, in a fixed order."""
    found: dict[str, Any] = {"target": event.target}
    for name in ("key", "operation"):
        if getattr(event, name) is not None:
            found[name] = getattr(event, name)
    if event.fault is not None:
        fault = event.fault
        found |= {"code": fault.code, "status": fault.status, "rule": fault.rule, "error": fault.detail}
    if event.notice is not None:
        found |= {"notice": str(event.notice.kind), "title": event.notice.title}
    return found | dict(event.fields)


def line(name: str, fields: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={_shown(value)}" for key, value in fields.items())])


def _shown(value: object) -> str:
    text = str(value)
    return repr(text) if not text or not text.isprintable() or " " in text or '"' in text else text


def sinks(*, log: bool | None = None, metrics: Any = None, bus: Bus = DEFAULT) -> None:
    """Sends the events of this process to the log (True or False), and its breakers to a Prometheus registry.

    tidegate.sinks(log=True, metrics=prometheus_client.REGISTRY)
    """
    if log is not None:
        (bus.attach if log else bus.detach)(log_event)
    if metrics is not None:
        from tidegate.runtime.metrics import register

        register(metrics)
